"""`tf.contrib.losses`: losses with the predictions first. They are listed in `LOSSES`."""

from __future__ import annotations

from typing import Any

import sparkflow as tf
from sparkflow.contrib.framework.scoped_arguments import add_arg_scope
from sparkflow.losses import add_loss as _add_loss, get_regularization_losses

__all__ = [
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "log_loss",
    "mean_pairwise_squared_error",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]


@add_arg_scope
def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: str | None = None) -> Any:
    """The mean of the losses whose weights are not 0, each times its weight.

    Args:
        losses: [batch, ...].
        weights: A scalar, or of the first dimensions of `losses`.
        scope: The name scope.

    Raises:
        ValueError: The weights do not fit.
    """
    losses = tf.convert_to_tensor(losses)
    return tf.losses.compute_weighted_loss(losses, _weights(losses, weights), scope)


def _weights(losses: Any, weights: Any) -> Any:
    weights = tf.cast(tf.convert_to_tensor(weights), tf.float32)
    rank, own = losses.shape.ndims, weights.shape.ndims
    if rank is None:
        raise ValueError("losses.get_shape().ndims cannot be None")
    if own is None:
        raise ValueError("weights.get_shape().ndims cannot be None")
    for _ in range(rank - own if own else 0):
        weights = tf.expand_dims(weights, -1)
    return weights


@add_arg_scope
def add_loss(loss: Any, loss_collection: str | None = tf.GraphKeys.LOSSES) -> None:
    """Lists a loss."""
    _add_loss(loss, loss_collection)


def get_losses(scope: str | None = None, loss_collection: str = tf.GraphKeys.LOSSES) -> list[Any]:
    """The losses that are listed."""
    return list(tf.get_collection(loss_collection, scope))


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss") -> Any:
    """The sum of all losses.

    Args:
        add_regularization_losses: Add those of regularizers too.
        name: Name of the node.
    """
    found = get_losses()
    if add_regularization_losses:
        found += get_regularization_losses()
    return tf.add_n(found, name=name)


def _same_shape(predictions: Any, labels: Any) -> tuple[Any, Any]:
    predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
    predictions.shape.assert_is_compatible_with(labels.shape)
    return tf.cast(predictions, tf.float32), tf.cast(labels, tf.float32)


@add_arg_scope
def absolute_difference(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """The mean of |predictions - labels|; arguments as for `compute_weighted_loss`.

    Raises:
        ValueError: The shapes differ.
    """
    with tf.name_scope(scope, "absolute_difference", [predictions, labels]) as name:
        predictions, labels = _same_shape(predictions, labels)
        return compute_weighted_loss(tf.abs(predictions - labels), weights, scope=name)


@add_arg_scope
def mean_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """The mean of (predictions - labels)²; arguments as for `compute_weighted_loss`.

    Raises:
        ValueError: The shapes differ.
    """
    with tf.name_scope(scope, "mean_squared_error", [predictions, labels]) as name:
        predictions, labels = _same_shape(predictions, labels)
        losses = tf.squared_difference(predictions, labels)
        return compute_weighted_loss(losses, weights, scope=name)


@add_arg_scope
def log_loss(
    predictions: Any,
    labels: Any = None,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
) -> Any:
    """The mean cross entropy of probabilities; arguments as for `compute_weighted_loss`.

    Raises:
        ValueError: The shapes differ.
    """
    with tf.name_scope(scope, "log_loss", [predictions, labels]) as name:
        predictions, labels = _same_shape(predictions, labels)
        hit = labels * tf.log(predictions + epsilon)
        losses = -hit - (1 - labels) * tf.log(1 - predictions + epsilon)
        return compute_weighted_loss(losses, weights, scope=name)


@add_arg_scope
def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> Any:
    """max(0, 1 - y · logits) per element, y being -1 for labels 0; it is not listed.

    Raises:
        ValueError: The shapes differ.
    """
    with tf.name_scope(scope, "hinge_loss", [logits, labels]):
        logits, labels = _same_shape(logits, labels)
        return tf.nn.relu(1 - (2 * labels - 1) * logits)


@add_arg_scope
def sigmoid_cross_entropy(
    logits: Any,
    multi_class_labels: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str = "sigmoid_cross_entropy_loss",
) -> Any:
    """The mean of `tf.nn.sigmoid_cross_entropy_with_logits`.

    Args:
        logits: [batch, classes].
        multi_class_labels: [batch, classes], from 0 to 1.
        weights: As for `compute_weighted_loss`.
        label_smoothing: How far labels are moved towards 1/2.
        scope: The name scope.

    Raises:
        ValueError: The shapes differ.
    """
    with tf.name_scope(scope, "sigmoid_cross_entropy_loss", [logits]) as name:
        logits, labels = tf.convert_to_tensor(logits), tf.convert_to_tensor(multi_class_labels)
        logits.shape.assert_is_compatible_with(labels.shape)
        labels = tf.cast(labels, logits.dtype)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        return compute_weighted_loss(losses, weights, scope=name)


@add_arg_scope
def softmax_cross_entropy(
    logits: Any,
    onehot_labels: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
) -> Any:
    """The mean of `tf.nn.softmax_cross_entropy_with_logits`.

    Args:
        logits: [batch, classes].
        onehot_labels: [batch, classes].
        weights: As for `compute_weighted_loss`.
        label_smoothing: How far labels are moved towards 1/classes.
        scope: The name scope.

    Raises:
        ValueError: The shapes differ.
    """
    with tf.name_scope(scope, "softmax_cross_entropy_loss", [logits, onehot_labels]) as name:
        logits, labels = tf.convert_to_tensor(logits), tf.convert_to_tensor(onehot_labels)
        logits.shape.assert_is_compatible_with(labels.shape)
        labels = tf.cast(labels, logits.dtype)
        if label_smoothing > 0:
            classes = tf.cast(tf.shape(labels)[1], logits.dtype)
            labels = labels * (1.0 - label_smoothing) + label_smoothing / classes
        losses = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return compute_weighted_loss(losses, weights, scope=name)


@add_arg_scope
def sparse_softmax_cross_entropy(
    logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """The mean of `tf.nn.sparse_softmax_cross_entropy_with_logits`.

    Args:
        logits: [batch, classes].
        labels: [batch] or [batch, 1] integers.
        weights: As for `compute_weighted_loss`.
        scope: The name scope.
    """
    with tf.name_scope(scope, "sparse_softmax_cross_entropy_loss", [logits, labels]) as name:
        labels = tf.reshape(labels, [tf.shape(tf.convert_to_tensor(labels))[0]])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return compute_weighted_loss(losses, weights, scope=name)


@add_arg_scope
def cosine_distance(
    predictions: Any,
    labels: Any = None,
    axis: Any = None,
    weights: Any = 1.0,
    scope: str | None = None,
    dim: Any = None,
) -> Any:
    """The mean of 1 - labels · predictions along `axis`, for vectors of length 1.

    Raises:
        ValueError: `axis` is missing, or the shapes differ.
    """
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    with tf.name_scope(scope, "cosine_distance_loss", [predictions, labels]) as name:
        predictions, labels = _same_shape(predictions, labels)
        losses = 1 - tf.reduce_sum(predictions * labels, axis=[axis])
        return compute_weighted_loss(losses, weights, scope=name)


@add_arg_scope
def mean_pairwise_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """Per example the mean over pairs of elements of the squared error of their difference."""
    predictions = tf.convert_to_tensor(predictions)
    return tf.losses.mean_pairwise_squared_error(
        labels, predictions, _weights(predictions, weights), scope
    )
