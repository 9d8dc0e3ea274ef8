"""Files in graphs: `tf.read_file` and its like. The host that runs the op reads its own files.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/files/files.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "matching_files",
    "read_file",
    "write_file",
]


def read_file(filename: Any, name: str | None = None) -> Tensor:
    """The contents of a file, when the op runs.

    Args:
        filename: A scalar string: a path or URI on the host of the op's device.
        name: Name of the node.

    Returns:
        A string tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("ReadFile", filename, name=name)
    return result


def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """Writes a file when the op runs; directories that are missing are made.

    Args:
        filename: A scalar string: a path or URI on the host of the op's device.
        contents: A scalar string.
        name: Name of the node.

    Returns:
        The operation.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Operation = apply_op("WriteFile", filename, contents, name=name)
    return result


def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """The paths that match a pattern or one of several, sorted, when the op runs.

    Args:
        pattern: Tensor of string.
        name: Name of the node.

    Returns:
        A string tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("MatchingFiles", pattern, name=name)
    return result
