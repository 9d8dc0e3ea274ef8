"""Variables: state that lives between runs, its scopes and its initialisation."""
