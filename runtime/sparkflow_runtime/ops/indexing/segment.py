"""Segment reductions: sums, means, products and extremes of rows with the same segment id.

Lookups followed by such sums are in `sparse_segment`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.ir.kernel import NARROW
from sparkflow_runtime.codegen.rows import combined_rows, fixed_rows
from sparkflow_runtime.dtypes import FLOATING, INDEX, NUMERIC, REAL, DType, bool_, int16, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.elementwise.elementwise_table import conjugated
from sparkflow_runtime.ops.kernels.combining import combine_at, elements_of_rows
from sparkflow_runtime.ops.machine_call import CallSite, MachineCall
from sparkflow_runtime.ops.native.equal_rows import sum_by_segment
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.ops.static import (
    bracketed,
    constant_scalar,
    scalar,
)
from sparkflow_runtime.shapes import Shape

ON_HOST: Mapping[str, frozenset[DType] | None] = {"CPU": None}
_MOST_SEGMENTS: Final = 1 << 20
"""For more, sorted ids are checked before memory is allocated."""
SUMMED_BY_INDEX: Mapping[str, frozenset[DType] | None] = {"CPU": None, "GPU": FLOATING | INDEX}
"""The kernels of ops based on `sum_by_segment`: a GPU adds atomically in these types only."""


def mean_by_segment(xp: Any, sums: Array, ids: Array, root: bool = False) -> Array:
    """The means of segments.

    Args:
        xp: numpy or cupy.
        sums: [segments, ...], see `sum_by_segment`.
        ids: [rows], the segment of each row.
        root: Divides by the root of the number of rows instead.

    Returns:
        [segments, ...] of the dtype of the sums; integers are rounded towards zero.
    """
    counts = xp.bincount(ids, minlength=len(sums))
    # Same signedness as the sums: numpy divides uint64 by int64 in floating point.
    counts = counts.astype(xp.uint64 if sums.dtype.kind == "u" else xp.int64, copy=False)
    counts = xp.maximum(counts, 1).reshape(-1, *(1,) * (sums.ndim - 1))
    if sums.dtype.kind in "iu":
        return (sums // counts + ((sums < 0) & (sums % counts != 0))).astype(sums.dtype)
    shares = counts.astype(sums.real.dtype)
    return sums / (xp.sqrt(shares) if root else shares)


class _Segment(Op):
    """Rows of `data` combined by sorted `segment_ids`, one id per row."""

    widens = NARROW
    inputs = "data: T, segment_ids: Tindices"
    outputs = "output: T"
    attrs = {"T": type_attr(NUMERIC), "Tindices": type_attr(INDEX)}
    kernels = SUMMED_BY_INDEX
    ufunc: ClassVar[str] = "add"
    finish: ClassVar[combined_rows.Finish] = ""

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(last id + 1, ...); a wrong number of ids is detected at run time."""
        data = node.shapes[0]
        node.with_rank(1, 1, "segment_ids")
        if data == ():
            raise InvalidArgumentError(message="data must be at least rank 1 but is a scalar")
        ids = node.value(1)
        count = None if ids is None else count_if_sorted(ids)
        return [None if data is None else (count, *data[1:])]

    def compute(self, xp: Any, data: Array, segment_ids: Array) -> Array:
        """[last id + 1, ...].

        Raises:
            InvalidArgumentError: Not one id per row, a negative one, or ids that decrease.
        """
        if segment_ids.ndim != 1 or segment_ids.size != data.shape[0]:
            raise InvalidArgumentError(message=rows_text(segment_ids.size, data.shape[0]))
        found = self._combined(data, segment_ids) if xp is np else None
        if found is not None:
            return found
        return self.combine(xp, data, segment_ids, sorted_count(xp, segment_ids))

    def _combined(self, data: Array, ids: Array) -> Array | None:
        """The result of machine code; None if there is none, or if an id is not allowed."""
        if not ids.size or not 0 <= ids[-1] < _MOST_SEGMENTS:
            return None
        if self.finish == "mean" and data.dtype.kind != "f":
            return None
        count = int(ids[-1]) + 1
        return combined_rows.combined(self.ufunc, data, ids, count, True, self.finish)

    def combine(self, xp: Any, data: Array, ids: Array, count: int) -> Array:
        """The combined rows: [count, ...]."""
        raise NotImplementedError(self.op_type)


