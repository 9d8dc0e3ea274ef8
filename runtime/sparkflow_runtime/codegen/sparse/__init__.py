"""The elements of sparse tensors, in machine code: positions, sums, parts, missing rows."""
