"""Datasets and iterators at run time."""
