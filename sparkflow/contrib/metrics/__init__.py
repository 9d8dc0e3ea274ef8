"""`tf.contrib.metrics`: the metrics of `tf.metrics` with the predictions first."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import sparkflow as tf
from sparkflow.ops.sparse.sets import set_difference, set_intersection, set_size, set_union

Metric = Callable[..., Any]
_SWAPPED = {
    "streaming_accuracy": "accuracy",
    "streaming_auc": "auc",
    "streaming_false_negatives": "false_negatives",
    "streaming_false_negatives_at_thresholds": "false_negatives_at_thresholds",
    "streaming_false_positives": "false_positives",
    "streaming_false_positives_at_thresholds": "false_positives_at_thresholds",
    "streaming_mean_absolute_error": "mean_absolute_error",
    "streaming_mean_cosine_distance": "mean_cosine_distance",
    "streaming_mean_iou": "mean_iou",
    "streaming_mean_relative_error": "mean_relative_error",
    "streaming_mean_squared_error": "mean_squared_error",
    "streaming_precision": "precision",
    "streaming_precision_at_thresholds": "precision_at_thresholds",
    "streaming_recall": "recall",
    "streaming_recall_at_k": "recall_at_k",
    "streaming_recall_at_thresholds": "recall_at_thresholds",
    "streaming_root_mean_squared_error": "root_mean_squared_error",
    "streaming_sensitivity_at_specificity": "sensitivity_at_specificity",
    "streaming_sparse_average_precision_at_k": "average_precision_at_k",
    "streaming_sparse_precision_at_k": "precision_at_k",
    "streaming_sparse_recall_at_k": "recall_at_k",
    "streaming_specificity_at_sensitivity": "specificity_at_sensitivity",
    "streaming_true_negatives": "true_negatives",
    "streaming_true_negatives_at_thresholds": "true_negatives_at_thresholds",
    "streaming_true_positives": "true_positives",
    "streaming_true_positives_at_thresholds": "true_positives_at_thresholds",
}
_SAME = {
    "streaming_mean": "mean",
    "streaming_mean_tensor": "mean_tensor",
    "streaming_percentage_less": "percentage_below",
}


def _swapped(name: str) -> Metric:
    metric: Metric = getattr(tf.metrics, name)

    @functools.wraps(metric)
    def predictions_first(predictions: Any, labels: Any, *args: Any, **kwargs: Any) -> Any:
        return metric(labels, predictions, *args, **kwargs)

    return predictions_first


def __getattr__(name: str) -> Any:
    if name in _SWAPPED:
        return _swapped(_SWAPPED[name])
    if name in _SAME:
        return getattr(tf.metrics, _SAME[name])
    raise AttributeError(f"tf.contrib.metrics has no {name!r}; it has {', '.join(__all__)}")


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Any:
    """The share of labels that are predicted.

    Args:
        predictions: Integers, booleans or texts.
        labels: Of the same dtype and shape.
        weights: Weights of the elements.
        name: The name scope.

    Raises:
        ValueError: The dtypes or shapes differ.
    """
    predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
    if not (labels.dtype.is_integer or labels.dtype in (tf.bool, tf.string)):
        raise ValueError(
            "Labels should have bool, integer, or string dtype, not " + repr(labels.dtype)
        )
    if not labels.dtype.is_compatible_with(predictions.dtype):
        raise ValueError(
            "Dtypes of predictions and labels should match. "
            f"Given: predictions ({predictions.dtype!r}) and labels ({labels.dtype!r})"
        )
    predictions.shape.assert_is_compatible_with(labels.shape)
    with tf.name_scope(name, "accuracy", [predictions, labels]):
        correct = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(correct)
        weighted = correct * tf.cast(weights, tf.float32)
        total = tf.reduce_sum(tf.ones_like(correct) * tf.cast(weights, tf.float32))
        return tf.div(tf.reduce_sum(weighted), total)


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: int | None = None,
    dtype: Any = tf.int32,
    name: str | None = None,
    weights: Any = None,
) -> Any:
    """Same as `tf.confusion_matrix`."""
    return tf.confusion_matrix(
        labels, predictions, num_classes, dtype=dtype, name=name, weights=weights
    )


def aggregate_metrics(*value_update_tuples: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Pairs of values and updates as a list of values and a list of updates.

    Raises:
        ValueError: There are none.
    """
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(
    names_to_tuples: Mapping[str, tuple[Any, Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Pairs by name as values by name and updates by name."""
    values = {name: value for name, (value, _) in names_to_tuples.items()}
    return values, {name: update for name, (_, update) in names_to_tuples.items()}


__all__ = [
    "accuracy",
    "aggregate_metric_map",
    "aggregate_metrics",
    "confusion_matrix",
    "set_difference",
    "set_intersection",
    "set_size",
    "set_union",
    *sorted(_SWAPPED),
    *sorted(_SAME),
]