def rows_text(ids: int | None, rows: int | None) -> str:
    """The error for a number of ids that differs from the number of rows."""
    return (
        "segment_ids should be the same size as dimension 0 of input, "
        f"but has {ids} ids for {rows} rows"
    )


def sorted_count(xp: Any, ids: Array) -> int:
    """The number of segments of sorted ids.

    Raises:
        InvalidArgumentError: The ids decrease, or the first is negative.
    """
    if not ids.size:
        return 0
    if int(ids[0]) < 0:
        raise InvalidArgumentError(message=f"segment ids must be >= 0, but the first is {ids[0]}")
    falls = ids[1:] < ids[:-1]
    if xp.count_nonzero(falls):
        at = int(xp.argmax(falls)) + 1
        raise InvalidArgumentError(
            message=f"segment ids are not increasing: segment_ids[{at}] = {ids[at]} "
            f"after {ids[at - 1]}"
        )
    return int(ids[-1]) + 1


def count_if_sorted(ids: Array) -> int | None:
    """The number of segments of constant ids; None if only the kernel may reject them."""
    try:
        return sorted_count(np, ids)
    except InvalidArgumentError:
        return None


@register
class SegmentSum(_Segment):
    """Sums of the rows with the same id; zero for ids that do not occur."""

    def combine(self, xp: Any, data: Array, ids: Array, count: int) -> Array:
        """The sums."""
        return sum_by_segment(xp, data, ids, count)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Each row gets the gradient of its segment."""
        return g.Gather(dy, op.inputs[1]), None


@register
class SegmentMean(_Segment):
    """Means of the rows with the same id; zero for ids that do not occur."""

    finish = "mean"

    def combine(self, xp: Any, data: Array, ids: Array, count: int) -> Array:
        """The sums divided by the numbers of rows, integers rounded towards zero."""
        return mean_by_segment(xp, sum_by_segment(xp, data, ids, count), ids)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Each row gets its share of the gradient of its segment."""
        data, ids = op.inputs
        zero, one = np.array([0], np.int32), np.array([1], np.int32)
        # [rows, 1, 1, ...] ones, whose sums are the numbers of rows.
        beyond = g.Fill(g.Reshape(g.Sub(g.Rank(data), one[0]), one), one[0])
        ones_shape = g.ConcatV2([g.Reshape(g.Size(ids), one), beyond], zero[0])
        ones = g.Fill(ones_shape, g.const(1, dy.dtype))
        share = g.RealDiv(dy, g.Maximum(g.SegmentSum(ones, ids), g.const(1, dy.dtype)))
        return g.Gather(share, ids), None


class _UnsortedSegment(Op):
    """Combines slices of `data` with the same id, in any order; negative ids are dropped.

    `segment_ids` has the shape of the leading dimensions of `data`.
    """

    widens = NARROW
    inputs = "data: T, segment_ids: Tindices, num_segments: Tnumsegments"
    outputs = "output: T"
    attrs = {
        "T": type_attr(NUMERIC),
        "Tindices": type_attr(INDEX | {int16}),
        "Tnumsegments": type_attr(INDEX, int32),
    }
    kernels = SUMMED_BY_INDEX
    ufunc: ClassVar[str] = "add"

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
        """[num_segments, ...].

        Raises:
            InvalidArgumentError: An id beyond `num_segments`, or ids whose shape does not fit.
        """
        count = _checked_count(scalar(num_segments, "num_segments"))
        if data.shape[: segment_ids.ndim] != segment_ids.shape:
            raise InvalidArgumentError(message=_prefix_text(data.shape, segment_ids.shape))
        ids = segment_ids.reshape(-1)
        rows = data.reshape(ids.size, *data.shape[segment_ids.ndim :])
        if xp is np and (found := combined_rows.combined(self.ufunc, rows, ids, count)) is not None:
            return found
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
        return self.combine(xp, rows, ids, count)

    def combine(self, xp: Any, rows: Array, ids: Array, count: int) -> Array:
        """The combined rows: [count, ...]."""
        raise NotImplementedError(self.op_type)


