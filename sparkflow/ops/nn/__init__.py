"""Functions that add nodes: what networks are made of."""
