"""The head of models whose examples may belong to several classes, or to none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow import metrics
from sparkflow.estimator.canned.batches import dense_labels, of_batch
from sparkflow.estimator.canned.head import AVERAGE_LOSS
from sparkflow.estimator.canned.heads import ClassifierHead, in_range
from sparkflow.estimator.canned.thresholds import at_thresholds, checked_thresholds
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor, SparseTensorValue
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
        """`[batch, n_classes]`: 0 and 1 as int64, or, if that is given, float32 between them.

        Raises:
            ValueError: Names without a vocabulary; a sparse tensor of no whole numbers.
            InvalidArgumentError: When it runs: a number is not from 0 to 1; of a sparse tensor, no
                class.
        """
        if isinstance(labels, SparseTensorValue):
            labels = SparseTensor.from_value(labels)
        if not isinstance(labels, SparseTensor):
            wanted = dense_labels(labels, logits, self.logits_dimension)
            numbers = cast(wanted, float32 if wanted.dtype.is_floating else int64)
            text = "labels must be an integer indicator Tensor with values in [0, 1]"
            return in_range(numbers, 2, text)
        of_classes = self._class_numbers(labels)
        text = f"labels must be an integer SparseTensor with values in [0, {self._n_classes})"
        values = in_range(of_classes.values, self._n_classes, text)
        checked = SparseTensor(of_classes.indices, values, of_classes.dense_shape)
        indicators = cast(sparse_to_indicator(checked, self.logits_dimension), int64)
        text = f"labels shape must be [batch_size, {self.logits_dimension}]."
        return of_batch(indicators, logits, self.logits_dimension, text)

    def _class_numbers(self, labels: SparseTensor) -> SparseTensor:
        if labels.dtype.base is not string:
            if not labels.dtype.is_integer:
                raise ValueError(f"Labels dtype should be integer. Instead got {labels.dtype}.")
            return SparseTensor(labels.indices, cast(labels.values, int64), labels.dense_shape)
        if self._vocabulary is None:
            raise ValueError(
                f"Labels of names need a label_vocabulary. Labels are {labels.dtype}, the "
                "label_vocabulary is None"
            )
        table = index_table_from_tensor(self._vocabulary, name="class_id_lookup")
        found: SparseTensor = table.lookup(labels)
        return found

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
            "auc_precision_recall": metrics.auc(labels, found, weights, curve="PR"),
            **at_thresholds(self._thresholds, labels, found, weights),
        }
