"""Rows of functions: formats of files and messages."""
