"""Functions that add nodes: random tensors."""
