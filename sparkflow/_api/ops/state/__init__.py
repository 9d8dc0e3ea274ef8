"""Rows of functions: variables, tables and accumulators."""
