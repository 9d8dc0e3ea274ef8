"""Operations on the bits of integers, and bits read as another type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import INTEGER, PLAIN, QUANTIZED, DType, bool_, string
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.elementwise.elementwise_table import BinaryOp, UnaryOp, enter
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.shapes import Shape

_INTEGERS = {"T": type_attr(INTEGER)}


def _bounded(x: Array, y: Array) -> Array:
    """Clamps shift counts to [0, bits): others are undefined in C."""
    return y.clip(0, x.dtype.itemsize * 8 - 1).astype(x.dtype)


def _left_shift(xp: Any, x: Array, y: Array) -> Array:
    return xp.left_shift(x, _bounded(x, y))


def _right_shift(xp: Any, x: Array, y: Array) -> Array:
    return xp.right_shift(x, _bounded(x, y))


def _population_count(xp: Any, x: Array) -> Array:
    left = x.astype(f"u{x.dtype.itemsize}")
    count = xp.zeros(x.shape, np.uint8)
    for _ in range(x.dtype.itemsize * 8):
        count = count + (left & left.dtype.type(1)).astype(np.uint8)
        left = left >> left.dtype.type(1)
    return count


enter(BinaryOp, "BitwiseAnd", _INTEGERS, "", kernel="bitwise_and", commutative=True)
enter(BinaryOp, "BitwiseOr", _INTEGERS, "", kernel="bitwise_or", commutative=True)
enter(BinaryOp, "BitwiseXor", _INTEGERS, "", kernel="bitwise_xor", commutative=True)
enter(BinaryOp, "LeftShift", _INTEGERS, "", kernel=_left_shift)
enter(BinaryOp, "RightShift", _INTEGERS, "", kernel=_right_shift)
enter(UnaryOp, "Invert", _INTEGERS, "", kernel="invert")
enter(UnaryOp, "PopulationCount", _INTEGERS, "", kernel=_population_count, outputs="y: uint8")


@register
class Bitcast(Op):
    """The same bytes as elements of another type.

    Casting to a smaller type adds a last dimension, to a larger one removes it.
    """

    takes_ragged = True
    inputs = "input: T"
    outputs = "output: type"
    attrs = {
        "T": type_attr((PLAIN | QUANTIZED) - {bool_, string}),
        "type": type_attr((PLAIN | QUANTIZED) - {bool_, string}),
    }
    kernels = {"CPU": None, "GPU": PLAIN}
    widens = ()

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape, one dimension more or less where the sizes differ."""
        source, target = node.attrs["T"].size, node.attrs["type"].size
        shape = node.shapes[0]
        if shape is None:
            return [None]
        if source >= target:
            return [shape if source == target else (*shape, source // target)]
        _check_last(shape, source, target)
        return [shape[:-1]]

    def compute(self, xp: Any, value: Array, *, type: DType) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: The last dimension does not form one element of the larger type.
        """
        kind = np.dtype(type.as_numpy_dtype)
        source = value.dtype.itemsize
        dense = xp.ascontiguousarray(value).reshape(value.shape)
        if source == kind.itemsize:
            return dense.view(kind).copy()
        if source > kind.itemsize:
            parts = dense.reshape(*value.shape, 1).view(kind)
            return parts.copy()
        _check_last(value.shape, source, kind.itemsize)
        return dense.view(kind).reshape(value.shape[:-1]).copy()


def _check_last(shape: Shape, source: int, target: int) -> None:
    assert shape is not None
    if not shape or shape[-1] not in (None, target // source):
        raise InvalidArgumentError(
            message=f"Cannot bitcast {source} bytes an element to {target} due to shape "
            f"{shapes.text(shape)}: the last dimension must be {target // source}"
        )
