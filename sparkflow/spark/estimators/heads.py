"""Heads on logits: the loss, its weights, metrics, and predictions with Spark ML's names.

The losses and metrics are those of `sparkflow.estimator`'s heads, except that the loss is a
weighted sum divided by the number of rows and by the mean weight of all training rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sparkflow as tf
from sparkflow.estimator.canned.head import Head
from sparkflow.estimator.canned.heads import BinaryHead, MultiClassHead, RegressionHead
from sparkflow.losses import Reduction
from sparkflow.spark.estimators.optimizers import matrices
from sparkflow.spark.estimators.statistics import Moments

Logits = Callable[[Any, str], Any]
"""A function from `(features, mode)` to a tensor [batch, k] or [batch]."""

ModelFn = Callable[..., tf.estimator.EstimatorSpec]


@dataclass(frozen=True, slots=True)
class Objective:
    """The objective, and how it is minimized.

    Attributes:
        train_op: Returns the training op for a loss.
        reg_param: The factor of the penalty.
        elastic_net_param: The fraction of the penalty that is L1.
        mean_weight: The mean weight of all training rows. The loss is divided by it, so it depends
            neither on the unit of the weights nor on which rows share a batch.
    """

    train_op: Callable[[Any], Any]
    reg_param: float = 0.0
    elastic_net_param: float = 0.0
    mean_weight: float = 1.0

    def loss(self, unreduced: Any, weights: Any) -> Any:
        """Returns the mean of losses [batch, 1], each multiplied by its row's weight."""
        return tf.losses.compute_weighted_loss(
            unreduced, weights / self.mean_weight, reduction=Reduction.SUM_OVER_BATCH_SIZE
        )

    def step(self, loss: Any) -> Any:
        """Returns the training op, which adds penalties and updates moving averages.

        Matrices are penalized, except the tables of embedding columns.
        """
        penalties = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        if self.reg_param:
            penalties = [*penalties, self.reg_param * self._penalty()]
        if penalties:
            loss = loss + tf.add_n(penalties)
        step = self.train_op(loss)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        return tf.group(step, *updates) if updates else step

    def _penalty(self) -> Any:
        l1 = self.elastic_net_param
        parts = []
        for variable in matrices(tf.trainable_variables()):
            if l1 > 0:
                parts.append(l1 * tf.reduce_sum(tf.abs(variable)))
            if l1 < 1:
                parts.append((1 - l1) / 2 * tf.reduce_sum(tf.square(variable)))
        return tf.add_n(parts) if parts else tf.constant(0.0)


def classifier_model_fn(logits_fn: Logits, num_classes: int, objective: Objective) -> ModelFn:
    """Returns a model_fn for classes 0, 1, ..., num_classes - 1.

    Args:
        logits_fn: Returns [batch, num_classes]; for two classes also [batch, 1] or [batch], the
            logit of class 1.
        num_classes: The number of classes.
        objective: The objective to minimize.

    Returns:
        A model_fn that predicts `rawPrediction` (the logits), `probability` and `prediction`.

    Raises:
        ValueError: From the model_fn: the logits have another shape.
    """

    def model_fn(
        features: Any, labels: Any, mode: str, weights: Any = None
    ) -> tf.estimator.EstimatorSpec:
        raw = tf.cast(logits_fn(features, mode), tf.float32)
        raw = _checked(raw, _widths(num_classes), f"num_classes={num_classes}")
        width = raw.shape.as_list()[1]
        head: Head = BinaryHead() if num_classes == 2 else MultiClassHead(num_classes)
        # The difference of two logits is the logit of class 1.
        logits = raw[:, 1:] - raw[:, :1] if num_classes == width == 2 else raw
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=_predictions(raw, logits))
        # Two classes have the probability of the second one.
        kind = tf.float32 if num_classes == 2 else tf.int64
        wanted = tf.reshape(tf.cast(tf.cast(labels, tf.int64), kind), [-1, 1])
        factors = _factors(weights, logits)
        unreduced = head.losses(wanted, logits)
        loss = objective.loss(unreduced, factors)
        if mode == tf.estimator.ModeKeys.EVAL:
            measured = head.metrics(wanted, head.predictions(logits), unreduced, factors)
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=measured)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=objective.step(loss))

    return model_fn


def regressor_model_fn(
    output_fn: Logits, objective: Objective, unit: Moments | None = None
) -> ModelFn:
    """Returns a model_fn for numbers, with the squared error as loss.

    Args:
        output_fn: Returns [batch] or [batch, 1].
        objective: What is made smaller.
        unit: Mean and deviation of the labels, if the network is to learn labels of mean 0 and
            deviation 1; the loss uses these as well, metrics and predictions the original unit.

    Returns:
        A model_fn that predicts `prediction`.

    Raises:
        ValueError: From the model_fn: the output has another shape.
    """

    def model_fn(
        features: Any, labels: Any, mode: str, weights: Any = None
    ) -> tf.estimator.EstimatorSpec:
        given = tf.cast(output_fn(features, mode), tf.float32)
        output = _checked(given, (1,), "a regression")
        mean, scale = (0.0, 1.0) if unit is None else (float(unit.mean[0]), float(unit.scale[0]))
        found = output if unit is None else output * scale + mean
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(
                mode, predictions={"prediction": tf.squeeze(found, axis=[1])}
            )
        head = RegressionHead()
        wanted = head.labels(labels, found)
        factors = _factors(weights, found)
        loss = objective.loss(head.losses((wanted - mean) / scale, output), factors)
        if mode == tf.estimator.ModeKeys.EVAL:
            measured = {
                **head.metrics(wanted, {"predictions": found}, head.losses(wanted, found), factors),
                "rmse": tf.metrics.root_mean_squared_error(wanted, found, factors),
                "mae": tf.metrics.mean_absolute_error(wanted, found, factors),
            }
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=measured)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=objective.step(loss))

    return model_fn


def _predictions(raw: Any, logits: Any) -> dict[str, Any]:
    if logits.shape.as_list()[1] > 1:
        return {
            "rawPrediction": raw,
            "probability": tf.nn.softmax(logits),
            "prediction": tf.argmax(logits, axis=1),
        }
    # From a single logit: the inference graph expands these to [-r, r] and [1 - p, p].
    logit = tf.squeeze(logits, axis=[1])
    return {
        "rawPrediction": raw if raw.shape.as_list()[1] == 2 else logit,
        "probability": tf.sigmoid(logit),
        "prediction": tf.cast(logit > 0.0, tf.int64),
    }


def _widths(num_classes: int) -> tuple[int, ...]:
    return (1, 2) if num_classes == 2 else (num_classes,)


def _checked(tensor: Any, widths: tuple[int, ...], what: str) -> Any:
    """Returns the tensor as [batch, n], where n is one of the widths."""
    shape = tensor.shape.as_list() if tensor.shape.ndims is not None else None
    if shape is not None and len(shape) == 1 and 1 in widths:
        return tf.expand_dims(tensor, -1)
    if shape is None or len(shape) != 2 or shape[1] not in widths:
        allowed = " or ".join(f"[batch, {width}]" for width in widths)
        raise ValueError(
            f"For {what} the network must return {allowed}"
            f"{' or [batch]' if 1 in widths else ''}; it returned {tensor.shape}"
        )
    return tensor


def _factors(weights: Any, like: Any) -> Any:
    """[batch, 1]."""
    if weights is None:
        return tf.ones_like(like[:, :1])
    return tf.reshape(tf.cast(weights, tf.float32), [-1, 1])
