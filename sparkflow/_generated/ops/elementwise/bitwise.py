"""Operations on the bits of integers, and bits read as another type.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/elementwise/bitwise.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import as_dtype

__all__ = [
    "bitcast",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
]


def bitwise_and(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits set in both.

    Args:
        x: Tensor [...] of any integer.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("BitwiseAnd", x, y, name=name)
    return result


def bitwise_or(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits set in one at least.

    Args:
        x: Tensor [...] of any integer.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("BitwiseOr", x, y, name=name)
    return result


def bitwise_xor(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits set in exactly one.

    Args:
        x: Tensor [...] of any integer.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("BitwiseXor", x, y, name=name)
    return result


def left_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """`x` times 2 to the power of `y`, what overflows lost.

    Args:
        x: Tensor [...] of any integer.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("LeftShift", x, y, name=name)
    return result


def right_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """`x` over 2 to the power of `y`, rounded down.

    Args:
        x: Tensor [...] of any integer.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("RightShift", x, y, name=name)
    return result


def invert(x: Any, name: str | None = None) -> Tensor:
    """Every bit flipped.

    Args:
        x: Tensor [...] of any integer.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Invert", x, name=name)
    return result


def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """The same bytes as elements of another type.

    Args:
        input: Tensor [...] of any number or any quantized type.
        type: The dtype: any number or any quantized type.
        name: Name of the node.

    Returns:
        A tensor of dtype `type` and the shape of `input`; smaller elements add a dimension, larger
        ones consume the last.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Bitcast", input, type=as_dtype(type), name=name)
    return result
