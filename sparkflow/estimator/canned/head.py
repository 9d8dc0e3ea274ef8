"""`Head`: predictions, loss, metrics and signatures from a model's logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow import losses, metrics
from sparkflow.estimator.canned.batches import checked_logits, example_weights, of_batch
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.estimator.functions import arguments_of
from sparkflow.estimator.mode_keys import ModeKeys
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import convert_to_tensor, get_collection, name_scope
from sparkflow.graph.tensor import Tensor
from sparkflow.losses import Reduction
from sparkflow.ops.control.ordering import group
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.summary.summaries import scalar
from sparkflow.train.step_counter import get_global_step
from sparkflow_runtime.dtypes import float32

LOSS = "loss"
AVERAGE_LOSS = "average_loss"
REGULARIZATION_LOSS = "regularization_loss"
TrainOp = Callable[[Tensor], Any]


class Head:
    """Base of the heads; a subclass creates losses, predictions and metrics.

    Args:
        logits_dimension: How many logits there are.
        weight_column: The feature that weighs examples: a name or a numeric column; None for none.
        loss_reduction: How losses of examples become that of the batch.
        loss_fn: A function of `labels` and `logits`, and of `features` if it takes them, that
            returns the losses of the examples, `[batch, 1]` (`[batch, logits_dimension]` for
            numbers); None for the head's own.
        name: Ends the names of metrics, after a `/`.

    Raises:
        ValueError: The reduction is unknown, or `none`; `loss_fn` takes something else.
    """

    is_per_logit = False
    """Whether each logit has a loss, and may have a weight, of its own."""

    def __init__(
        self,
        logits_dimension: int,
        weight_column: Any = None,
        loss_reduction: str = Reduction.SUM,
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        if loss_reduction not in Reduction.all() or loss_reduction == Reduction.NONE:
            raise ValueError(f"Invalid loss_reduction: {loss_reduction}")
        if loss_fn is not None:
            _check_loss_fn(loss_fn)
        self.logits_dimension = logits_dimension
        self.name = name
        self._weight_column = weight_column
        self._reduction = loss_reduction
        self._loss_fn = loss_fn

    def create_estimator_spec(
        self,
        features: Mapping[str, Any],
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        train_op_fn: TrainOp | None = None,
        regularization_losses: Sequence[Tensor] | None = None,
    ) -> EstimatorSpec:
        """The specification of a `model_fn` with these logits.

        Args:
            features: Where weights are.
            mode: One of `tf.estimator.ModeKeys`.
            logits: `[batch, logits_dimension]`.
            labels: `[batch]` or `[batch, labels]`; not used to predict.
            optimizer: Minimises the loss and counts the step.
            train_op_fn: Makes an operation that minimises a loss, instead of an optimizer.
            regularization_losses: Scalars to add to the loss.

        Raises:
            ValueError: Labels are missing or do not fit; both or none of optimizer and function are
                given to train.
        """
        if mode == ModeKeys.TRAIN and (optimizer is None) == (train_op_fn is None):
            raise ValueError(
                "train_op_fn and optimizer cannot both be None."
                if optimizer is None
                else "train_op_fn and optimizer must not both be set."
            )

        def minimize(loss: Tensor) -> Any:
            return optimizer.minimize(loss, global_step=get_global_step())

        penalties = list(regularization_losses or ())
        return self.spec(features, labels, mode, logits, train_op_fn or minimize, penalties)

    def spec(
        self,
        features: Mapping[str, Any],
        labels: Any,
        mode: str,
        logits: Any,
        train_op: TrainOp,
        penalties: Sequence[Tensor] | None = None,
    ) -> EstimatorSpec:
        """The specification of a model with these logits.

        Args:
            features: Where weights are.
            labels: `[batch]` or `[batch, labels]`; not used to predict.
            mode: One of `ModeKeys`.
            logits: `[batch, logits_dimension]`.
            train_op: Makes the operation that minimises a loss.
            penalties: Scalars to add to the loss; the graph's regularization losses when None.

        Raises:
            ValueError: Labels are missing or do not fit.
        """
        with name_scope("head"):
            logits = _checked_logits(logits, self.logits_dimension)
            predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(
                    mode, predictions=predictions, export_outputs=self.outputs(predictions)
                )
            wanted = self.labels(labels, logits)
            given = features, self._weight_column, logits
            weights = example_weights(*given, per_logit=self.is_per_logit)
            unreduced = self._unreduced(wanted, logits, features)
            loss = losses.compute_weighted_loss(unreduced, weights, reduction=self._reduction)
            if penalties is None:
                penalties = get_collection(GraphKeys.REGULARIZATION_LOSSES)
            penalty = elementwise.add_n(penalties) if penalties else None
            if penalty is not None:
                loss = loss + penalty
            if mode == ModeKeys.EVAL:
                found = self.metrics(wanted, predictions, unreduced, weights)
                if penalty is not None:
                    found[REGULARIZATION_LOSS] = metrics.mean(penalty)
                measured = {self._named(key): pair for key, pair in found.items()}
                return EstimatorSpec(
                    mode, predictions=predictions, loss=loss, eval_metric_ops=measured
                )
            told = {LOSS: loss}
            if self._reduction == Reduction.SUM:
                with name_scope(None):
                    told[AVERAGE_LOSS] = losses.compute_weighted_loss(
                        unreduced, weights, loss_collection=None, reduction=Reduction.MEAN
                    )
            if penalty is not None:
                told[REGULARIZATION_LOSS] = penalty
            step = train_op(loss)
            updates = get_collection(GraphKeys.UPDATE_OPS)
            if updates:
                step = group(step, *updates)
        with name_scope(""):
            for key, value in told.items():
                scalar(self._named(key), value)
        return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=step)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        """Tensors by name."""
        raise NotImplementedError(type(self).__name__)

    def outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, Any]:
        """The signatures of an exported model."""
        raise NotImplementedError(type(self).__name__)

    def labels(self, labels: Any, logits: Tensor) -> Tensor:
        """The labels as losses take them."""
        raise NotImplementedError(type(self).__name__)

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        """The losses of the examples: `[batch, 1]` or as the logits."""
        raise NotImplementedError(type(self).__name__)

    def metrics(
        self, labels: Tensor, predictions: Mapping[str, Tensor], unreduced: Tensor, weights: Any
    ) -> dict[str, Any]:
        """Pairs of value and update by name."""
        raise NotImplementedError(type(self).__name__)

    def _named(self, metric: str) -> str:
        return metric if self.name is None else f"{metric}/{self.name}"

    def _unreduced(self, labels: Tensor, logits: Tensor, features: Mapping[str, Any]) -> Tensor:
        if self._loss_fn is None:
            return self.losses(labels, logits)
        takes = arguments_of(self._loss_fn)
        more = {"features": features} if "features" in takes else {}
        found = convert_to_tensor(self._loss_fn(labels=labels, logits=logits, **more))
        each = self.logits_dimension if self.is_per_logit else 1
        text = f"loss_fn must return a Tensor of shape [batch_size, {each}]."
        return of_batch(found, logits, each, text)


def _check_loss_fn(loss_fn: Callable[..., Any]) -> None:
    names = set(arguments_of(loss_fn))
    if not {"labels", "logits"} <= names <= {"labels", "logits", "features"}:
        raise ValueError(
            "loss_fn must take labels and logits, and may take features; it takes "
            f"{sorted(names)}. Given: {loss_fn}"
        )


def _checked_logits(logits: Any, dimension: int) -> Tensor:
    if logits is None:
        raise ValueError("logits cannot be None")
    return checked_logits(cast(logits, float32), dimension)


def checked_head(given: Any) -> Head:
    """The head.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(given, Head):
        raise TypeError(
            f"head must be one of tf.contrib.estimator's, such as multi_label_head(5). Got: {given}"
        )
    return given
