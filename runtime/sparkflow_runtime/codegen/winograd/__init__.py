"""Winograd convolutions (minimal filtering) and their gradients, in machine code."""
