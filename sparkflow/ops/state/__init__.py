"""Functions that add nodes: variables, tables and accumulators."""
