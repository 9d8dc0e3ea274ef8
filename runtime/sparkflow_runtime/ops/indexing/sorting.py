"""Searching sorted rows, set differences, unique elements with counts, unravelled indices.

`Unique` itself and `TopKV2`, which sorting uses, are in `indexing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.rows.insertion_points import insertion_points
from sparkflow_runtime.dtypes import INDEX, DType, int32, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.native.string_index import distinct
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.ops.static import STRINGS_ON_HOST, bracketed, ints
from sparkflow_runtime.shapes import Shape

_OUT = type_attr(INDEX, int32)


class _Bound(Op):
    """The insertion point of each value in the corresponding sorted row."""

    inputs = "sorted_inputs: T, values: T"
    outputs = "output: out_type"
    attrs = {"T": type_attr(), "out_type": _OUT}
    kernels = STRINGS_ON_HOST
    gradient = not_differentiable
    side: ClassVar[Literal["left", "right"]] = "left"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the values."""
        rows = node.with_rank(0, 2, "sorted_inputs")
        values = node.with_rank(1, 2, "values")
        shapes.merge_dims(rows[0], values[0])
        return [node.shapes[1]]

    def compute(self, xp: Any, sorted_inputs: Array, values: Array, *, out_type: DType) -> Array:
        """[rows, values per row].

        Raises:
            InvalidArgumentError: Not two matrices with the same number of rows.
        """
        if not sorted_inputs.ndim == values.ndim == 2 or len(sorted_inputs) != len(values):
            raise InvalidArgumentError(
                message="Leading dim_size of both tensors must match: sorted_inputs has shape "
                f"{bracketed(sorted_inputs.shape)} and values {bracketed(values.shape)}"
            )
        found = xp.empty(values.shape, out_type.numpy)
        search = insertion_points if xp is np else xp.searchsorted
        for row, (ordered, asked) in enumerate(zip(sorted_inputs, values, strict=True)):
            found[row] = search(ordered, asked, side=self.side)
        return found


@register
class LowerBound(_Bound):
    """The number of elements in the sorted row that are less than the value."""


@register
class UpperBound(_Bound):
    """The number of elements in the sorted row that are at most the value."""

    side = "right"


