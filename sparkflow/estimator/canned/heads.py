"""Heads: predictions, loss, metrics and signatures from a model's logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow import losses, metrics
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.estimator.export_outputs import (
    ClassificationOutput,
    PredictOutput,
    RegressionOutput,
)
from sparkflow.estimator.mode_keys import ModeKeys
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import convert_to_tensor, get_collection, name_scope
from sparkflow.graph.tensor import Tensor
from sparkflow.losses import Reduction
from sparkflow.ops.checks.checks import assert_greater_equal, assert_less_equal
from sparkflow.ops.control.ordering import group, with_dependencies
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.nn.activation import softmax
from sparkflow.ops.nn.cross_entropy import (
    sigmoid_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from sparkflow.ops.reduction.reduction import argmax
from sparkflow.ops.shape import arrays, constants
from sparkflow.ops.state.vocabulary import (
    index_table_from_tensor,
    index_to_string_table_from_tensor,
)
from sparkflow.ops.strings.strings import as_string
from sparkflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from sparkflow.summary.summaries import scalar
from sparkflow_runtime.dtypes import float32, int64, string

LOSS = "loss"
AVERAGE_LOSS = "average_loss"
TrainOp = Callable[[Tensor], Any]


class Head:
    """Base of the heads; a subclass creates losses, predictions and metrics.

    Args:
        logits_dimension: How many logits there are.
        weight_column: The feature that weighs examples: a name or a numeric column; None for none.
        loss_reduction: How losses of examples become that of the batch.

    Raises:
        ValueError: The reduction is unknown, or `none`.
    """

    def __init__(
        self, logits_dimension: int, weight_column: Any = None, loss_reduction: str = Reduction.SUM
    ) -> None:
        if loss_reduction not in Reduction.all() or loss_reduction == Reduction.NONE:
            raise ValueError(f"Invalid loss_reduction: {loss_reduction}")
        self.logits_dimension = logits_dimension
        self._weight_column = weight_column
        self._reduction = loss_reduction

    def spec(
        self, features: Mapping[str, Any], labels: Any, mode: str, logits: Any, train_op: TrainOp
    ) -> EstimatorSpec:
        """The specification of a model with these logits.

        Args:
            features: Where weights are.
            labels: `[batch]` or `[batch, labels]`; not used to predict.
            mode: One of `ModeKeys`.
            logits: `[batch, logits_dimension]`.
            train_op: Makes the operation that minimises a loss.

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
            weights = self._weights(features, logits)
            unreduced = self.losses(wanted, logits)
            loss = losses.compute_weighted_loss(unreduced, weights, reduction=self._reduction)
            penalties = get_collection(GraphKeys.REGULARIZATION_LOSSES)
            if penalties:
                loss = loss + elementwise.add_n(penalties)
            if mode == ModeKeys.EVAL:
                measured = self.metrics(wanted, predictions, unreduced, weights)
                return EstimatorSpec(
                    mode, predictions=predictions, loss=loss, eval_metric_ops=measured
                )
            with name_scope(None):
                average = losses.compute_weighted_loss(
                    unreduced, weights, loss_collection=None, reduction=Reduction.MEAN
                )
            step = train_op(loss)
            updates = get_collection(GraphKeys.UPDATE_OPS)
            if updates:
                step = group(step, *updates)
        with name_scope(""):
            scalar(LOSS, loss)
            scalar(AVERAGE_LOSS, average)
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

    def _weights(self, features: Mapping[str, Any], logits: Tensor) -> Any:
        column = self._weight_column
        if column is None:
            return 1.0
        key = column if isinstance(column, str) else column.key
        if key not in features:
            raise ValueError(f"Feature {key} is not in features dictionary.")
        weights = convert_to_tensor(features[key])
        if not isinstance(column, str) and column.normalizer_fn is not None:
            weights = column.normalizer_fn(weights)
        if not (weights.dtype.is_floating or weights.dtype.is_integer):
            raise ValueError(
                f"Weight column should be castable to float. Given dtype: {weights.dtype}"
            )
        weights = cast(weights, float32, name="weights")
        return arrays.expand_dims(weights, -1) if weights.shape.ndims == 1 else weights


def _checked_logits(logits: Any, dimension: int) -> Tensor:
    if logits is None:
        raise ValueError("logits cannot be None")
    tensor = cast(logits, float32)
    last = tensor.shape.as_list()[-1] if tensor.shape.ndims else None
    if last is not None and last != dimension:
        raise ValueError(f"logits shape must be [batch_size, {dimension}], got {tensor.shape}")
    return tensor


