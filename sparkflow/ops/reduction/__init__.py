"""Functions that add nodes: axes reduced: sums, norms, and values clipped by them."""
