"""Functions that build models for tests of `sparkflow.spark`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sparkflow as tf


def linear(features: Any, labels: Any, mode: str) -> Any:
    """y = x w."""
    prediction = tf.squeeze(tf.layers.dense(features, 1, name="layer"), axis=[1])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, prediction)
    loss = tf.reduce_mean(tf.square(prediction - labels))
    train_op = tf.train.AdamOptimizer(0.05).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def counted(rows: int) -> Callable[..., Any]:
    """A linear model that counts in `count` how often each row is applied.

    Args:
        rows: The number of rows; the label of each is its number, from 0.
    """

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        prediction = tf.squeeze(tf.layers.dense(features, 1, name="layer"), axis=[1])
        count = tf.get_variable("count", [rows], tf.int32, tf.zeros_initializer(), trainable=False)
        if mode == tf.estimator.ModeKeys.PREDICT:
            # A saved model has the variables that its predictions need.
            prediction += 0.0 * tf.cast(tf.reduce_sum(count), tf.float32)
            return tf.estimator.EstimatorSpec(mode, prediction)
        loss = tf.reduce_mean(tf.square(prediction - labels / rows))
        learnt = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        numbers = tf.cast(labels, tf.int32)
        applied = tf.scatter_add(count, numbers, tf.ones_like(numbers), use_locking=True)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(learnt, applied))

    return model_fn
