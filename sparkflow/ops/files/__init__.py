"""Functions that add nodes: file and message formats."""
