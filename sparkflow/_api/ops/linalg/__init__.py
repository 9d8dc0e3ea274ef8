"""Rows of functions: matrices, transforms and signals."""
