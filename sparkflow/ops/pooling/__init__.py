"""Functions that add nodes: maxima and means over windows."""
