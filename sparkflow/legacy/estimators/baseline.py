"""`BaselineClassifier`, `BaselineRegressor`: models that use no features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.estimator.canned.head import Head
from sparkflow.estimator.canned.heads import RegressionHead, classifier_head
from sparkflow.estimator.canned.optimizers import optimizer_of
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.losses import Reduction
from sparkflow.ops.shape import arrays, constants
from sparkflow.train.step_counter import get_global_step
from sparkflow.variables.initializers import Zeros
from sparkflow.variables.variable_scope import get_variable, variable_scope

_LEARNING_RATE = 0.3


def _baseline(head: Head, optimizer: Any) -> Any:
    """Returns a model_fn."""

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        units = head.logits_dimension
        with variable_scope("baseline"):
            bias = get_variable("bias", [units], initializer=Zeros())
            rows = arrays.stack([_batch_size(features), units])
            logits = constants.zeros(rows) + bias

        def train_op(loss: Any) -> Any:
            step = optimizer_of(optimizer, _LEARNING_RATE)
            return step.minimize(loss, global_step=get_global_step())

        return head.spec(features, labels, mode, logits, train_op)

    return model_fn


def _batch_size(features: Any) -> Tensor:
    if not isinstance(features, Mapping) or not features:
        raise ValueError(f"features should be a dictionary of `Tensor`s. Given: {features}")
    first = next(iter(features.values()))
    if isinstance(first, SparseTensor):
        found: Tensor = first.dense_shape[0]
        return found
    size: Tensor = arrays.shape(convert_to_tensor(first))[0]
    return size


@export("estimator.BaselineClassifier")
class BaselineClassifier(Estimator):
    """Predicts the frequency of each class.

    Args:
        model_dir: As for `Estimator`.
        n_classes: The number of classes.
        weight_column: The feature with the weights of examples.
        label_vocabulary: The names of the classes if labels are strings.
        optimizer: A name, a function, or an optimizer; FTRL with a rate of 0.3.
        config: As for `Estimator`.
        loss_reduction: How the losses of examples are combined to the loss of a batch.

    Raises:
        ValueError: As for `Estimator`; fewer than two classes.
    """

    def __init__(
        self,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        head = classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(_baseline(head, optimizer), model_dir, config)


@export("estimator.BaselineRegressor")
class BaselineRegressor(Estimator):
    """Predicts the mean; arguments as for `BaselineClassifier`.

    Args:
        model_dir: As for `Estimator`.
        label_dimension: The number of values per example.
        weight_column: The feature with the weights of examples.
        optimizer: A name, a function, or an optimizer; FTRL with a rate of 0.3.
        config: As for `Estimator`.
        loss_reduction: How the losses of examples are combined to the loss of a batch.
    """

    def __init__(
        self,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(_baseline(head, optimizer), model_dir, config)
