"""Functions that add nodes: strings of bytes and of Unicode."""
