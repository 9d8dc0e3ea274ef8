"""Metrics of many classes that count in a matrix or a vector."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.metrics.scope import Pair, listed, metric_scope
from sparkflow.metrics.weights import metric_variable, squeezed
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.elementwise.comparison import equal, greater, not_equal, where
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.indexing.histogram import confusion_matrix
from sparkflow.ops.linalg.diagonals import diag_part
from sparkflow.ops.reduction.reduction import reduce_mean, reduce_sum
from sparkflow.ops.shape import arrays, constants
from sparkflow.ops.state.state import assign_add, scatter_add
from sparkflow_runtime.dtypes import float32, float64, int64


def mean_iou(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean over classes of intersection over union: TP / (TP + FP + FN).

    Args:
        labels: Class numbers, of any shape.
        predictions: Class numbers, as many.
        num_classes: How many classes there are.
        weights: What each counts, of the same shape; None for ones.
        metrics_collections: Collections to which the value is added.
        updates_collections: Collections to which the update operation is added.
        name: Name of the scope.

    Returns:
        The mean over classes that occurred, and the operation that adds a batch to the matrix
        `[num_classes, num_classes]` float64 and gives it.

    Raises:
        ValueError: The shapes differ.
        RuntimeError: Operations run at once.
    """
    with metric_scope(name, "mean_iou", (predictions, labels, weights)):
        guessed, wanted = convert_to_tensor(predictions), convert_to_tensor(labels)
        guessed.shape.assert_is_compatible_with(wanted.shape)
        matrix = metric_variable([num_classes, num_classes], "total_confusion_matrix", float64)
        guessed, wanted = _flat(cast(guessed, int64)), _flat(cast(wanted, int64))
        factors = None if weights is None else _flat(convert_to_tensor(weights))
        batch = confusion_matrix(wanted, guessed, num_classes, dtype=float64, weights=factors)
        update = assign_add(matrix, batch)
        value = _mean_overlap(matrix)
        return listed(value, update, metrics_collections, updates_collections)


def _flat(tensor: Tensor) -> Tensor:
    ndims = tensor.shape.ndims
    return tensor if ndims is not None and ndims <= 1 else arrays.reshape(tensor, [-1])


def _mean_overlap(matrix: Any) -> Tensor:
    rows = cast(reduce_sum(matrix, 0), float32)
    columns = cast(reduce_sum(matrix, 1), float32)
    hits = cast(diag_part(matrix), float32)
    union = rows + columns - hits
    occurring = reduce_sum(cast(not_equal(union, 0), float32))
    overlap = elementwise.div(hits, where(greater(union, 0), union, constants.ones_like(union)))
    return where(greater(occurring, 0), reduce_sum(overlap, name="mean_iou") / occurring, 0.0)


def mean_per_class_accuracy(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean over classes of the accuracy in each; arguments as for `mean_iou`.

    The update operation gives the accuracy of each class.
    """
    with metric_scope(name, "mean_accuracy", (predictions, labels, weights)):
        guessed, wanted, weights = squeezed(predictions, cast(labels, int64), weights)
        total = metric_variable([num_classes], "total")
        count = metric_variable([num_classes], "count")
        wanted, guessed = _flat(wanted), _flat(guessed)
        if guessed.dtype.base != wanted.dtype.base:
            guessed = cast(guessed, wanted.dtype.base)
        seen = constants.ones_like(wanted, dtype=float32)
        right = cast(equal(guessed, wanted), float32)
        if weights is not None:
            factors = cast(_flat(weights), float32)
            right, seen = right * factors, seen * factors
        more_total = scatter_add(total, wanted, seen)
        more_count = scatter_add(count, wanted, right)
        each = elementwise.div_no_nan(count, elementwise.maximum(total, 0))
        update = elementwise.div_no_nan(
            more_count, elementwise.maximum(more_total, 0), name="update_op"
        )
        value = reduce_mean(each, name="mean_accuracy")
        return listed(value, update, metrics_collections, updates_collections)
