"""Nodes that change variables: assign and scatter.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/state/state.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "count_up_to",
    "is_variable_initialized",
]


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """Adds 1 to an integer variable and gives the value before; OutOfRangeError at `limit`.

    Args:
        ref: A variable of int32 or int64.
        limit: The value at which it fails.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `ref`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("CountUpTo", ref, limit=limit, name=name)
    return result


def is_variable_initialized(ref: Any, name: str | None = None) -> Tensor:
    """Whether the variable has a value: a bool.

    Args:
        ref: A variable of any number, any quantized type, bool or string.
        name: Name of the node.

    Returns:
        A bool tensor.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("IsVariableInitialized", ref, name=name)
    return result
