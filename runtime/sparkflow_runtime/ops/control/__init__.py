"""Branches, loops, calls of functions, and ops that look at values on the way."""
