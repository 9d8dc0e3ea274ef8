"""Values of several tensors: sparse tensors and indexed slices."""
