"""Rows of functions: sparse tensors and sets."""
