"""Functions that add nodes: byte and Unicode strings."""
