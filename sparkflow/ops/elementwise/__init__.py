"""Functions that add nodes: elementwise arithmetic, comparisons and functions."""
