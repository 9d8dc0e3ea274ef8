"""Checkpoints of a run: their content, their storage, and whether to resume from one."""
