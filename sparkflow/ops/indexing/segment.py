"""Rows of one segment combined: sums, means, products and extremes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.indexing.segment import *  # noqa: F403
from sparkflow._generated.ops.indexing.segment import unsorted_segment_sum
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor


def _counts(data: Tensor, segment_ids: Tensor, num_segments: Tensor) -> Tensor:
    """How many slices each segment has, at least 1, with as many axes as the result."""
    one = np.array([1], np.int32)
    ones = apply_op("Fill", apply_op("Shape", segment_ids), np.ones((), _real(data)))
    counts = unsorted_segment_sum(ones, segment_ids, num_segments)
    inner = apply_op("Sub", apply_op("Rank", data), apply_op("Rank", segment_ids))
    rows = apply_op("Reshape", apply_op("Cast", num_segments, DstT="int32"), one)
    sizes = apply_op("Fill", apply_op("Reshape", inner, one), np.array(1, np.int32))
    shape = apply_op("ConcatV2", [rows, sizes], np.array(0, np.int32))
    counts = apply_op("Reshape", counts, shape)
    return output_of("Maximum", counts, np.ones((), _real(data)))


def _real(data: Tensor) -> Any:
    return data.dtype.base.as_numpy_dtype


def _divided(data: Any, segment_ids: Any, num_segments: Any, name: str, root: bool) -> Tensor:
    graph = graph_of((data, segment_ids, num_segments))
    with graph.as_default(), graph.name_scope(name):
        values = convert_to_tensor(data, name="data")
        ids = convert_to_tensor(segment_ids, name="segment_ids")
        number = convert_to_tensor(num_segments, name="num_segments")
        counts = _counts(values, ids, number)
        summed = unsorted_segment_sum(values, ids, number)
        return summed / (apply_op("Sqrt", counts) if root else counts)


@export("unsorted_segment_mean", "math.unsorted_segment_mean")
def unsorted_segment_mean(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Means of the slices with the same id: [num_segments, ...]; 0 where there is none."""
    return _divided(data, segment_ids, num_segments, name or "UnsortedSegmentMean", False)


@export("unsorted_segment_sqrt_n", "math.unsorted_segment_sqrt_n")
def unsorted_segment_sqrt_n(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Sums of the slices with the same id over the square root of their number."""
    return _divided(data, segment_ids, num_segments, name or "UnsortedSegmentSqrtN", True)


@export("sparse_segment_sum", "sparse.segment_sum")
def sparse_segment_sum(
    data: Any,
    indices: Any,
    segment_ids: Any,
    name: str | None = None,
    num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """Sums of the rows `data[indices]` with the same sorted id; [num_segments, ...] if given."""
    return _looked_up(
        "SparseSegmentSum", data, indices, segment_ids, name, num_segments, sparse_gradient
    )


@export("sparse_segment_mean", "sparse.segment_mean")
def sparse_segment_mean(
    data: Any,
    indices: Any,
    segment_ids: Any,
    name: str | None = None,
    num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """Means of the rows `data[indices]` with the same sorted id; [num_segments, ...] if given."""
    return _looked_up(
        "SparseSegmentMean", data, indices, segment_ids, name, num_segments, sparse_gradient
    )


@export("sparse_segment_sqrt_n", "sparse.segment_sqrt_n")
def sparse_segment_sqrt_n(
    data: Any,
    indices: Any,
    segment_ids: Any,
    name: str | None = None,
    num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """Like `sparse_segment_sum`, divided by the square root of the number of rows."""
    return _looked_up(
        "SparseSegmentSqrtN", data, indices, segment_ids, name, num_segments, sparse_gradient
    )


def _looked_up(
    op_type: str,
    data: Any,
    indices: Any,
    segment_ids: Any,
    name: str | None,
    num_segments: Any,
    sparse_gradient: bool,
) -> Tensor:
    inputs = [data, indices, segment_ids]
    if num_segments is not None:
        op_type += "WithNumSegments"
        inputs.append(num_segments)
    return output_of(op_type, *inputs, sparse_gradient=sparse_gradient, name=name)
