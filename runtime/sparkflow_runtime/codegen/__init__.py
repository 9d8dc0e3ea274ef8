"""Machine code from descriptions of loops: nothing in here knows nodes, graphs or ops."""
