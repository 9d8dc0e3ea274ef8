"""Branches, loops and what is built on them."""