@register
class ListDiff(Op):
    """The elements of x that are not in y, in their order, and where they were."""

    inputs = "x: T, y: T"
    outputs = "out: T, idx: out_idx"
    attrs = {"T": type_attr(), "out_idx": _OUT}
    kernels = STRINGS_ON_HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Two vectors of unknown length."""
        node.with_rank(0, 1, "x")
        node.with_rank(1, 1, "y")
        return [(None,), (None,)]

    def compute(self, xp: Any, x: Array, y: Array, *, out_idx: DType) -> tuple[Array, Array]:
        """(out, idx) with out[i] = x[idx[i]].

        Raises:
            InvalidArgumentError: x or y is not a vector.
        """
        for name, each in (("x", x), ("y", y)):
            if each.ndim != 1:
                raise InvalidArgumentError(
                    message=f"{name} should be a 1D vector, got shape {bracketed(each.shape)}"
                )
        if x.dtype.hasobject:
            known = set(y.tolist())
            kept = xp.array([each not in known for each in x.tolist()], bool)
        else:
            kept = ~xp.isin(x, y)
        places = xp.nonzero(kept)[0]
        return x[places], places.astype(out_idx.numpy)


class _UniqueOp(Op):
    """The distinct elements of a vector, or slices along an axis, in order of appearance."""

    kernels = {"CPU": None}  # numpy's unique of slices has no counterpart in cupy
    gradient = not_differentiable
    outputs = "y: T, idx: out_idx, count: out_idx"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape with an unknown size along the axis, then vectors."""
        shape = node.shapes[0]
        if len(node.shapes) == 1:
            length = node.with_rank(0, 1, "x")[0]
            return [(None,), (length,), (None,)][: len(self.signature.outputs)]
        axes = node.value(1)
        found: Shape = shapes.unknown(None if shape is None else len(shape))
        lengths: Shape = (None,)
        if axes is not None and shape is not None:
            axis = _unique_axis(axes, len(shape))
            found = (*shape[:axis], None, *shape[axis + 1 :])
            lengths = (shape[axis],)
        return [found, lengths, (None,)][: len(self.signature.outputs)]

    def distinct(self, xp: Any, x: Array, axis: int, out_idx: DType) -> tuple[Array, Array, Array]:
        """(y, idx, count)."""
        if x.ndim == 1 and (found := distinct(x)) is not None:
            places = found[1].astype(out_idx.numpy, copy=False)
            count = np.bincount(places, minlength=len(found[0])).astype(out_idx.numpy)
            return x[found[0]], places, count
        _, first, position, count = np.unique(
            x,
            axis=axis,
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        order_of = np.argsort(first)
        rank = np.empty_like(order_of)
        rank[order_of] = np.arange(order_of.size)
        return (
            np.take(x, first[order_of], axis),
            rank[position.reshape(-1)].astype(out_idx.numpy),
            count[order_of].astype(out_idx.numpy),
        )


def _unique_axis(axes: Array, rank: int) -> int:
    values = ints(axes)
    if not values:
        if rank != 1:
            raise InvalidArgumentError(message=f"unique expects a 1D vector, got rank {rank}")
        return 0
    if len(values) != 1:
        raise InvalidArgumentError(message="axis does not support input tensors of several axes")
    if not -rank <= values[0] < rank:
        raise InvalidArgumentError(
            message=f"axis has to be between [{-rank}, {rank}), got {values[0]}"
        )
    return values[0] % rank


@register
class UniqueWithCounts(_UniqueOp):
    """The distinct elements of a vector, the index of each among them, and their counts."""

    inputs = "x: T"
    attrs = {"T": type_attr(), "out_idx": _OUT}

    def compute(self, xp: Any, x: Array, *, out_idx: DType) -> tuple[Array, Array, Array]:
        """(y, idx, count) with y[idx[i]] = x[i].

        Raises:
            InvalidArgumentError: x is not a vector.
        """
        if x.ndim != 1:
            raise InvalidArgumentError(
                message=f"unique expects a 1D vector, got shape {bracketed(x.shape)}"
            )
        return self.distinct(xp, x, 0, out_idx)


@register
class UniqueWithCountsV2(_UniqueOp):
    """The distinct slices along an axis, the index of each among them, and their counts."""

    inputs = "x: T, axis: Taxis"
    attrs = {"T": type_attr(), "Taxis": type_attr(INDEX, int64), "out_idx": _OUT}

    def compute(
        self, xp: Any, x: Array, axis: Array, *, out_idx: DType
    ) -> tuple[Array, Array, Array]:
        """(y, idx, count)."""
        return self.distinct(xp, x, _unique_axis(axis, x.ndim), out_idx)


@register
class UniqueV2(_UniqueOp):
    """The distinct slices along an axis, and the index of each among them."""

    inputs = "x: T, axis: Taxis"
    outputs = "y: T, idx: out_idx"
    attrs = {"T": type_attr(), "Taxis": type_attr(INDEX, int64), "out_idx": _OUT}

    def compute(self, xp: Any, x: Array, axis: Array, *, out_idx: DType) -> tuple[Array, Array]:
        """(y, idx)."""
        return self.distinct(xp, x, _unique_axis(axis, x.ndim), out_idx)[:2]


@register
class UnravelIndex(Op):
    """The coordinates of flat indices in a tensor of shape `dims`, one row per dimension."""

    inputs = "indices: Tidx, dims: Tidx"
    outputs = "output: Tidx"
    attrs = {"Tidx": type_attr(INDEX, int32)}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(rank,) for one index, (rank, n) for a vector of them."""
        rank = node.with_rank(1, 1, "dims")[0]
        indices = node.shapes[0]
        if indices is None:
            return [None]
        return [(rank, *indices)]

    def compute(self, xp: Any, indices: Array, dims: Array) -> Array:
        """The coordinates.

        Raises:
            InvalidArgumentError: An index outside, a dimension of size 0.
        """
        sizes = ints(dims)
        if dims.ndim != 1 or any(size <= 0 for size in sizes):
            raise InvalidArgumentError(
                message=f"Input dims cannot contain a dim of zero, got {bracketed(sizes)}"
            )
        total = int(np.prod(sizes))
        if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= total):
            raise InvalidArgumentError(
                message=f"index is out of bound as with dims {bracketed(sizes)}"
            )
        flat = indices.reshape(-1)
        rows = []
        for size in reversed(sizes):
            rows.append(flat % size)
            flat = flat // size
        return xp.stack(rows[::-1]).reshape(len(sizes), *indices.shape).astype(indices.dtype)
