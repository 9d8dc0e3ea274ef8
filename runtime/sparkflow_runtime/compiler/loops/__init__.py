"""Loops whose variables have known shapes: planned once, in machine code where a turn can be."""
