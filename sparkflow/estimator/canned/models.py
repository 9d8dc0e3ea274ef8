"""The logits of linear and deep models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.estimator.mode_keys import ModeKeys
from sparkflow.feature_column.layers import input_layer, linear_model
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.layers import batch_normalization, dense, dropout as drop
from sparkflow.variables.initializers import GlorotUniform
from sparkflow.variables.variable_scope import variable_scope


def linear_logits(
    features: Mapping[str, Any],
    columns: Sequence[Any],
    units: int,
    combiner: str,
    partitioner: Any,
) -> Tensor:
    """The weighted sum of columns, below the scope `linear`: `[batch, units]`."""
    with variable_scope("linear", values=_tensors(features), partitioner=partitioner):
        return linear_model(features, columns, units=units, sparse_combiner=combiner)


def linear_learning_rate(columns: Sequence[Any], most: float) -> float:
    """1/√columns, at most so much."""
    return min(most, 1.0 / math.sqrt(len(columns)))


def deep_logits(
    features: Mapping[str, Any],
    columns: Sequence[Any],
    units: int,
    hidden_units: Sequence[int],
    activation_fn: Callable[..., Any] | None,
    dropout: float | None,
    batch_norm: bool,
    mode: str,
    partitioner: Any,
    batch_norm_momentum: float = 0.999,
) -> Tensor:
    """Fully connected layers over columns, below the scope `dnn`: `[batch, units]`."""
    training = mode == ModeKeys.TRAIN
    with variable_scope("dnn", values=_tensors(features), partitioner=partitioner):
        with variable_scope("input_from_feature_columns"):
            net = input_layer(features, columns)
        for index, size in enumerate(hidden_units):
            net = dense(
                net,
                units=size,
                activation=activation_fn,
                kernel_initializer=GlorotUniform(),
                name=f"hiddenlayer_{index}",
            )
            if dropout is not None and training:
                net = drop(net, rate=dropout, training=True)
            if batch_norm:
                with variable_scope(f"hiddenlayer_{index}"):
                    net = batch_normalization(
                        net,
                        momentum=batch_norm_momentum,
                        training=training,
                        name=f"batchnorm_{index}",
                    )
        return dense(
            net, units=units, activation=None, kernel_initializer=GlorotUniform(), name="logits"
        )


def _tensors(features: Mapping[str, Any]) -> list[Any]:
    """The features as tensors.

    Raises:
        ValueError: They have no names.
    """
    if not isinstance(features, Mapping):
        raise ValueError(
            f"features should be a dictionary of `Tensor`s. Given type: {type(features)}"
        )
    return [each.values if isinstance(each, SparseTensor) else each for each in features.values()]
