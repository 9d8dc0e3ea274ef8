"""Ops: how kernels are chosen, and what they have in common."""
