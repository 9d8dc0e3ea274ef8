"""Reduction axes: reading them from a tensor, and putting reduced dimensions back in gradients."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import bool_, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, Tensor
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.static import ints, static_rank
from sparkflow_runtime.shapes import Dim, Shape


def checked_axes(
    axes: Sequence[int], shape: Sequence[int | None], twice: bool = False
) -> tuple[int, ...]:
    """Each axis in [0, rank).

    Args:
        axes: The requested axes.
        shape: Of the tensor that is reduced.
        twice: Whether an axis may be repeated, as TensorFlow allows until a graph runs.

    Raises:
        InvalidArgumentError: An axis is out of range or, unless `twice`, repeated.
    """
    rank = len(shape)
    result: list[int] = []
    for axis in axes:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(
                message=f"Invalid reduction dimension {axis} for input with {rank} dimensions, "
                f"shape {shapes.text(tuple(shape))}"
            )
        if axis % rank in result and not twice:
            raise InvalidArgumentError(
                message=f"Invalid reduction arguments: Axes contains duplicate dimension: "
                f"{axis % rank}"
            )
        result.append(axis % rank)
    return tuple(result)


def reduced_shape(node: Inference, keep_dims: bool) -> Shape:
    """The static shape after reducing input 0 over the axes that input 1 gives.

    Raises:
        InvalidArgumentError: The axes are known and invalid, or are neither a scalar nor a vector.
    """
    shape, indices = node.shapes
    if indices is not None and len(indices) > 1:
        raise InvalidArgumentError(
            message=f"reduction_indices must be a scalar or vector, got shape "
            f"{shapes.text(indices)}"
        )
    if shape is None:
        return None
    value = node.value(1)
    if value is None:
        return shapes.unknown(len(shape) if keep_dims else None)
    return without_axes(shape, checked_axes(ints(value), shape, twice=True), keep_dims)


def without_axes(shape: Sequence[Dim], axes: Collection[int], keep_dims: bool) -> Shape:
    """The shape after reducing these axes, each in [0, rank)."""
    if keep_dims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def read_axes(shape: tuple[int, ...], indices: Array) -> tuple[int, ...]:
    """Returns the checked axes that a tensor of indices names, see `checked_axes`."""
    return checked_axes(ints(indices), shape)


def restore_axes(
    g: GraphBuilder, x: Tensor, axes: Tensor, reduced: Tensor, keep_dims: bool
) -> Tensor:
    """Reshapes `reduced` to broadcast against `x`, from which it was reduced over `axes`."""
    if keep_dims:
        return reduced
    shape, value = g.shape(x), g.value(axes)
    if shape is None or value is None:
        reduced_axes, ones = reduced_mask(g, x, axes), g.const(1, int32)
        return g.Reshape(reduced, g.SelectV2(reduced_axes, ones, g.Shape(x)))
    known = sorted(set(checked_axes(ints(value), shape, twice=True)))
    if known == list(range(len(known))):
        return reduced  # leading axes: broadcasting adds them
    for axis in known:
        reduced = g.ExpandDims(reduced, g.const(axis, int32))
    return reduced


def reduced_mask(g: GraphBuilder, x: Tensor, axes: Tensor) -> Tensor:
    """A boolean vector: whether each dimension of `x` is among the axes, if they are not known."""
    rank = static_rank(g, x)
    size = g.Rank(x) if rank is None else g.const(rank, int32)
    positive = g.FloorMod(g.Reshape(g.Cast(axes, DstT=int32), np.array([-1], np.int32)), size)
    marks = g.OneHot(positive, size, g.const(True, bool_), g.const(False, bool_))
    return g.Any(marks, np.array(0, np.int32))
