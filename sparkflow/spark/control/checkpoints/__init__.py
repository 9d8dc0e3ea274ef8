"""Checkpoints of a run: what is kept, where, and whether a training goes on from it."""
