"""Rows of functions: elements by position: sorted, scattered, moved, counted."""
