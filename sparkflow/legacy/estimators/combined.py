"""Wide and deep models: `DNNLinearCombinedClassifier` and its like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.estimator.canned.head import Head, checked_head
from sparkflow.estimator.canned.heads import RegressionHead, classifier_head
from sparkflow.estimator.canned.models import deep_logits, linear_learning_rate, linear_logits
from sparkflow.estimator.canned.optimizers import optimizer_of
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import get_collection
from sparkflow.losses import Reduction
from sparkflow.ops.control.ordering import group
from sparkflow.ops.nn.activation import relu
from sparkflow.ops.state.state import assign_add
from sparkflow.train.step_counter import get_global_step

_DEEP_RATE = 0.001
_LINEAR_RATE = 0.005


def _combined(
    head: Head,
    linear_columns: Sequence[Any] | None,
    linear_optimizer: Any,
    deep_columns: Sequence[Any] | None,
    deep_optimizer: Any,
    hidden_units: Sequence[int] | None,
    activation_fn: Any,
    dropout: float | None,
    partitioner: Any,
    batch_norm: bool,
    combiner: str,
) -> Any:
    """A model_fn.

    Raises:
        ValueError: Neither model has columns, or the deep model has no hidden layers.
    """
    wide, deep = tuple(linear_columns or ()), tuple(deep_columns or ())
    if not wide and not deep:
        raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    if deep and not hidden_units:
        raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")
    sizes = tuple(hidden_units or ())

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        units = head.logits_dimension
        parts = []
        if deep:
            given = (sizes, activation_fn, dropout, batch_norm, mode, partitioner)
            parts.append(deep_logits(features, deep, units, *given))
        if wide:
            parts.append(linear_logits(features, wide, units, combiner, partitioner))
        logits = parts[0] if len(parts) == 1 else parts[0] + parts[1]

        def train_op(loss: Any) -> Any:
            steps = []
            if deep:
                step = optimizer_of(deep_optimizer, _DEEP_RATE)
                steps.append(step.minimize(loss, var_list=_trained("dnn")))
            if wide:
                step = optimizer_of(linear_optimizer, linear_learning_rate(wide, _LINEAR_RATE))
                steps.append(step.minimize(loss, var_list=_trained("linear")))
            both = group(*steps)
            with loss.graph.control_dependencies([both]):
                return assign_add(get_global_step(), 1).op

        return head.spec(features, labels, mode, logits, train_op)

    return model_fn


def _trained(scope: str) -> list[Any]:
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope=scope)


@export("estimator.DNNLinearCombinedClassifier")
class DNNLinearCombinedClassifier(Estimator):
    """A wide and deep classifier: the sum of the logits of a linear and a deep model.

    Args:
        model_dir: As for `Estimator`.
        linear_feature_columns: Columns of the linear model.
        linear_optimizer: A name with a rate of at most 0.005, a function, or an optimizer.
        dnn_feature_columns: Dense columns of the deep model.
        dnn_optimizer: A name with a rate of 0.001, a function, or an optimizer.
        dnn_hidden_units: The sizes of the hidden layers.
        dnn_activation_fn: The activation function of the hidden layers.
        dnn_dropout: The fraction of units dropped in training; None for none.
        n_classes: The number of classes.
        weight_column: The feature with the weights of examples.
        label_vocabulary: The names of the classes if labels are strings.
        input_layer_partitioner: Partitions the variables.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        loss_reduction: How the losses of examples are combined to the loss of a batch.
        batch_norm: Whether to apply batch normalization to each hidden layer.
        linear_sparse_combiner: How to combine the weights of an example's categories.

    Raises:
        ValueError: As for `Estimator`; no columns, or no hidden layers for deep columns.
    """

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Sequence[Any] | None = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Sequence[Any] | None = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[..., Any] | None = relu,
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        head = classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        model_fn = _combined(
            head,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            input_layer_partitioner,
            batch_norm,
            linear_sparse_combiner,
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


@export("estimator.DNNLinearCombinedRegressor")
class DNNLinearCombinedRegressor(Estimator):
    """A wide and deep regressor; other arguments as for `DNNLinearCombinedClassifier`.

    Args:
        model_dir: As for `Estimator`.
        linear_feature_columns: Columns of the linear model.
        linear_optimizer: A name with a rate of at most 0.005, a function, or an optimizer.
        dnn_feature_columns: Dense columns of the deep model.
        dnn_optimizer: A name with a rate of 0.001, a function, or an optimizer.
        dnn_hidden_units: The sizes of the hidden layers.
        dnn_activation_fn: The activation function of the hidden layers.
        dnn_dropout: The fraction of units dropped in training; None for none.
        label_dimension: The number of values per example.
        weight_column: The feature with the weights of examples.
        input_layer_partitioner: Partitions the variables.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        loss_reduction: How the losses of examples are combined to the loss of a batch.
        batch_norm: Whether to apply batch normalization to each hidden layer.
        linear_sparse_combiner: How to combine the weights of an example's categories.
    """

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Sequence[Any] | None = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Sequence[Any] | None = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[..., Any] | None = relu,
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        model_fn = _combined(
            RegressionHead(label_dimension, weight_column, loss_reduction),
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            input_layer_partitioner,
            batch_norm,
            linear_sparse_combiner,
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


@export("estimator.DNNLinearCombinedEstimator")
class DNNLinearCombinedEstimator(Estimator):
    """A wide and deep model with a head of one's own.

    Args:
        head: A head, such as one of `tf.contrib.estimator`.
        model_dir: As for `Estimator`.
        linear_feature_columns: Columns of the linear model.
        linear_optimizer: A name with a rate of at most 0.005, a function, or an optimizer.
        dnn_feature_columns: Dense columns of the deep model.
        dnn_optimizer: A name with a rate of 0.001, a function, or an optimizer.
        dnn_hidden_units: The sizes of the hidden layers.
        dnn_activation_fn: The activation function of the hidden layers.
        dnn_dropout: The fraction of units dropped in training; None for none.
        input_layer_partitioner: Partitions the variables.
        config: As for `Estimator`.
        batch_norm: Whether to apply batch normalization to each hidden layer.
        linear_sparse_combiner: How to combine the weights of an example's categories.

    Raises:
        TypeError: It is no head.
        ValueError: As for `DNNLinearCombinedClassifier`.
    """

    def __init__(
        self,
        head: Head,
        model_dir: Any = None,
        linear_feature_columns: Sequence[Any] | None = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Sequence[Any] | None = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[..., Any] | None = relu,
        dnn_dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        model_fn = _combined(
            checked_head(head),
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            input_layer_partitioner,
            batch_norm,
            linear_sparse_combiner,
        )
        super().__init__(model_fn, model_dir, config)
