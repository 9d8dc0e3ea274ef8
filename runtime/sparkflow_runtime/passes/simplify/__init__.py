"""Rewrites nodes into cheaper ones with the same values, or into existing values."""

from sparkflow_runtime.passes.simplify.sweep import simplify

__all__ = ["simplify"]
