"""Loops whose variables have known shapes: planned once, in machine code if possible."""
