"""Tools for testing, used by our own tests and shipped for users'."""
