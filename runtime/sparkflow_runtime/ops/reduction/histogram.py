"""Counts of each integer, and histograms of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.rows import combined_rows, counting
from sparkflow_runtime.dtypes import INDEX, DType, float32, float64, int32, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernels.combining import combine_at
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.ops.static import bracketed, constant_scalar, scalar
from sparkflow_runtime.shapes import Shape

_COUNTED = frozenset({int32, int64, float32, float64})


@register
class Bincount(Op):
    """The count of each of 0 ... size - 1, or the sum of its weights.

    Larger numbers are ignored.
    """

    inputs = "arr: int32, size: int32, weights: T"
    outputs = "bins: T"
    attrs = {"T": type_attr(_COUNTED)}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(size,)."""
        return [(constant_scalar(node, 1, "size"),)]

    def compute(self, xp: Any, arr: Array, size: Array, weights: Array) -> Array:
        """[size] of the dtype of the weights.

        Raises:
            InvalidArgumentError: A negative number or size, or weights of another shape.
        """
        count = scalar(size, "size")
        if count < 0:
            raise InvalidArgumentError(message=f"size ({count}) must be non-negative")
        if weights.size and weights.shape != arr.shape:
            raise InvalidArgumentError(
                message="weights must be empty or have the shape of arr, got "
                f"{bracketed(weights.shape)} for {bracketed(arr.shape)}"
            )
        numbers = arr.reshape(-1)
        if (
            xp is np
            and not weights.size
            and (found := counting.counted(numbers, count)) is not None
        ):
            return found.astype(weights.dtype, copy=False)
        if numbers.size and int(numbers.min()) < 0:
            raise InvalidArgumentError(message="Input arr must be non-negative!")
        weights = weights.reshape(-1)
        if numbers.size and int(numbers.max()) >= count:
            kept = numbers < count
            numbers, weights = numbers[kept], weights[kept] if weights.size else weights
        if not weights.size:
            return xp.bincount(numbers, minlength=count).astype(weights.dtype)
        if xp is np:
            found = combined_rows.combined("add", weights, numbers, count)
            if found is not None:
                return found
        sums = xp.zeros(count, weights.dtype)
        combine_at(xp, "add", sums, numbers.astype(xp.int64), weights)
        return sums


@register
class HistogramFixedWidth(Op):
    """The counts of values in `nbins` bins of equal width; values outside count in the end bins."""

    inputs = "values: T, value_range: T, nbins: int32"
    outputs = "out: dtype"
    attrs = {"T": type_attr(_COUNTED), "dtype": type_attr(INDEX, int32)}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(nbins,)."""
        (ends,) = node.with_rank(1, 1, "value_range")
        if ends not in (None, 2):
            raise InvalidArgumentError(message=f"value_range must have 2 elements, got {ends}")
        return [(constant_scalar(node, 2, "nbins"),)]

    def compute(
        self, xp: Any, values: Array, value_range: Array, nbins: Array, *, dtype: DType
    ) -> Array:
        """[nbins].

        Raises:
            InvalidArgumentError: No bins, or a range that is empty or reversed.
        """
        count = scalar(nbins, "nbins")
        low, high = value_range.tolist()
        if count <= 0:
            raise InvalidArgumentError(message=f"nbins should be a positive number, got {count}")
        if not low < high:
            raise InvalidArgumentError(
                message="value_range should satisfy value_range[0] < value_range[1], but got "
                f"[{low}, {high}]"
            )
        if xp is np:
            found = counting.histogram(values.reshape(-1), low, high, count)
            if found is not None:
                return found.astype(dtype.as_numpy_dtype, copy=False)
        width = (high - low) / count
        bins = (values.reshape(-1).astype(np.float64) - low) / width
        places = xp.clip(xp.floor(bins), 0, count - 1).astype(np.int64)
        return xp.bincount(places, minlength=count).astype(dtype.as_numpy_dtype)
