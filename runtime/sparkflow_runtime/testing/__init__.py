"""Tools to test with, shipped for users' tests and used by our own."""
