"""Rewrites nodes into cheaper ones with the same values, or into values that are there already."""

from sparkflow_runtime.passes.simplify.sweep import simplify

__all__ = ["simplify"]
