"""The head of models whose examples may belong to several classes, or to none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow import metrics
from sparkflow.estimator.canned.head import AVERAGE_LOSS, dense_labels
from sparkflow.estimator.canned.heads import ClassifierHead
from sparkflow.estimator.canned.thresholds import at_thresholds, checked_thresholds
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.losses import Reduction
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.nn.cross_entropy import sigmoid_cross_entropy_with_logits
from sparkflow.ops.reduction.reduction import reduce_mean
from sparkflow.ops.sparse.sparse_layout import sparse_to_indicator
from sparkflow.ops.state.vocabulary import index_table_from_tensor
from sparkflow_runtime.dtypes import float32, int64, string


class MultiLabelHead(ClassifierHead):
    """A logit, and a yes or no, for each class.

    Labels are `[batch, n_classes]` of 0 and 1, or a sparse tensor of each example's classes:
    numbers or, with a vocabulary, names. The loss of an example is the mean of the cross entropies
    of the classes.

    Args:
        n_classes: The number of classes.
        weight_column: As for `Head`.
        thresholds: Probabilities for which accuracy, precision and recall are measured besides.
        label_vocabulary: The names of the classes; numbers when None.
        loss_reduction: As for `Head`.
        loss_fn: As for `Head`.
        name: As for `Head`.

    Raises:
        ValueError: Fewer than two classes, as many names as there are not classes, or a threshold
            is not between 0 and 1.
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        thresholds: Sequence[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = Reduction.SUM_OVER_BATCH_SIZE,
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        if n_classes < 2:
            raise ValueError(f"n_classes must be > 1 for multi-label classification: {n_classes}.")
        if label_vocabulary is not None and len(label_vocabulary) != n_classes:
            raise ValueError(
                f"Length of label_vocabulary must be n_classes ({n_classes}). Given: "
                f"{len(label_vocabulary)}."
            )
        given = (weight_column, label_vocabulary, loss_reduction, loss_fn, name)
        super().__init__(n_classes, n_classes, *given)
        self._thresholds = checked_thresholds(thresholds)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        """Logits, and the probability of each class."""
        return {
            "logits": logits,
            "probabilities": elementwise.sigmoid(logits, name="probabilities"),
            **self._all(logits),
        }

    def labels(self, labels: Any, logits: Tensor) -> Tensor:
        """0 and 1, `[batch, n_classes]` int64.

        Raises:
            ValueError: Names without a vocabulary, or something else with one.
        """
        if not isinstance(labels, SparseTensor):
            return cast(dense_labels(labels, self.logits_dimension), int64)
        if (labels.dtype.base is string) != (self._vocabulary is not None):
            raise ValueError(
                "Labels of names need a label_vocabulary, and only they do. Labels are "
                f"{labels.dtype}, the label_vocabulary is {self._vocabulary}"
            )
        numbers = labels
        if self._vocabulary is not None:
            numbers = index_table_from_tensor(self._vocabulary, name="class_id_lookup").lookup(
                labels
            )
        return cast(sparse_to_indicator(numbers, self.logits_dimension), int64)

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        """The mean of each example's cross entropies."""
        each = sigmoid_cross_entropy_with_logits(labels=cast(labels, float32), logits=logits)
        return reduce_mean(each, axis=-1, keepdims=True)

    def metrics(
        self, labels: Tensor, predictions: Mapping[str, Tensor], unreduced: Tensor, weights: Any
    ) -> dict[str, Any]:
        """The mean loss, and areas under the curves of all classes together."""
        found = predictions["probabilities"]
        return {
            AVERAGE_LOSS: metrics.mean(unreduced, weights),
            "auc": metrics.auc(labels, found, weights),
            "auc_precision_recall": metrics.auc(
                labels,
                found,
                weights,
                curve="PR",
                summation_method="careful_interpolation",
            ),
            **at_thresholds(self._thresholds, labels, found, weights),
        }
