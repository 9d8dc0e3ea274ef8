"""Rows of functions: axes reduced: sums, norms, and values clipped by them."""
