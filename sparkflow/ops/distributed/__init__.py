"""Functions that add nodes: what several devices do together."""
