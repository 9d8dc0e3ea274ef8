"""Files by path or URI: on this host, and in storage supported by pyarrow. Not their formats."""
