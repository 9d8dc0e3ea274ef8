"""Sums and means of rows that share a segment number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import FLOATING, INDEX, NUMERIC, REAL, bool_, int16, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.static import (
    bracketed,
    check_indices,
    constant_scalar,
    scalar,
    shape_tensor,
)
from sparkflow_runtime.ops.update import elements_of_rows
from sparkflow_runtime.shapes import Shape

SUMMED_BY_INDEX = {"CPU": None, "GPU": FLOATING | INDEX}
"""The kernels of ops made of `sum_by_segment`: a GPU adds atomically in these types only."""


def sum_by_segment(xp: Any, data: Array, ids: Array, count: int) -> Array:
    """Row s of the result is the sum of the rows of `data` whose id is s.

    `np.add.at` on flat positions beats sorting with `reduceat` and `bincount` per column: 4096 rows
    of 64 float32 into 10,000 segments take 0.6 ms against 2.1 and 8.6 ms (numpy 2.4, 2026-11-21).

    Args:
        xp: numpy or cupy.
        data: [rows, ...].
        ids: [rows] integers in [0, count).
        count: The number of segments.
    """
    sums = xp.zeros((count, *data.shape[1:]), data.dtype)
    if data.size:
        where = elements_of_rows(xp, ids, sums[:1].size)
        if data.dtype == np.bool_:
            sums.reshape(-1)[where[data.reshape(-1)]] = True
        else:
            xp.add.at(sums.reshape(-1), where, data.reshape(-1))
    return sums


class _Segment(Op):
    """Rows of `data` combined by sorted `segment_ids`, one id per row."""

    inputs = "data: T, segment_ids: Tindices"
    outputs = "output: T"
    attrs = {"T": type_attr(NUMERIC), "Tindices": type_attr(INDEX)}
    kernels = SUMMED_BY_INDEX

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(last id + 1, ...)."""
        data = node.shapes[0]
        (rows,) = node.with_rank(1, 1, "segment_ids")
        if data == ():
            raise InvalidArgumentError(message="data must be at least rank 1 but is a scalar")
        if data is not None and None not in (rows, data[0]) and rows != data[0]:
            raise InvalidArgumentError(message=_rows_text(rows, data[0]))
        ids = node.value(1)
        count = None if ids is None else _sorted_count(np, ids)
        return [None if data is None else (count, *data[1:])]

    def compute(self, xp: Any, data: Array, segment_ids: Array) -> Array:
        """The sums.

        Raises:
            InvalidArgumentError: Not one id per row, a negative one, or ids that decrease.
        """
        if segment_ids.ndim != 1 or segment_ids.size != data.shape[0]:
            raise InvalidArgumentError(message=_rows_text(segment_ids.size, data.shape[0]))
        return sum_by_segment(xp, data, segment_ids, _sorted_count(xp, segment_ids))


def _rows_text(ids: int | None, rows: int | None) -> str:
    return (
        "segment_ids should be a vector with one id for each row of data, "
        f"but has {ids} ids for {rows} rows"
    )


def _sorted_count(xp: Any, ids: Array) -> int:
    if not ids.size:
        return 0
    if int(ids[0]) < 0:
        raise InvalidArgumentError(message=f"segment ids must be >= 0, but the first is {ids[0]}")
    falls = ids[1:] < ids[:-1]
    if falls.any():
        at = int(xp.argmax(falls)) + 1
        raise InvalidArgumentError(
            message=f"segment ids are not increasing: segment_ids[{at}] = {ids[at]} "
            f"after {ids[at - 1]}"
        )
    return int(ids[-1]) + 1


@register
class SegmentSum(_Segment):
    """Sums of the rows with the same id; zero for ids that do not occur."""

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Each row gets the gradient of its segment."""
        return g.Gather(dy, op.inputs[1]), None


@register
class SegmentMean(_Segment):
    """Means of the rows with the same id; zero for ids that do not occur."""

    def compute(self, xp: Any, data: Array, segment_ids: Array) -> Array:
        """The sums divided by the numbers of rows, integers rounded towards zero.

        Raises:
            InvalidArgumentError: As for the sums.
        """
        sums = super().compute(xp, data, segment_ids)
        counts = xp.bincount(segment_ids, minlength=sums.shape[0])
        # Of a kind with the sums: numpy divides uint64 by int64 in floating point.
        counts = counts.astype(xp.uint64 if data.dtype.kind == "u" else xp.int64, copy=False)
        counts = xp.maximum(counts, 1).reshape(-1, *(1,) * (data.ndim - 1))
        if data.dtype.kind in "iu":
            return (sums // counts + ((sums < 0) & (sums % counts != 0))).astype(data.dtype)
        return sums / counts.astype(data.dtype)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Each row gets its part of the gradient of its segment."""
        data, ids = op.inputs
        zero, one = np.array([0], np.int32), np.array([1], np.int32)
        # [rows, 1, 1, ...] ones, whose sums are the numbers of rows.
        beyond = g.Fill(g.Reshape(g.Sub(g.Rank(data), one[0]), one), one[0])
        ones_shape = g.ConcatV2([g.Reshape(g.Size(ids), one), beyond], zero[0])
        ones = g.Fill(ones_shape, g.const(1, dy.dtype))
        share = g.RealDiv(dy, g.Maximum(g.SegmentSum(ones, ids), g.const(1, dy.dtype)))
        return g.Gather(share, ids), None


