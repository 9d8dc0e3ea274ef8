"""Comparisons, logic and selection."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.elementwise.comparison import *  # noqa: F403
from sparkflow._generated.ops.elementwise.comparison import logical_and, logical_not, logical_or
from sparkflow.graph.scopes import graph_of, operand, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.dispatch import or_ragged


@export("logical_xor", "math.logical_xor")
def logical_xor(x: Any, y: Any, name: str = "LogicalXor") -> Tensor:
    """Whether exactly one is true, elementwise."""
    return logical_and(logical_or(x, y), logical_not(logical_and(x, y)), name=name)


@export("where")
@or_ragged
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Elements of `x` where `condition` holds, of `y` elsewhere; without both, the true positions.

    Args:
        condition: bool; of the shape of `x`, or a vector that picks whole rows.
        x: Tensors of one shape and dtype; both or neither.
        y: Tensors of one shape and dtype; both or neither.
        name: Name of the node.

    Returns:
        A tensor like `x`; or [count, rank] int64, the coordinates of the true elements.

    Raises:
        ValueError: Only one of `x` and `y` is given.
    """
    if x is None and y is None:
        found, node = operand(condition, "condition", name or "Where")
        return output_of("Where", found, name=node)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return output_of("Select", condition, x, y, name=name)


@export("where_v2")
def where_v2(condition: Any, x: Any, y: Any, name: str | None = None) -> Tensor:
    """Elements of `x` where `condition` holds, of `y` elsewhere; all three broadcast."""
    graph = graph_of((condition, x, y))
    with graph.as_default():
        left, node = operand(x, "t", name or "SelectV2")
        return output_of("SelectV2", condition, left, y, name=node)
