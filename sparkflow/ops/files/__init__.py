"""Functions that add nodes: formats of files and messages."""
