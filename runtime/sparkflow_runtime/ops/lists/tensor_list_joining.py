"""Concatenating and splitting lists of tensors whose elements have different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.lists.tensor_list import (
    SHAPE_TYPE,
    ListOp,
    TensorList,
    element_shape_of,
    filled,
)
from sparkflow_runtime.ops.op import Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.shapes import Shape


def _filled_lengths(xp: Any, value: TensorList, element_shape: Any, leading_dims: Any) -> list[Any]:
    """The elements to concatenate; zeros for unset ones, with as many rows as the node specifies.

    Raises:
        InvalidArgumentError: Neither that number nor the shape of the elements is known.
    """
    lengths = np.asarray(leading_dims).tolist()
    if len(lengths) != len(value.items):
        return filled(xp, value, element_shape)
    known = [item.shape[1:] for item in value.items if item is not None]
    tail = known[0] if known else tuple(np.asarray(element_shape).tolist()[1:])
    return [
        xp.zeros((length, *tail), value.dtype) if item is None else item
        for item, length in zip(value.items, lengths, strict=True)
    ]


def check_joinable(items: Sequence[Any]) -> None:
    """Checks that elements differ in their first dimension only.

    Raises:
        InvalidArgumentError: One is a scalar, or they differ otherwise.
    """
    for place, item in enumerate(items):
        if item.ndim == 0:
            raise InvalidArgumentError(
                message=f"Concat saw a scalar shape at index {place} but requires at least "
                "vectors.  Did you mean to call pack?"
            )
        if item.shape[1:] != items[0].shape[1:]:
            raise InvalidArgumentError(
                message="TensorArray has inconsistent shapes. Index 0 has (excepting dimension "
                f"0) shape: {list(items[0].shape[1:])} but index {place} has (excepting "
                f"dimension 0) shape: {list(item.shape[1:])}"
            )


@register
class TensorListConcatV2(ListOp):
    """All elements concatenated along their first dimension, and their lengths."""

    inputs = "input_handle: variant, element_shape: shape_type, leading_dims: int64"
    outputs = "tensor: element_dtype, lengths: int64"
    aliases: frozenset[str] = frozenset()
    attrs = {"element_dtype": type_attr(), "shape_type": SHAPE_TYPE}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The first dimension is not known."""
        given = node.value(1)
        shape = None if given is None else element_shape_of(given)
        return [None if not shape else (None, *shape[1:]), (None,)]

    def compute(
        self, xp: Any, value: TensorList, element_shape: Any, leading_dims: Any
    ) -> tuple[Any, Any]:
        """Joins."""
        items = _filled_lengths(xp, value, element_shape, leading_dims)
        check_joinable(items)
        lengths = xp.asarray([item.shape[0] for item in items], np.int64)
        if not items:
            shape = element_shape_of(element_shape) or (0,)
            return xp.empty((0, *(size or 0 for size in shape[1:])), value.dtype), lengths
        return xp.concatenate(items), lengths

    def gradient(self, g: Any, op: Any, dtensor: Any, _: Any) -> tuple[Any, None, None]:
        """Splits at the same positions."""
        dtype = op.attr("element_dtype")
        cut = g.TensorListSplit(dtensor, op.inputs[1], op.outputs[1], element_dtype=dtype)
        return cut, None, None


@register
class TensorListSplit(ListOp):
    """A list of pieces of a tensor along its first dimension."""

    inputs = "tensor: element_dtype, element_shape: shape_type, lengths: int64"
    outputs = "output_handle: variant"
    attrs = {"element_dtype": type_attr(), "shape_type": SHAPE_TYPE}

    def compute(self, xp: Any, tensor: Any, element_shape: Any, lengths: Any) -> Any:
        """Cuts."""
        sizes = np.asarray(lengths).tolist()
        if np.ndim(lengths) != 1:
            raise InvalidArgumentError(
                message=f"Expected lengths to be a vector, received shape: {np.shape(lengths)}"
            )
        if sum(sizes) != tensor.shape[0]:
            raise InvalidArgumentError(
                message="Expected sum of lengths to be equal to values.shape[0], but sum of "
                f"lengths is {sum(sizes)} and value's shape is: {list(tensor.shape)}"
            )
        ends = np.cumsum(sizes).tolist()
        items = [tensor[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        return TensorList(items, tensor.dtype)

    def gradient(self, g: Any, op: Any, dlist: Any) -> tuple[Any, None, None]:
        """Joined again."""
        tensor, _, lengths = op.inputs
        dtype = op.attr("element_dtype")
        joined, _ = g.TensorListConcatV2(dlist, g.Shape(tensor), lengths, element_dtype=dtype)
        return joined, None, None
