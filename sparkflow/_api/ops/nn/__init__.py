"""Rows of functions: what networks are made of."""
