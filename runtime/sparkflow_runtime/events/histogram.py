"""Histogram summaries: TensorFlow's buckets, and the counts of an array's elements."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sparkflow_runtime.once import once
from sparkflow_runtime.protos.summary_pb2 import HistogramProto

LARGEST: Final = float(np.finfo(np.float64).max)
_FIRST: Final = 1e-12
_LAST: Final = 1e20
_RATIO: Final = 1.1


@once
def bucket_limits() -> np.ndarray[Any, np.dtype[np.float64]]:
    """The upper limits of the buckets, [buckets] float64, increasing.

    They grow by 10 % each from 1e-12 to 1e20, end with the largest float, and are mirrored at 0.
    """
    positive = []
    limit = _FIRST
    while limit < _LAST:
        positive.append(limit)
        limit *= _RATIO
    positive.append(LARGEST)
    return np.array([-limit for limit in reversed(positive)] + [0.0] + positive)


def histogram(values: np.ndarray[Any, Any]) -> HistogramProto:
    """Returns the histogram of the elements of `values`, finite numbers of any shape.

    A bucket counts the values from the previous limit (inclusive) to its own (exclusive). Adjacent
    empty buckets are written as one.
    """
    numbers = values.astype(np.float64).ravel()
    if not numbers.size:
        return HistogramProto(min=LARGEST, max=-LARGEST, bucket_limit=[LARGEST], bucket=[0.0])
    limits = bucket_limits()
    index = np.minimum(np.searchsorted(limits, numbers, side="right"), len(limits) - 1)
    counts = np.bincount(index, minlength=len(limits))
    # An empty bucket is kept if a non-empty one, or none, follows it.
    kept = (counts > 0) | np.append(counts[1:] > 0, True)
    with np.errstate(over="ignore"):  # sums may be infinite, as in TensorFlow
        total, squares = numbers.sum(), np.dot(numbers, numbers)
    return HistogramProto(
        min=numbers.min(),
        max=numbers.max(),
        num=numbers.size,
        sum=total,
        sum_squares=squares,
        bucket_limit=limits[kept],
        bucket=counts[kept],
    )
