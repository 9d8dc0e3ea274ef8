"""Functions that make models for tests of `sparkflow.spark`."""

from __future__ import annotations

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
