"""Counting: occurrences, histograms, confusion matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.checks.checks import assert_less, assert_non_negative
from sparkflow.ops.checks.rank_fitting import one_rank
from sparkflow.ops.elementwise.elementwise import cast, floor, maximum, minimum, truediv
from sparkflow.ops.indexing.segment import unsorted_segment_sum
from sparkflow.ops.reduction.reduction import reduce_max
from sparkflow_runtime.dtypes import as_dtype, int32, int64


@export("bincount", "math.bincount")
def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = int32,
    name: str | None = None,
) -> Tensor:
    """How often each number 0, 1, ... occurs in `arr`.

    Args:
        arr: Non-negative int32 numbers of any shape.
        weights: What each occurrence counts; of the shape of `arr`. The result has their dtype.
        minlength: The least length of the result; zeros fill it up.
        maxlength: The largest length of the result; larger numbers are left out.
        dtype: The dtype of the result where there are no weights.
        name: Name of the scope.
    """
    graph = graph_of((arr, weights))
    with graph.as_default(), graph.name_scope(name or "bincount"):
        numbers = convert_to_tensor(arr, int32, "arr")
        # One more than the largest, 0 where there is none.
        largest = reduce_max(apply_op("ConcatV2", [apply_op("Reshape", numbers, [-1]), [-1]], 0))
        size = largest + 1
        if minlength is not None:
            size = maximum(convert_to_tensor(minlength, int32, "minlength"), size)
        if maxlength is not None:
            size = minimum(convert_to_tensor(maxlength, int32, "maxlength"), size)
        if weights is None:
            counted = convert_to_tensor(np.zeros(0, as_dtype(dtype).as_numpy_dtype))
        else:
            counted = convert_to_tensor(weights, name="weights")
        return output_of("Bincount", numbers, size, counted)


@export("histogram_fixed_width")
def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = int32, name: str | None = None
) -> Tensor:
    """How many values fall into each of `nbins` bins of one width: [nbins]."""
    graph = graph_of((values, value_range, nbins))
    with graph.as_default(), graph.name_scope(name or "histogram_fixed_width") as scope:
        flat = convert_to_tensor(values, name="values")
        return output_of(
            "HistogramFixedWidth", flat, value_range, nbins, dtype=as_dtype(dtype), name=scope
        )


@export("histogram_fixed_width_bins")
def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = int32, name: str | None = None
) -> Tensor:
    """The bin of every value: integers in [0, nbins), of the shape of `values`."""
    graph = graph_of((values, value_range, nbins))
    with graph.as_default(), graph.name_scope(name or "histogram_fixed_width_bins"):
        tensor = convert_to_tensor(values, name="values")
        ends = convert_to_tensor(value_range, name="value_range")
        count = convert_to_tensor(nbins, int32, "nbins")
        width = truediv(tensor - ends[0], ends[1] - ends[0])
        bins = floor(cast(count, width.dtype) * width)
        last = cast(count - 1, bins.dtype)
        return cast(maximum(minimum(bins, last), apply_op("ZerosLike", last)), dtype)


@export("confusion_matrix", "math.confusion_matrix")
def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = int32,
    name: str | None = None,
    weights: Any = None,
) -> Tensor:
    """How often each label (rows) met each prediction (columns): [classes, classes].

    Args:
        labels: Vector of class numbers.
        predictions: Vector of class numbers; a last dimension of 1 is dropped from either.
        num_classes: The number of classes; one more than the largest number when None.
        dtype: The dtype of the result.
        name: Name of the scope.
        weights: What each pair counts.
    """
    graph = graph_of((labels, predictions, num_classes, weights))
    with graph.as_default(), graph.name_scope(name or "confusion_matrix"):
        rows, columns = one_rank(
            convert_to_tensor(labels, name="labels"),
            convert_to_tensor(predictions, name="predictions"),
        )
        rows, columns = cast(rows, int64), cast(columns, int64)
        rows = _not_negative(rows, "`labels` contains negative values")
        columns = _not_negative(columns, "`predictions` contains negative values")
        if num_classes is None:
            classes = maximum(reduce_max(columns), reduce_max(rows)) + 1
        else:
            classes = cast(num_classes, int64)
            rows = _below(rows, classes, "`labels` out of bound")
            columns = _below(columns, classes, "`predictions` out of bound")
        kind = as_dtype(dtype)
        if weights is None:
            counted = apply_op("Cast", apply_op("OnesLike", columns), DstT=kind)
        else:
            given = convert_to_tensor(weights, name="weights")
            counted = cast(given, kind)
        flat = unsorted_segment_sum(counted, rows * classes + columns, classes * classes)
        result: Tensor = apply_op("Reshape", flat, apply_op("Pack", [classes, classes]))
        number = np.asarray(num_classes) if isinstance(num_classes, int | np.integer) else None
        if number is not None:
            result.set_shape([int(number), int(number)])
        return result


def _not_negative(tensor: Tensor, message: str) -> Tensor:
    with tensor.graph.control_dependencies([assert_non_negative(tensor, message=message)]):
        return output_of("Identity", tensor)


def _below(tensor: Tensor, bound: Tensor, message: str) -> Tensor:
    with tensor.graph.control_dependencies([assert_less(tensor, bound, message=message)]):
        return output_of("Identity", tensor)
