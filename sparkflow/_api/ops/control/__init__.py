"""Rows of functions: order, branches, loops, checks while a step runs."""
