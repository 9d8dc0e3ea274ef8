"""Rows of functions: strings of bytes and of Unicode."""
