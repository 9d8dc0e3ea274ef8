"""Operations on the bits of integers, and bits read as another type."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import as_dtype


def bitwise_and(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits set in both."""
    result: Tensor = apply_op("BitwiseAnd", x, y, name=name)
    return result


def bitwise_or(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits set in one at least."""
    result: Tensor = apply_op("BitwiseOr", x, y, name=name)
    return result


def bitwise_xor(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits set in exactly one."""
    result: Tensor = apply_op("BitwiseXor", x, y, name=name)
    return result


def left_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """`x` times 2 to the power of `y`, what overflows lost."""
    result: Tensor = apply_op("LeftShift", x, y, name=name)
    return result


def right_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """`x` over 2 to the power of `y`, rounded down."""
    result: Tensor = apply_op("RightShift", x, y, name=name)
    return result


def invert(x: Any, name: str | None = None) -> Tensor:
    """Every bit flipped."""
    result: Tensor = apply_op("Invert", x, name=name)
    return result


def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """The same bytes as elements of another type."""
    result: Tensor = apply_op("Bitcast", input, type=as_dtype(type), name=name)
    return result
