"""Kernels that work on rows of tables, on keys, and on many small arrays."""
