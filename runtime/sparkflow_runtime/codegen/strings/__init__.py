"""Machine code that reads and creates Python's bytes, the elements of string tensors."""
