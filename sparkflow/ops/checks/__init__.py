"""Functions that add nodes: checks of values, ranks, shapes and types."""
