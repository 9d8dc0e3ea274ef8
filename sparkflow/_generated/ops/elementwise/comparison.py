"""Comparisons, logic and selection.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/elementwise/comparison.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "not_equal",
]


def equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether x == y, elementwise.

    Args:
        x: Tensor [...] of any number, any quantized type, bool or string.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A bool tensor of the shape that the inputs broadcast to.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Equal", x, y, name=name)
    return result


def not_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether x != y, elementwise.

    Args:
        x: Tensor [...] of any number, any quantized type, bool or string.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A bool tensor of the shape that the inputs broadcast to.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("NotEqual", x, y, name=name)
    return result


def less(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether x < y, elementwise.

    Args:
        x: Tensor [...] of any real number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A bool tensor of the shape that the inputs broadcast to.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Less", x, y, name=name)
    return result


def less_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether x <= y, elementwise.

    Args:
        x: Tensor [...] of any real number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A bool tensor of the shape that the inputs broadcast to.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("LessEqual", x, y, name=name)
    return result


def greater(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether x > y, elementwise.

    Args:
        x: Tensor [...] of any real number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A bool tensor of the shape that the inputs broadcast to.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Greater", x, y, name=name)
    return result


def greater_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether x >= y, elementwise.

    Args:
        x: Tensor [...] of any real number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A bool tensor of the shape that the inputs broadcast to.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("GreaterEqual", x, y, name=name)
    return result


def logical_and(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether both are true, elementwise.

    Args:
        x: Tensor [...] of bool.
        y: Tensor [...] of bool.
        name: Name of the node.

    Returns:
        A bool tensor of the shape that the inputs broadcast to.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("LogicalAnd", x, y, name=name)
    return result


def logical_or(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether one is true at least, elementwise.

    Args:
        x: Tensor [...] of bool.
        y: Tensor [...] of bool.
        name: Name of the node.

    Returns:
        A bool tensor of the shape that the inputs broadcast to.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("LogicalOr", x, y, name=name)
    return result


def logical_not(x: Any, name: str | None = None) -> Tensor:
    """Whether the element is false.

    Args:
        x: Tensor [...] of bool.
        name: Name of the node.

    Returns:
        A bool tensor of the shape of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("LogicalNot", x, name=name)
    return result
