"""How tasks reach each other: channels, message codec, status mapping."""
