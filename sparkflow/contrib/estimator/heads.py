"""The heads of `tf.contrib.estimator`, whose losses are means over the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.estimator.canned.head import Head
from sparkflow.estimator.canned.heads import BinaryHead, MultiClassHead, RegressionHead
from sparkflow.estimator.canned.multi_label import MultiLabelHead
from sparkflow.losses import Reduction

_MEAN = Reduction.SUM_OVER_BATCH_SIZE
_LossFn = Callable[..., Any] | None


def binary_classification_head(
    weight_column: Any = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN,
    loss_fn: _LossFn = None,
    name: str | None = None,
) -> Head:
    """A head of one logit for two classes.

    Args:
        weight_column: The feature with the weights of examples.
        thresholds: Probabilities for which accuracy, precision and recall are measured besides.
        label_vocabulary: The names of the classes if labels are strings.
        loss_reduction: How the losses of examples are combined to the loss of a batch.
        loss_fn: A function of `labels` and `logits` (and `features`) that returns the losses of the
            examples, `[batch, 1]`; sigmoid cross entropy when None.
        name: Ends the names of metrics, after a `/`.

    Raises:
        ValueError: A threshold is not between 0 and 1, or an argument is of another kind.
    """
    given = (weight_column, label_vocabulary, loss_reduction, loss_fn, name, thresholds)
    return BinaryHead(*given)


def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN,
    loss_fn: _LossFn = None,
    name: str | None = None,
) -> Head:
    """A head for three or more classes, with softmax cross entropy as its loss.

    Args:
        n_classes: The number of classes.
        weight_column: As for `binary_classification_head`.
        label_vocabulary: As for `binary_classification_head`.
        loss_reduction: As for `binary_classification_head`.
        loss_fn: As for `binary_classification_head`.
        name: As for `binary_classification_head`.

    Raises:
        ValueError: Two classes or fewer.
    """
    given = (weight_column, label_vocabulary, loss_reduction, loss_fn, name)
    return MultiClassHead(n_classes, *given)


def multi_label_head(
    n_classes: int,
    weight_column: Any = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN,
    loss_fn: _LossFn = None,
    name: str | None = None,
) -> Head:
    """A head for examples of several classes, or none, with sigmoid cross entropy as its loss.

    Labels are `[batch, n_classes]` of 0 and 1, or a sparse tensor of each example's classes.

    Args:
        n_classes: The number of classes.
        weight_column: As for `binary_classification_head`.
        thresholds: As for `binary_classification_head`.
        label_vocabulary: The names of the classes if sparse labels are strings.
        loss_reduction: As for `binary_classification_head`.
        loss_fn: As for `binary_classification_head`.
        name: As for `binary_classification_head`.

    Raises:
        ValueError: Fewer than two classes, another number of names, or a threshold is not between
            0 and 1.
    """
    given = (weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name)
    return MultiLabelHead(n_classes, *given)


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    loss_fn: _LossFn = None,
    name: str | None = None,
) -> Head:
    """A head for numbers, with the squared difference as its loss.

    Args:
        weight_column: As for `binary_classification_head`.
        label_dimension: The number of values per example.
        loss_reduction: As for `binary_classification_head`.
        loss_fn: As for `binary_classification_head`.
        name: As for `binary_classification_head`.

    Raises:
        ValueError: No values.
    """
    return RegressionHead(label_dimension, weight_column, loss_reduction, loss_fn, name)
