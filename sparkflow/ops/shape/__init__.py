"""Functions that add nodes: shapes, and tensors made for one."""