def _dense_labels(labels: Any, dimension: int) -> Tensor:
    """`[batch, dimension]`.

    Raises:
        ValueError: There are none, or of another shape.
    """
    if labels is None:
        raise ValueError(
            "You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: Check "
            "that your data contains your label feature. Check that your input_fn properly parses "
            "and returns labels."
        )
    tensor = convert_to_tensor(labels)
    if tensor.shape.ndims == 1:
        tensor = arrays.expand_dims(tensor, -1)
    last = tensor.shape.as_list()[-1] if tensor.shape.ndims else None
    if last is not None and last != dimension:
        raise ValueError(
            f"Mismatched label shape. Expected labels dimension={dimension}. Received {last}. "
            f"Suggested Fix: If your classifier expects one-hot encoding label, check your "
            "n_classes argument to the estimator and/or the shape of your label. Otherwise, check "
            "the shape of your label."
        )
    return tensor


class RegressionHead(Head):
    """Numbers, with the square of the difference as loss.

    Args:
        label_dimension: How many numbers each example has.
        weight_column: As for `Head`.
        loss_reduction: As for `Head`.

    Raises:
        ValueError: No numbers.
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        if label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}.")
        super().__init__(label_dimension, weight_column, loss_reduction)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        """`predictions`: the logits."""
        return {"predictions": logits}

    def outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, Any]:
        """A regression, and a prediction."""
        regression = RegressionOutput(predictions["predictions"])
        return {
            DEFAULT_SERVING_SIGNATURE_DEF_KEY: regression,
            "regression": regression,
            "predict": PredictOutput(predictions),
        }

    def labels(self, labels: Any, logits: Tensor) -> Tensor:
        """float32 of the shape of the logits."""
        return cast(_dense_labels(labels, self.logits_dimension), float32)

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        """The squares."""
        return elementwise.squared_difference(logits, labels)

    def metrics(
        self, labels: Tensor, predictions: Mapping[str, Tensor], unreduced: Tensor, weights: Any
    ) -> dict[str, Any]:
        """The means of loss, predictions and labels."""
        found = predictions["predictions"]
        return {
            AVERAGE_LOSS: metrics.mean(unreduced, weights),
            "prediction/mean": metrics.mean(found, weights),
            "label/mean": metrics.mean(labels, weights),
        }


class _ClassifierHead(Head):
    """Classes by number, or by name where there is a vocabulary."""

    def __init__(
        self,
        logits_dimension: int,
        n_classes: int,
        weight_column: Any,
        label_vocabulary: Sequence[str] | None,
        loss_reduction: str,
    ) -> None:
        if label_vocabulary is not None and not isinstance(label_vocabulary, list | tuple):
            raise ValueError(
                "label_vocabulary should be a list or a tuple. Given type: "
                f"{type(label_vocabulary)}"
            )
        super().__init__(logits_dimension, weight_column, loss_reduction)
        self._n_classes = n_classes
        self._vocabulary = None if label_vocabulary is None else list(label_vocabulary)

    def _names(self, class_ids: Tensor) -> Tensor:
        if self._vocabulary is None:
            return as_string(class_ids, name="str_classes")
        table = index_to_string_table_from_tensor(self._vocabulary, name="class_string_lookup")
        found: Tensor = table.lookup(class_ids)
        return found

    def _all(self, logits: Tensor) -> dict[str, Tensor]:
        """The classes there are, for each example."""
        rows = arrays.shape(logits)[0]
        ids = cast(constants.range(self._n_classes), int64)
        ids32 = constants.range(self._n_classes)
        names = self._names(ids)
        many = arrays.stack([rows, 1])
        return {
            "all_class_ids": arrays.tile(arrays.expand_dims(ids32, 0), many),
            "all_classes": arrays.tile(arrays.expand_dims(names, 0), many),
        }

    def outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, Any]:
        """A classification, and a prediction."""
        classification = ClassificationOutput(
            scores=predictions["probabilities"], classes=predictions["all_classes"]
        )
        return {
            DEFAULT_SERVING_SIGNATURE_DEF_KEY: classification,
            "classification": classification,
            "predict": PredictOutput(predictions),
        }

    def labels(self, labels: Any, logits: Tensor) -> Tensor:
        """Class numbers, `[batch, 1]` int64.

        Raises:
            ValueError: Words without a vocabulary, or something else with one.
            InvalidArgumentError: When it runs: a number is no class.
        """
        wanted = _dense_labels(labels, 1)
        if self._vocabulary is None:
            if wanted.dtype.base is string or not (
                wanted.dtype.is_integer or wanted.dtype.is_floating
            ):
                raise ValueError(
                    "Labels dtype should be integer. Instead got "
                    f"{wanted.dtype}; give a label_vocabulary for words."
                )
            numbers = cast(wanted, int64)
        else:
            if wanted.dtype.base is not string:
                raise ValueError(
                    "Labels dtype should be string if there is a vocabulary. Instead got "
                    f"{wanted.dtype}"
                )
            table = index_table_from_tensor(self._vocabulary, name="class_id_lookup")
            numbers = table.lookup(wanted)
        last = constants.constant(self._n_classes - 1, int64)
        checks = [
            assert_less_equal(numbers, last, message="Labels must be <= n_classes - 1"),
            assert_greater_equal(
                numbers, constants.constant(0, int64), message="Labels must be >= 0"
            ),
        ]
        found: Tensor = with_dependencies(checks, numbers)
        return found


class BinaryHead(_ClassifierHead):
    """Two classes, of one logit: the sigmoid is the probability of the second."""

    def __init__(
        self,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        super().__init__(1, 2, weight_column, label_vocabulary, loss_reduction)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        """Logits, probabilities, and the likelier class."""
        both = arrays.concat([constants.zeros_like(logits), logits], -1)
        ids = arrays.expand_dims(argmax(both, -1), -1, name="class_ids")
        return {
            "logits": logits,
            "logistic": elementwise.sigmoid(logits, name="logistic"),
            "probabilities": softmax(both, name="probabilities"),
            "class_ids": ids,
            "classes": self._names(ids),
            **self._all(logits),
        }

    def outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, Any]:
        """A regression of the probability too."""
        return {
            **super().outputs(predictions),
            "regression": RegressionOutput(predictions["logistic"]),
        }

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        """The cross entropies."""
        return sigmoid_cross_entropy_with_logits(labels=cast(labels, float32), logits=logits)

    def metrics(
        self, labels: Tensor, predictions: Mapping[str, Tensor], unreduced: Tensor, weights: Any
    ) -> dict[str, Any]:
        """Those of two classes, with areas under curves."""
        logistic, ids = predictions["logistic"], predictions["class_ids"]
        wanted = cast(labels, float32)
        label_mean = metrics.mean(wanted, weights)
        return {
            AVERAGE_LOSS: metrics.mean(unreduced, weights),
            "accuracy": metrics.accuracy(labels, ids, weights),
            "precision": metrics.precision(labels, ids, weights),
            "recall": metrics.recall(labels, ids, weights),
            "prediction/mean": metrics.mean(logistic, weights),
            "label/mean": label_mean,
            "accuracy_baseline": tuple(
                elementwise.maximum(each, 1.0 - each) for each in label_mean
            ),
            "auc": metrics.auc(labels, logistic, weights),
            "auc_precision_recall": metrics.auc(
                labels,
                logistic,
                weights,
                curve="PR",
                summation_method="careful_interpolation",
            ),
        }


class MultiClassHead(_ClassifierHead):
    """Classes of which each has a logit.

    Args:
        n_classes: How many.
        weight_column: As for `Head`.
        label_vocabulary: Their names; numbers when None.
        loss_reduction: As for `Head`.

    Raises:
        ValueError: Two classes or fewer.
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        if n_classes <= 2:
            raise ValueError(f"n_classes must be > 2: {n_classes}.")
        super().__init__(n_classes, n_classes, weight_column, label_vocabulary, loss_reduction)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        """Logits, probabilities, and the likeliest class."""
        ids = arrays.expand_dims(argmax(logits, -1), -1, name="class_ids")
        return {
            "logits": logits,
            "probabilities": softmax(logits, name="probabilities"),
            "class_ids": ids,
            "classes": self._names(ids),
            **self._all(logits),
        }

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        """The cross entropies: `[batch, 1]`."""
        flat = arrays.squeeze(labels, [-1])
        return arrays.expand_dims(
            sparse_softmax_cross_entropy_with_logits(labels=flat, logits=logits), -1
        )

    def metrics(
        self, labels: Tensor, predictions: Mapping[str, Tensor], unreduced: Tensor, weights: Any
    ) -> dict[str, Any]:
        """Accuracy and mean loss."""
        return {
            AVERAGE_LOSS: metrics.mean(unreduced, weights),
            "accuracy": metrics.accuracy(labels, predictions["class_ids"], weights),
        }


def classifier_head(
    n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str
) -> Head:
    """The head for this number of classes.

    Raises:
        ValueError: Fewer than two.
    """
    if n_classes == 2:
        return BinaryHead(weight_column, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)
