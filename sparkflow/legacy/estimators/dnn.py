"""`DNNClassifier`, `DNNRegressor`, `DNNEstimator`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.estimator.canned.head import Head, checked_head
from sparkflow.estimator.canned.heads import RegressionHead, classifier_head
from sparkflow.estimator.canned.models import deep_logits
from sparkflow.estimator.canned.optimizers import optimizer_of
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.losses import Reduction
from sparkflow.ops.nn.activation import relu
from sparkflow.train.step_counter import get_global_step

_LEARNING_RATE = 0.05


def _deep(
    head: Head,
    hidden_units: Sequence[int],
    columns: Sequence[Any],
    optimizer: Any,
    activation_fn: Any,
    dropout: float | None,
    partitioner: Any,
    batch_norm: bool,
) -> Any:
    """Returns a model_fn."""
    chosen = tuple(columns or ())

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        logits = deep_logits(
            features,
            chosen,
            head.logits_dimension,
            hidden_units,
            activation_fn,
            dropout,
            batch_norm,
            mode,
            partitioner,
        )

        def train_op(loss: Any) -> Any:
            step = optimizer_of(optimizer, _LEARNING_RATE)
            return step.minimize(loss, global_step=get_global_step())

        return head.spec(features, labels, mode, logits, train_op)

    return model_fn


@export("estimator.DNNClassifier")
class DNNClassifier(Estimator):
    """A deep classifier.

    Args:
        hidden_units: The sizes of the hidden layers.
        feature_columns: The feature columns, which must be dense.
        model_dir: As for `Estimator`.
        n_classes: The number of classes.
        weight_column: The feature with the weights of examples.
        label_vocabulary: The names of the classes if labels are strings.
        optimizer: A name, a function, or an optimizer; Adagrad with a rate of 0.05.
        activation_fn: The activation function of the hidden layers.
        dropout: The fraction of units dropped in training; None for none.
        input_layer_partitioner: Partitions the variables.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        loss_reduction: How the losses of examples are combined to the loss of a batch.
        batch_norm: Whether to apply batch normalization to each hidden layer.

    Raises:
        ValueError: As for `Estimator`; fewer than two classes.
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Sequence[Any],
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Any = "Adagrad",
        activation_fn: Callable[..., Any] | None = relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
    ) -> None:
        head = classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        given = (hidden_units, feature_columns, optimizer, activation_fn, dropout)
        model_fn = _deep(head, *given, input_layer_partitioner, batch_norm)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


@export("estimator.DNNRegressor")
class DNNRegressor(Estimator):
    """A deep regressor; other arguments as for `DNNClassifier`.

    Args:
        hidden_units: The sizes of the hidden layers.
        feature_columns: The feature columns, which must be dense.
        model_dir: As for `Estimator`.
        label_dimension: The number of values per example.
        weight_column: The feature with the weights of examples.
        optimizer: A name, a function, or an optimizer; Adagrad with a rate of 0.05.
        activation_fn: The activation function of the hidden layers.
        dropout: The fraction of units dropped in training; None for none.
        input_layer_partitioner: Partitions the variables.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        loss_reduction: How the losses of examples are combined to the loss of a batch.
        batch_norm: Whether to apply batch normalization to each hidden layer.
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Sequence[Any],
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Callable[..., Any] | None = relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        given = (hidden_units, feature_columns, optimizer, activation_fn, dropout)
        model_fn = _deep(head, *given, input_layer_partitioner, batch_norm)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


@export("estimator.DNNEstimator")
class DNNEstimator(Estimator):
    """A deep model with a head of one's own; other arguments as for `DNNClassifier`.

    Args:
        head: A head, such as one of `tf.contrib.estimator`.
        hidden_units: The sizes of the hidden layers.
        feature_columns: The feature columns, which must be dense.
        model_dir: As for `Estimator`.
        optimizer: A name, a function, or an optimizer; Adagrad with a rate of 0.05.
        activation_fn: The activation function of the hidden layers.
        dropout: The fraction of units dropped in training; None for none.
        input_layer_partitioner: Partitions the variables.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        batch_norm: Whether to apply batch normalization to each hidden layer.

    Raises:
        TypeError: It is no head.
    """

    def __init__(
        self,
        head: Head,
        hidden_units: Sequence[int],
        feature_columns: Sequence[Any],
        model_dir: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Callable[..., Any] | None = relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        batch_norm: bool = False,
    ) -> None:
        given = (hidden_units, feature_columns, optimizer, activation_fn, dropout)
        model_fn = _deep(checked_head(head), *given, input_layer_partitioner, batch_norm)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)
