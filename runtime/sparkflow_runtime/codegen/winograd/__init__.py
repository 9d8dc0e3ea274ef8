"""Convolutions by minimal filtering (Winograd) in machine code, and their gradients."""
