"""The rows of functions that add one node, one module per family."""