@register
class UnsortedSegmentSum(_UnsortedSegment):
    """Sums; zero for ids that do not occur."""

    tolerates_rounding = True

    def combine(self, xp: Any, rows: Array, ids: Array, count: int) -> Array:
        """The sums."""
        return sum_by_segment(xp, rows, ids, count)

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """Sums of rows."""
        number, index = site.dtypes[:2]
        if number not in fixed_rows.NUMBERS or index not in fixed_rows.INDICES:
            return None
        segments, *row = site.output_shapes[0]
        sizes = math.prod(site.shapes[1]), segments, math.prod(row)
        kernel, adding = (
            fixed_rows.bind_segment_sum(index, number, *sizes, adds) for adds in (False, True)
        )
        return MachineCall(kernel, (0, 1), True, adding=adding)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Each slice gets the gradient of its segment, dropped ones zero."""
        taken, kept = _taken(g, op, dy)
        return g.Mul(taken, g.Cast(kept, SrcT=bool_, DstT=dy.dtype)), None, None


def _taken(g: GraphBuilder, op: OperationView, per_segment: Tensor) -> tuple[Tensor, Tensor]:
    """For every slice the row of `per_segment` at its id, and whether the id is non-negative.

    The second is bool, with as many axes as the first.
    """
    data, ids = op.inputs[:2]
    zero = g.const(0, ids.dtype)
    axis = np.array(0, np.int32)
    taken = g.GatherV2(per_segment, g.Maximum(ids, zero), axis)
    inner = g.Fill(g.Reshape(g.Sub(g.Rank(data), g.Rank(ids)), np.array([1], np.int32)), 1)
    mask_shape = g.ConcatV2([g.Shape(ids), inner], axis)
    return taken, g.Reshape(g.GreaterEqual(ids, zero), mask_shape)


def _by_element(xp: Any, ufunc: str, data: Array, ids: Array, initial: Array) -> Array:
    """Rows of `data` combined by an elementwise function into rows of `initial`, in place."""
    if data.size:
        where = elements_of_rows(xp, ids, initial[:1].size)
        combine_at(xp, ufunc, initial.reshape(-1), where, data.reshape(-1))
    return initial


def _filled(xp: Any, data: Array, count: int, value: Any) -> Array:
    return xp.full((count, *data.shape[1:]), value, data.dtype)


def _least(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else np.finfo(dtype).min


def _greatest(dtype: Any) -> Any:
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.finfo(dtype).max


class _SegmentExtreme(_Segment):
    """The extreme of each segment; zero for ids that do not occur."""

    attrs = {"T": type_attr(REAL), "Tindices": type_attr(INDEX)}
    finish = "zero"
    initial: ClassVar[Callable[[Any], Any]]

    def combine(self, xp: Any, data: Array, ids: Array, count: int) -> Array:
        """The extremes."""
        first = _filled(xp, data, count, type(self).initial(data.dtype))
        found = _by_element(xp, self.ufunc, data, ids, first)
        found[xp.bincount(ids, minlength=count) == 0] = 0
        return found

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Goes to the extreme element, in equal shares to ties."""
        data, ids = op.inputs
        chosen = g.Equal(data, g.Gather(op.outputs[0], ids))
        ties = g.SegmentSum(g.Cast(chosen, DstT=dy.dtype), ids)
        shares = g.Gather(g.RealDiv(dy, ties), ids)
        return g.SelectV2(chosen, shares, g.ZerosLike(shares)), None


@register
class SegmentMax(_SegmentExtreme):
    """The largest element of each segment."""

    ufunc = "maximum"
    initial = _least


@register
class SegmentMin(_SegmentExtreme):
    """The smallest element of each segment."""

    ufunc = "minimum"
    initial = _greatest


