"""Files in graphs: `tf.read_file` and its like. The host that runs the op reads its own files."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor


def read_file(filename: Any, name: str | None = None) -> Tensor:
    """The contents of a file, when the op runs.

    Args:
        filename: A scalar string: a path or URI on the host of the op's device.
        name: The node's name.
    """
    contents: Tensor = apply_op("ReadFile", filename, name=name)
    return contents


def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """Writes a file when the op runs; directories that are missing are made.

    Args:
        filename: A scalar string: a path or URI on the host of the op's device.
        contents: A scalar string.
        name: The node's name.
    """
    operation: Operation = apply_op("WriteFile", filename, contents, name=name)
    return operation


def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """The paths that match a pattern or one of several, sorted, when the op runs."""
    names: Tensor = apply_op("MatchingFiles", pattern, name=name)
    return names
