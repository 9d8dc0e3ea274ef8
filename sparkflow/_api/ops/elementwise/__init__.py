"""Rows of functions: elementwise arithmetic, comparisons and functions."""
