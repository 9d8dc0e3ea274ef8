"""Functions that add nodes: order, branches, loops, checks while a step runs."""
