"""Lookups of rows followed by a sum, mean or sum over the root of the count of each segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.dtypes import FLOATING, INDEX, REAL, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.indexing.segment import (
    SUMMED_BY_INDEX,
    count_if_sorted,
    mean_by_segment,
    rows_text,
    sorted_count,
)
from sparkflow_runtime.ops.native import row_kernels
from sparkflow_runtime.ops.native.equal_rows import sum_by_segment
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.static import check_indices, constant_scalar, scalar
from sparkflow_runtime.shapes import Shape

_INDICES = {"Tidx": type_attr(INDEX, int32)}
_SEGMENTS = {"Tsegmentids": type_attr(INDEX, int32)}


class _SparseSegment(Op):
    """Rows data[indices[i]] combined by sorted segment ids; 0 for ids that do not occur.

    Attributes:
        way: `sum`, `mean` or `root`: how the sum of a segment is divided.
    """

    reads_rows = True
    inputs = "data: T, indices: Tidx, segment_ids: Tsegmentids"
    outputs = "output: T"
    attrs = {
        "T": type_attr(FLOATING),
        **_INDICES,
        **_SEGMENTS,
        "sparse_gradient": bool_attr(False),
    }
    kernels = SUMMED_BY_INDEX
    way: ClassVar[str]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(last id + 1, ...), or (num_segments, ...) if that is given."""
        data = node.shapes[0]
        (rows,) = node.with_rank(1, 1, "indices")
        (count,) = node.with_rank(2, 1, "segment_ids")
        if None not in (rows, count) and rows != count:
            raise InvalidArgumentError(message=rows_text(count, rows))
        if data == ():
            raise InvalidArgumentError(message="data must be at least rank 1 but is a scalar")
        segments: int | None
        if len(node.shapes) == 4:
            segments = constant_scalar(node, 3, "num_segments")
        else:
            ids = node.value(2)
            segments = None if ids is None else count_if_sorted(ids)
        return [None if data is None else (segments, *data[1:])]

    def compute(
        self, xp: Any, data: Array, indices: Array, segment_ids: Array, *number: Array
    ) -> Array:
        """[segments, ...].

        Raises:
            InvalidArgumentError: An index is not a row, there is not one id per index, or ids
                decrease or exceed the number of segments.
        """
        if segment_ids.shape != indices.shape or indices.ndim != 1:
            raise InvalidArgumentError(message=rows_text(segment_ids.size, indices.size))
        count = sorted_count(xp, segment_ids)
        if number:
            given = scalar(number[0], "num_segments")
            if count > given:
                raise InvalidArgumentError(
                    message=f"segment ids must be < num_segments = {given}, got {count - 1}"
                )
            count = given
        sums = None
        if xp is np:  # machine code checks the indices itself
            sums = row_kernels.sum_rows(data, segment_ids, count, indices)
        if sums is None:
            check_indices(xp, indices, data.shape[0])
            sums = sum_by_segment(xp, data, segment_ids, count, indices)
        if self.way == "sum":
            return sums
        return mean_by_segment(xp, sums, segment_ids, root=self.way == "root")

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """Each row gets its part of the gradients of its segments."""
        data, indices, ids, *number = op.inputs
        nothing = (None,) * (2 + len(number))
        if op.attr("sparse_gradient"):
            rows = _shares(g, self.way, dy, ids)
            return (g.indexed_slices(rows, indices, g.Shape(data)), *nothing)
        rows_of_data = g.StridedSlice(
            g.Shape(data),
            np.array([0], np.int32),
            np.array([1], np.int32),
            np.array([1], np.int32),
            shrink_axis_mask=1,
        )
        make = getattr(g, f"{_NAMES[self.way]}Grad")
        return (make(dy, indices, ids, rows_of_data), *nothing)


def _shares(g: GraphBuilder, way: str, dy: Tensor, ids: Tensor) -> Tensor:
    """Returns, per looked-up row, its part of the gradient of its segment."""
    rows = g.Gather(dy, ids)
    if way == "sum":
        return rows
    ones = g.Fill(g.Shape(ids), g.const(1, dy.dtype.base))
    counts = g.Gather(g.SegmentSum(ones, ids), ids)
    weights = g.Reciprocal(counts) if way == "mean" else g.Rsqrt(counts)
    inner = g.Fill(g.Reshape(g.Sub(g.Rank(dy), g.const(1, int32)), np.array([1], np.int32)), 1)
    shape = g.ConcatV2([g.Shape(ids), inner], np.array(0, np.int32))
    return g.Mul(rows, g.Reshape(weights, shape))


class _SparseSegmentGrad(Op):
    """The gradient of such an op by `data`: [output_dim0, ...]."""

    inputs = "grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32"
    outputs = "output: T"
    attrs = {"T": type_attr(FLOATING), **_INDICES, **_SEGMENTS}
    kernels = SUMMED_BY_INDEX
    way: ClassVar[str]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(output_dim0, ...)."""
        grad = node.shapes[0]
        rows = constant_scalar(node, 3, "output_dim0")
        return [None if grad is None else (rows, *grad[1:])]

    def compute(
        self, xp: Any, grad: Array, indices: Array, segment_ids: Array, output_dim0: Array
    ) -> Array:
        """Each row of the gradient, distributed over the rows of its segment.

        Raises:
            InvalidArgumentError: An index beyond the output, or an id beyond the gradient.
        """
        rows = scalar(output_dim0, "output_dim0")
        check_indices(xp, indices, rows)
        check_indices(xp, segment_ids, grad.shape[0])
        if self.way != "sum":
            grad = mean_by_segment(xp, grad, segment_ids, root=self.way == "root")
        return sum_by_segment(xp, grad, indices, rows, segment_ids)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """Linear: the same lookup and sum of the incoming gradient."""
        grad, indices, ids, _ = op.inputs
        first = np.array([0], np.int32), np.array([1], np.int32), np.array([1], np.int32)
        count = g.StridedSlice(g.Shape(grad), *first, shrink_axis_mask=1)
        forward = getattr(g, f"{_NAMES[self.way]}WithNumSegments")
        return forward(dy, indices, ids, count), None, None, None


_NAMES = {
    "sum": "SparseSegmentSum",
    "mean": "SparseSegmentMean",
    "root": "SparseSegmentSqrtN",
}
_WITH_NUMBER = {
    "inputs": f"{_SparseSegment.inputs}, num_segments: Tnumsegments",
    "attrs": {
        "T": type_attr(FLOATING),
        **_INDICES,
        "Tnumsegments": type_attr(INDEX, int32),
        **_SEGMENTS,
        "sparse_gradient": bool_attr(False),
    },
}
_SUMMABLE = type_attr(REAL)

for _way, _name in _NAMES.items():
    _own: dict[str, Any] = {"way": _way, "__doc__": f"By {_way}, see `_SparseSegment`."}
    _of_sums = {"T": _SUMMABLE} if _way == "sum" else {}
    _plain = {"attrs": {**_SparseSegment.attrs, **_of_sums}}
    _numbered = {**_WITH_NUMBER, "attrs": {**_WITH_NUMBER["attrs"], **_of_sums}}  # type: ignore[dict-item]  # a dictionary it is
    register(type(_name, (_SparseSegment,), {**_own, **_plain}))
    register(type(f"{_name}WithNumSegments", (_SparseSegment,), {**_own, **_numbered}))
    register(type(f"{_name}Grad", (_SparseSegmentGrad,), _own))
