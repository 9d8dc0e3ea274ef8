"""Gradients of graphs: which function differentiates an op, and how the results add up."""
