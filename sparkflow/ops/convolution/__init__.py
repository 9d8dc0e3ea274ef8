"""Functions that add nodes: convolutions, and the geometry of their windows."""