@register
class SparseSegmentSum(Op):
    """Sums of the rows data[indices[i]] with the same sorted segment id: a lookup and a sum."""

    inputs = "data: T, indices: Tidx, segment_ids: Tsegmentids"
    outputs = "output: T"
    attrs = {
        "T": type_attr(REAL),
        "Tidx": type_attr(INDEX, int32),
        "Tsegmentids": type_attr(INDEX, int32),
        "sparse_gradient": bool_attr(False),
    }
    kernels = SUMMED_BY_INDEX

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(last id + 1, ...)."""
        data = node.shapes[0]
        (rows,) = node.with_rank(1, 1, "indices")
        (count,) = node.with_rank(2, 1, "segment_ids")
        if None not in (rows, count) and rows != count:
            raise InvalidArgumentError(message=_rows_text(count, rows))
        if data == ():
            raise InvalidArgumentError(message="data must be at least rank 1 but is a scalar")
        ids = node.value(2)
        segments = None if ids is None else _sorted_count(np, ids)
        return [None if data is None else (segments, *data[1:])]

    def compute(self, xp: Any, data: Array, indices: Array, segment_ids: Array) -> Array:
        """The sums.

        Raises:
            InvalidArgumentError: An index that is no row, not one id per index, or ids that
                decrease.
        """
        if segment_ids.shape != indices.shape or indices.ndim != 1:
            raise InvalidArgumentError(message=_rows_text(segment_ids.size, indices.size))
        check_indices(xp, indices, data.shape[0])
        return sum_by_segment(xp, data[indices], segment_ids, _sorted_count(xp, segment_ids))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """Each row gets the gradients of the segments it was added to, as a sparse gradient."""
        data, indices, ids = op.inputs
        return g.indexed_slices(g.Gather(dy, ids), indices, shape_tensor(g, data)), None, None


@register
class UnsortedSegmentSum(Op):
    """Sums of the slices of `data` with the same id, in any order; negative ids are dropped.

    `segment_ids` has the shape of the leading dimensions of `data`.
    """

    inputs = "data: T, segment_ids: Tindices, num_segments: Tnumsegments"
    outputs = "output: T"
    attrs = {
        "T": type_attr(NUMERIC),
        "Tindices": type_attr(INDEX | {int16}),
        "Tnumsegments": type_attr(INDEX, int32),
    }
    kernels = SUMMED_BY_INDEX

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(num_segments,) + data.shape[rank(segment_ids):]."""
        data, ids = node.shapes[:2]
        count = constant_scalar(node, 2, "num_segments")
        if data is None or ids is None:
            return [None]
        if not shapes.is_compatible(data[: len(ids)], ids):
            raise InvalidArgumentError(message=_prefix_text(data, ids))
        return [(None if count is None else _checked_count(count), *data[len(ids) :])]

    def compute(self, xp: Any, data: Array, segment_ids: Array, num_segments: Array) -> Array:
        """The sums.

        Raises:
            InvalidArgumentError: An id beyond `num_segments`, or ids whose shape does not fit.
        """
        count = _checked_count(scalar(num_segments, "num_segments"))
        if data.shape[: segment_ids.ndim] != segment_ids.shape:
            raise InvalidArgumentError(message=_prefix_text(data.shape, segment_ids.shape))
        ids = segment_ids.reshape(-1)
        rows = data.reshape(ids.size, *data.shape[segment_ids.ndim :])
        kept = ids >= 0
        if ids.size and not kept.all():
            ids, rows = ids[kept], rows[kept]
        if ids.size and int(ids.max()) >= count:
            at = int(xp.argmax(segment_ids.reshape(-1) >= count))
            place = ",".join(str(int(i)) for i in np.unravel_index(at, segment_ids.shape))
            raise InvalidArgumentError(
                message=f"segment_ids[{place}] = {int(segment_ids.reshape(-1)[at])} "
                f"is out of range [0, {count})"
            )
        return sum_by_segment(xp, rows, ids, count)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Each slice gets the gradient of its segment, dropped ones zero."""
        data, ids, _ = op.inputs
        zero = g.const(0, ids.dtype)
        rows = g.Maximum(ids, zero)
        axis = np.array(0, np.int32)
        taken = g.GatherV2(dy, rows, axis)
        inner = g.Fill(g.Reshape(g.Sub(g.Rank(data), g.Rank(ids)), np.array([1], np.int32)), 1)
        mask_shape = g.ConcatV2([g.Shape(ids), inner], axis)
        kept = g.Cast(g.GreaterEqual(ids, zero), SrcT=bool_, DstT=dy.dtype)
        return g.Mul(taken, g.Reshape(kept, mask_shape)), None, None


def _prefix_text(data: Shape, ids: Shape) -> str:
    return (
        f"data.shape = {bracketed(data)} does not start with segment_ids.shape = {bracketed(ids)}"
    )


def _checked_count(count: int) -> int:
    if count < 0:
        raise InvalidArgumentError(message=f"num_segments must not be negative, got {count}")
    return count
