"""Finds the node that raised an error, by the line of generated code in the traceback."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, TracebackType
from typing import Any

from sparkflow_runtime.errors import (
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnknownError,
)
from sparkflow_runtime.ir.node import Node

LinesOf = Mapping[CodeType, Sequence[Node | None]]
"""The node at each line of functions."""


def located_in(error: Exception, lines_of: LinesOf) -> Exception:
    """Adds the node that raised it to an error from one of these functions."""
    node = _node_of(error.__traceback__, lines_of)
    if node is None or (isinstance(error, OpError) and error.located):
        return error
    return located(error, node)


def _node_of(traceback: TracebackType | None, lines_of: LinesOf) -> Node | None:
    found = None
    while traceback is not None:
        lines = lines_of.get(traceback.tb_frame.f_code)
        if lines:
            found = lines[traceback.tb_lineno]
        traceback = traceback.tb_next
    return found


_NOT_BROADCAST = re.compile(r"operands could not be broadcast together with shapes (\(.*\)) *$")


def _worded(text: str) -> str:
    """Rewords numpy's error about mismatched shapes like TensorFlow's."""
    found = _NOT_BROADCAST.match(text)
    if found is None:
        return text
    given = re.findall(r"\(([\d, ]*)\)", found[1])
    shapes = [f"[{','.join(part.strip() for part in shape.split(',') if part)}]" for shape in given]
    return f"Incompatible shapes: {' vs. '.join(shapes)}"


def located(error: Exception, node: Node) -> OpError:
    """Adds the node that raised it; foreign exceptions become status classes."""
    if isinstance(error, OpError):
        if error.node_def is None:
            error.node_def = node.name
        return error.at(node.describe())
    if isinstance(error, MemoryError):
        made: OpError = ResourceExhaustedError(message=f"Out of memory: {error}")
    elif isinstance(error, ValueError | TypeError | IndexError):
        made = InvalidArgumentError(message=_worded(str(error)))
    else:
        made = UnknownError(message=f"{type(error).__name__}: {error}")
    made.node_def = node.name
    return made.at(node.describe())


def locating(kernel: Callable[..., Any], node: Node) -> Callable[..., Any]:
    """Returns a kernel whose errors name the node."""

    def run(*inputs: Any) -> Any:
        try:
            return kernel(*inputs)
        except Exception as error:
            raise located(error, node) from error

    return run
