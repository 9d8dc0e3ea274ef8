"""Depthwise convolutions and their gradients, in machine code."""