@register
class SegmentProd(_Segment):
    """The product of each segment; one for ids that do not occur."""

    kernels = ON_HOST
    ufunc = "multiply"

    def combine(self, xp: Any, data: Array, ids: Array, count: int) -> Array:
        """The products."""
        return _by_element(xp, "multiply", data, ids, _filled(xp, data, count, 1))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The product of the others, even if one of them is zero."""
        data, ids = op.inputs
        is_zero = g.Equal(data, g.const(0, data.dtype.base))
        zeros = g.Gather(g.SegmentSum(g.Cast(is_zero, DstT=int32), ids), ids)
        nonzero = g.SelectV2(is_zero, g.OnesLike(data), data)
        others = g.Gather(g.SegmentProd(nonzero, ids), ids)
        return _product_gradient(g, data, is_zero, zeros, others, g.Gather(dy, ids)), None


def _product_gradient(
    g: GraphBuilder,
    data: Tensor,
    is_zero: Tensor,
    zeros: Tensor,
    others: Tensor,
    arriving: Tensor,
) -> Tensor:
    """The gradient of products, from the number of zeros and the other elements' product."""
    one, none = g.const(1, int32), g.const(0, int32)
    divided = g.RealDiv(others, g.SelectV2(is_zero, g.OnesLike(data), data))
    divided = g.SelectV2(g.Equal(zeros, none), divided, g.ZerosLike(data))
    alone = g.LogicalAnd(is_zero, g.Equal(zeros, one))
    partial = g.SelectV2(alone, others, divided)
    return g.Mul(arriving, conjugated(g, partial))


class _UnsortedExtreme(_UnsortedSegment):
    """The extreme of each segment; the lowest or highest finite number for absent ids."""

    attrs = {**_UnsortedSegment.attrs, "T": type_attr(REAL)}
    initial: ClassVar[Callable[[Any], Any]]

    def combine(self, xp: Any, rows: Array, ids: Array, count: int) -> Array:
        """The extremes."""
        first = _filled(xp, rows, count, type(self).initial(rows.dtype))
        return _by_element(xp, self.ufunc, rows, ids, first)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Goes to the extreme element, in equal shares to ties."""
        data, ids, count = op.inputs
        found, kept = _taken(g, op, op.outputs[0])
        chosen = g.LogicalAnd(g.Equal(data, found), kept)
        ties = g.UnsortedSegmentSum(g.Cast(chosen, DstT=dy.dtype), ids, count)
        shares, _ = _taken(g, op, g.RealDiv(dy, ties))
        return g.SelectV2(chosen, shares, g.ZerosLike(shares)), None, None


@register
class UnsortedSegmentMax(_UnsortedExtreme):
    """The largest element of each segment."""

    ufunc = "maximum"
    initial = _least


@register
class UnsortedSegmentMin(_UnsortedExtreme):
    """The smallest element of each segment."""

    ufunc = "minimum"
    initial = _greatest


@register
class UnsortedSegmentProd(_UnsortedSegment):
    """The product of each segment; one for ids that do not occur."""

    kernels = ON_HOST
    ufunc = "multiply"

    def combine(self, xp: Any, rows: Array, ids: Array, count: int) -> Array:
        """The products."""
        return _by_element(xp, "multiply", rows, ids, _filled(xp, rows, count, 1))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The product of the others, even if one of them is zero; none to dropped slices."""
        data, ids, count = op.inputs
        is_zero = g.Equal(data, g.const(0, data.dtype.base))
        per_segment = g.UnsortedSegmentSum(g.Cast(is_zero, DstT=int32), ids, count)
        zeros, kept = _taken(g, op, per_segment)
        nonzero = g.SelectV2(is_zero, g.OnesLike(data), data)
        others, _ = _taken(g, op, g.UnsortedSegmentProd(nonzero, ids, count))
        arriving, _ = _taken(g, op, dy)
        whole = _product_gradient(g, data, is_zero, zeros, others, arriving)
        return g.SelectV2(kept, whole, g.ZerosLike(whole)), None, None


def _prefix_text(data: Shape, ids: Shape) -> str:
    return (
        f"data.shape = {bracketed(data)} does not start with segment_ids.shape = {bracketed(ids)}"
    )


def _checked_count(count: int) -> int:
    if count < 0:
        raise InvalidArgumentError(message=f"num_segments must not be negative, got {count}")
    return count
