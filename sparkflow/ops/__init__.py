"""The functions that add nodes, one module per family. `sparkflow` re-exports them by name."""
