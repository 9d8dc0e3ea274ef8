"""Functions that add nodes: matrices, transforms and signals."""
