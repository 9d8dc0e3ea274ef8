"""Convolutions in two and three dimensions, and their gradients."""
