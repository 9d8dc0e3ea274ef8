"""Functions that add nodes: sparse tensors and sets."""
