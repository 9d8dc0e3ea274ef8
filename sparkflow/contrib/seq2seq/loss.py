"""The loss of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sparkflow as tf


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
) -> Any:
    """The cross entropy of sequences, weighted.

    Args:
        logits: [batch, time, classes].
        targets: [batch, time] integers.
        weights: [batch, time].
        average_across_timesteps: Divide the sum over time by the weights.
        average_across_batch: Divide the sum over the batch by the weights.
        softmax_loss_function: From `labels` and `logits` to losses.
        name: The name scope.
        sum_over_timesteps: Divide the sum over time by the number of steps whose weight is not 0.
        sum_over_batch: Divide the sum over the batch by the number of those of its examples.

    Returns:
        A scalar, or [time], [batch] or [batch, time].

    Raises:
        ValueError: Other ranks, or both to average and to sum.
    """
    logits, targets = tf.convert_to_tensor(logits), tf.convert_to_tensor(targets)
    weights = tf.convert_to_tensor(weights)
    if logits.shape.ndims != 3:
        raise ValueError("Logits must be a [batch_size x sequence_length x logits] tensor")
    if targets.shape.ndims != 2:
        raise ValueError("Targets must be a [batch_size x sequence_length] tensor")
    if weights.shape.ndims != 2:
        raise ValueError("Weights must be a [batch_size x sequence_length] tensor")
    if average_across_timesteps and sum_over_timesteps:
        raise ValueError(
            "average_across_timesteps and sum_over_timesteps cannot be set to True at same time."
        )
    if average_across_batch and sum_over_batch:
        raise ValueError(
            "average_across_batch and sum_over_batch cannot be set to True at same time."
        )
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        classes = tf.shape(logits)[2]
        flat, labels = tf.reshape(logits, [-1, classes]), tf.reshape(targets, [-1])
        if softmax_loss_function is None:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=flat)
        else:
            losses = softmax_loss_function(labels=labels, logits=flat)
        losses = losses * tf.reshape(weights, [-1])
        if average_across_timesteps and average_across_batch:
            return tf.reduce_sum(losses) / (tf.reduce_sum(weights) + 1e-12)
        if sum_over_timesteps and sum_over_batch:
            count = tf.cast(tf.count_nonzero(weights), losses.dtype)
            return tf.div_no_nan(tf.reduce_sum(losses), count)
        losses = tf.reshape(losses, tf.shape(logits)[:2])
        for axis, average, sums in (
            (1, average_across_timesteps, sum_over_timesteps),
            (0, average_across_batch, sum_over_batch),
        ):
            if average:
                total = tf.reduce_sum(weights, axis=[axis]) + 1e-12
                losses = tf.reduce_sum(losses, axis=[axis]) / total
            elif sums:
                count = tf.cast(tf.count_nonzero(weights, axis=axis), losses.dtype)
                losses = tf.div_no_nan(tf.reduce_sum(losses, axis=axis), count)
        return losses
