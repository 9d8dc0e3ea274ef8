"""Ops that make, arrange, cut and join tensors without looking at their values."""
