"""Rows of functions: random tensors."""
