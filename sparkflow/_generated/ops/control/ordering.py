"""Nodes that order others: identity, group, tuple, no_op.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/control/ordering.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "no_op",
    "stop_gradient",
]


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same value, through which no gradient flows.

    Args:
        input: Tensor [...] of any type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `input`.
    """
    result: Tensor = apply_op("StopGradient", input, name=name)
    return result


def no_op(name: str | None = None) -> Operation:
    """A node that does nothing.

    Args:
        name: Name of the node.

    Returns:
        The operation.
    """
    result: Operation = apply_op("NoOp", name=name)
    return result
