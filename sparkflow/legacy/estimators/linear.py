"""`LinearClassifier`, `LinearRegressor`, `LinearEstimator`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.estimator.canned.head import Head, checked_head
from sparkflow.estimator.canned.heads import RegressionHead, classifier_head
from sparkflow.estimator.canned.models import linear_learning_rate, linear_logits
from sparkflow.estimator.canned.optimizers import optimizer_of
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.losses import Reduction
from sparkflow.train.step_counter import get_global_step

_LEARNING_RATE = 0.2


def _linear(
    head: Head, columns: Sequence[Any], optimizer: Any, combiner: str, partitioner: Any
) -> Any:
    """Returns a model_fn."""
    chosen = tuple(columns or ())

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        units = head.logits_dimension
        logits = linear_logits(features, chosen, units, combiner, partitioner)

        def train_op(loss: Any) -> Any:
            if optimizer is None:
                step = optimizer_of("Ftrl", linear_learning_rate(chosen, _LEARNING_RATE))
            else:
                step = optimizer_of(optimizer, _LEARNING_RATE)
            return step.minimize(loss, global_step=get_global_step())

        return head.spec(features, labels, mode, logits, train_op)

    return model_fn


@export("estimator.LinearClassifier")
class LinearClassifier(Estimator):
    """A linear classifier.

    Args:
        feature_columns: The feature columns.
        model_dir: As for `Estimator`.
        n_classes: The number of classes.
        weight_column: The feature with the weights of examples.
        label_vocabulary: The names of the classes if labels are strings.
        optimizer: A name with a rate of 0.2, a function, or an optimizer; None for FTRL with a rate
            of 1/√columns, at most 0.2.
        config: As for `Estimator`.
        partitioner: Partitions the variables.
        warm_start_from: As for `Estimator`.
        loss_reduction: How the losses of examples are combined to the loss of a batch.
        sparse_combiner: How to combine the weights of an example's categories.

    Raises:
        ValueError: As for `Estimator`; fewer than two classes.
    """

    def __init__(
        self,
        feature_columns: Sequence[Any],
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        head = classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        model_fn = _linear(head, feature_columns, optimizer, sparse_combiner, partitioner)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


@export("estimator.LinearRegressor")
class LinearRegressor(Estimator):
    """A linear regressor; arguments as for `LinearClassifier`.

    Args:
        feature_columns: The feature columns.
        model_dir: As for `Estimator`.
        label_dimension: The number of values per example.
        weight_column: The feature with the weights of examples.
        optimizer: A name with a rate of 0.2, a function, or an optimizer; None for FTRL with a rate
            of 1/√columns, at most 0.2.
        config: As for `Estimator`.
        partitioner: Partitions the variables.
        warm_start_from: As for `Estimator`.
        loss_reduction: How the losses of examples are combined to the loss of a batch.
        sparse_combiner: How to combine the weights of an example's categories.
    """

    def __init__(
        self,
        feature_columns: Sequence[Any],
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        model_fn = _linear(head, feature_columns, optimizer, sparse_combiner, partitioner)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


@export("estimator.LinearEstimator")
class LinearEstimator(Estimator):
    """A linear model with a head of one's own.

    Args:
        head: A head, such as one of `tf.contrib.estimator`.
        feature_columns: The feature columns.
        model_dir: As for `Estimator`.
        optimizer: A name with a rate of 0.2, a function, or an optimizer; None for FTRL with a rate
            of 1/√columns, at most 0.2.
        config: As for `Estimator`.
        partitioner: Partitions the variables.
        sparse_combiner: How to combine the weights of an example's categories.
        warm_start_from: As for `Estimator`.

    Raises:
        TypeError: It is no head.
    """

    def __init__(
        self,
        head: Head,
        feature_columns: Sequence[Any],
        model_dir: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        sparse_combiner: str = "sum",
        warm_start_from: Any = None,
    ) -> None:
        given = (feature_columns, optimizer, sparse_combiner, partitioner)
        model_fn = _linear(checked_head(head), *given)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)
