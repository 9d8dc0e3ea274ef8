"""The heads of numbers, of two classes, and of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow import metrics
from sparkflow.estimator.canned.batches import dense_labels
from sparkflow.estimator.canned.head import AVERAGE_LOSS, Head
from sparkflow.estimator.canned.thresholds import at_thresholds, checked_thresholds
from sparkflow.estimator.export_outputs import (
    ClassificationOutput,
    PredictOutput,
    RegressionOutput,
)
from sparkflow.graph.tensor import Tensor
from sparkflow.losses import Reduction
from sparkflow.ops.checks.checks import assert_greater_equal, assert_less_equal
from sparkflow.ops.control.ordering import with_dependencies
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
from sparkflow_runtime.dtypes import float32, int64, string


class RegressionHead(Head):
    """Numbers, with the square of the difference as loss.

    Args:
        label_dimension: How many numbers each example has.
        weight_column: As for `Head`.
        loss_reduction: As for `Head`.
        loss_fn: As for `Head`.
        name: As for `Head`.

    Raises:
        ValueError: No numbers.
    """

    is_per_logit = True

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = Reduction.SUM,
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        if label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}.")
        super().__init__(label_dimension, weight_column, loss_reduction, loss_fn, name)

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
        return cast(dense_labels(labels, logits, self.logits_dimension), float32)

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


class ClassifierHead(Head):
    """Classes by number, or by name where there is a vocabulary."""

    def __init__(
        self,
        logits_dimension: int,
        n_classes: int,
        weight_column: Any,
        label_vocabulary: Sequence[str] | None,
        loss_reduction: str,
        loss_fn: Callable[..., Any] | None,
        name: str | None,
    ) -> None:
        if label_vocabulary is not None and not isinstance(label_vocabulary, list | tuple):
            # TensorFlow's types: of the head of two classes, and of the others.
            raise (TypeError if n_classes == 2 and logits_dimension == 1 else ValueError)(
                "label_vocabulary should be a list or a tuple of the classes' names. Given type: "
                f"{type(label_vocabulary)}"
            )
        super().__init__(logits_dimension, weight_column, loss_reduction, loss_fn, name)
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
            ValueError: Words without a vocabulary, or something else with one; no whole numbers.
            InvalidArgumentError: When it runs: a number is no class.
        """
        wanted = dense_labels(labels, logits, 1)
        if self._vocabulary is None and not wanted.dtype.is_integer:
            raise ValueError(
                f"Labels dtype should be integer. Instead got {wanted.dtype}: cast whole numbers "
                "with tf.cast(labels, tf.int64), give a label_vocabulary for words."
            )
        return in_range(cast(self._numbers(wanted), int64), self._n_classes)

    def _numbers(self, labels: Tensor) -> Tensor:
        """The labels, or the numbers of their words.

        Raises:
            ValueError: Words without a vocabulary, or something else with one.
        """
        is_text = labels.dtype.base is string
        if is_text == (self._vocabulary is None):
            raise ValueError(
                f"Labels should be numbers without a vocabulary. Instead got {labels.dtype}; give "
                "a label_vocabulary for words."
                if is_text
                else "Labels dtype should be string if there is a vocabulary. Instead got "
                f"{labels.dtype}"
            )
        if self._vocabulary is None:
            return labels
        table = index_table_from_tensor(self._vocabulary, name="class_id_lookup")
        found: Tensor = table.lookup(labels)
        return found


def in_range(labels: Tensor, n_classes: int, message: str | None = None) -> Tensor:
    """The labels, once it is checked that they are from 0 to `n_classes - 1`.

    Raises:
        InvalidArgumentError: When it runs: one is not.
    """
    last = constants.constant(n_classes - 1, labels.dtype.base)
    least = constants.constant(0, labels.dtype.base)
    checks = [
        assert_less_equal(labels, last, message=message or "Labels must be <= n_classes - 1"),
        assert_greater_equal(labels, least, message=message or "Labels must be >= 0"),
    ]
    found: Tensor = with_dependencies(checks, labels)
    return found


class BinaryHead(ClassifierHead):
    """Two classes, of one logit: the sigmoid is the probability of the second.

    Args:
        weight_column: As for `Head`.
        label_vocabulary: The names of the classes; numbers when None.
        loss_reduction: As for `Head`.
        loss_fn: As for `Head`.
        name: As for `Head`.
        thresholds: Probabilities for which accuracy, precision and recall are measured besides.

    Raises:
        ValueError: A threshold is not between 0 and 1.
        TypeError: The vocabulary is no list or tuple.
    """

    def __init__(
        self,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = Reduction.SUM,
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
        thresholds: Sequence[float] | None = None,
    ) -> None:
        super().__init__(1, 2, weight_column, label_vocabulary, loss_reduction, loss_fn, name)
        self._thresholds = checked_thresholds(thresholds)

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

    def labels(self, labels: Any, logits: Tensor) -> Tensor:
        """The probability of the second class, `[batch, 1]` float32: 0 or 1, or between.

        Raises:
            ValueError: Words without a vocabulary, or something else with one.
            InvalidArgumentError: When it runs: a number is not from 0 to 1.
        """
        numbers = cast(self._numbers(dense_labels(labels, logits, 1)), float32)
        return in_range(numbers, self._n_classes)

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        """The cross entropies."""
        return sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def metrics(
        self, labels: Tensor, predictions: Mapping[str, Tensor], unreduced: Tensor, weights: Any
    ) -> dict[str, Any]:
        """Those of two classes, with areas under curves."""
        logistic, ids = predictions["logistic"], predictions["class_ids"]
        label_mean = metrics.mean(labels, weights)
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
            "auc_precision_recall": metrics.auc(labels, logistic, weights, curve="PR"),
            **at_thresholds(self._thresholds, labels, logistic, weights),
        }


class MultiClassHead(ClassifierHead):
    """Classes of which each has a logit.

    Args:
        n_classes: How many.
        weight_column: As for `Head`.
        label_vocabulary: Their names; numbers when None.
        loss_reduction: As for `Head`.
        loss_fn: As for `Head`.
        name: As for `Head`.

    Raises:
        ValueError: Two classes or fewer, or the vocabulary is no list or tuple.
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = Reduction.SUM,
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        if n_classes <= 2:
            raise ValueError(f"n_classes must be > 2: {n_classes}.")
        given = (weight_column, label_vocabulary, loss_reduction, loss_fn, name)
        super().__init__(n_classes, n_classes, *given)

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
