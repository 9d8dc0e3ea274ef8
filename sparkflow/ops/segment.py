"""Rows of one segment combined: sums, means, products and extremes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor


def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Sums of the rows with the same id; the ids are sorted."""
    result: Tensor = apply_op("SegmentSum", data, segment_ids, name=name)
    return result


def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Means of the rows with the same id; the ids are sorted."""
    result: Tensor = apply_op("SegmentMean", data, segment_ids, name=name)
    return result


def segment_prod(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Products of the rows with the same id; the ids are sorted."""
    result: Tensor = apply_op("SegmentProd", data, segment_ids, name=name)
    return result


def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Largest elements of the rows with the same id; the ids are sorted."""
    result: Tensor = apply_op("SegmentMax", data, segment_ids, name=name)
    return result


def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Smallest elements of the rows with the same id; the ids are sorted."""
    result: Tensor = apply_op("SegmentMin", data, segment_ids, name=name)
    return result


def unsorted_segment_sum(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Sums of the slices of one id: [num_segments, ...]; negative ids are left out."""
    result: Tensor = apply_op("UnsortedSegmentSum", data, segment_ids, num_segments, name=name)
    return result


def unsorted_segment_prod(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Products of the slices of one id: [num_segments, ...]; negative ids are left out."""
    result: Tensor = apply_op("UnsortedSegmentProd", data, segment_ids, num_segments, name=name)
    return result


def unsorted_segment_max(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Largest elements of the slices of one id: [num_segments, ...]; negative ids are left out."""
    result: Tensor = apply_op("UnsortedSegmentMax", data, segment_ids, num_segments, name=name)
    return result


def unsorted_segment_min(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Smallest elements of the slices of one id: [num_segments, ...]; negative ids are left out."""
    result: Tensor = apply_op("UnsortedSegmentMin", data, segment_ids, num_segments, name=name)
    return result


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
    result: Tensor = apply_op("Maximum", counts, np.ones((), _real(data)))
    return result


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
        result: Tensor = summed / (apply_op("Sqrt", counts) if root else counts)
        return result


def unsorted_segment_mean(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Means of the slices with the same id: [num_segments, ...]; 0 where there is none."""
    return _divided(data, segment_ids, num_segments, name or "UnsortedSegmentMean", False)


def unsorted_segment_sqrt_n(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Sums of the slices with the same id over the square root of their number."""
    return _divided(data, segment_ids, num_segments, name or "UnsortedSegmentSqrtN", True)


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


def sparse_segment_sqrt_n(
    data: Any,
    indices: Any,
    segment_ids: Any,
    name: str | None = None,
    num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """As `sparse_segment_sum`, over the square root of the number of rows."""
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
    result: Tensor = apply_op(op_type, *inputs, sparse_gradient=sparse_gradient, name=name)
    return result
