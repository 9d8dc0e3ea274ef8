"""Imports every op that sparkflow ships; see `registry.all_ops`."""

from sparkflow_runtime.ops.registry import all_ops

all_ops()
