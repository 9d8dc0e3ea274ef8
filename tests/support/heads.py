"""Evaluates heads on one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sparkflow as tf


def evaluated(
    head: Any, logits: Any, labels: Callable[[], Any], features: Mapping[str, Any] | None = None
) -> tuple[Any, Any]:
    """Loss and metrics of a head on one batch."""
    with tf.Graph().as_default():
        given = {key: tf.constant(value) for key, value in (features or {}).items()}
        spec = head.create_estimator_spec(given, "eval", tf.constant(logits), labels())
        with tf.Session() as session:
            session.run([tf.local_variables_initializer(), tf.tables_initializer()])
            values = {key: pair[0] for key, pair in spec.eval_metric_ops.items()}
            loss, _ = session.run([spec.loss, [pair[1] for pair in spec.eval_metric_ops.values()]])
            return loss, session.run(values)
