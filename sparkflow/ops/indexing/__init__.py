"""Functions that add nodes: elements by position: sorted, scattered, moved, counted."""
