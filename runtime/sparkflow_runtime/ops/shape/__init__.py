"""Ops that create, rearrange, split and join tensors regardless of their values."""
