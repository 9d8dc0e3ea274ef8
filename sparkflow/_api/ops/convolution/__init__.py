"""Rows of functions: convolutions, and the geometry of their windows."""
