"""Compiles a partition to a callable."""
