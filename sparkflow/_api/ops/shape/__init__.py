"""Rows of functions: shapes, and tensors made for one."""
