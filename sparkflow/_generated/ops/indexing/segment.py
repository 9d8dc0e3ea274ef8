"""Rows of one segment combined: sums, means, products and extremes.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/indexing/segment.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "unsorted_segment_max",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sum",
]


def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Sums of the rows with the same id; the ids are sorted.

    Args:
        data: Tensor of rank 1 or more of any number.
        segment_ids: Vector of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `data`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("SegmentSum", data, segment_ids, name=name)
    return result


def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Means of the rows with the same id; the ids are sorted.

    Args:
        data: Tensor of rank 1 or more of any number.
        segment_ids: Vector of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `data`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("SegmentMean", data, segment_ids, name=name)
    return result


def segment_prod(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Products of the rows with the same id; the ids are sorted.

    Args:
        data: Tensor of rank 1 or more of any number.
        segment_ids: Vector of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `data`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("SegmentProd", data, segment_ids, name=name)
    return result


def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Largest elements of the rows with the same id; the ids are sorted.

    Args:
        data: Tensor of rank 1 or more of any real number.
        segment_ids: Vector of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `data`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("SegmentMax", data, segment_ids, name=name)
    return result


def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Smallest elements of the rows with the same id; the ids are sorted.

    Args:
        data: Tensor of rank 1 or more of any real number.
        segment_ids: Vector of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `data`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("SegmentMin", data, segment_ids, name=name)
    return result


def unsorted_segment_sum(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Sums of the slices of one id: [num_segments, ...]; negative ids are left out.

    Args:
        data: Tensor [...] of any number.
        segment_ids: Tensor [...] of int32, int16 or int64.
        num_segments: Scalar of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `data`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("UnsortedSegmentSum", data, segment_ids, num_segments, name=name)
    return result


def unsorted_segment_prod(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Products of the slices of one id: [num_segments, ...]; negative ids are left out.

    Args:
        data: Tensor [...] of any number.
        segment_ids: Tensor [...] of int32, int16 or int64.
        num_segments: Scalar of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `data`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("UnsortedSegmentProd", data, segment_ids, num_segments, name=name)
    return result


def unsorted_segment_max(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Largest elements of the slices of one id: [num_segments, ...]; negative ids are left out.

    Args:
        data: Tensor [...] of any real number.
        segment_ids: Tensor [...] of int32, int16 or int64.
        num_segments: Scalar of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `data`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("UnsortedSegmentMax", data, segment_ids, num_segments, name=name)
    return result


def unsorted_segment_min(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Smallest elements of the slices of one id: [num_segments, ...]; negative ids are left out.

    Args:
        data: Tensor [...] of any real number.
        segment_ids: Tensor [...] of int32, int16 or int64.
        num_segments: Scalar of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `data`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("UnsortedSegmentMin", data, segment_ids, num_segments, name=name)
    return result
