"""The logits of linear and deep models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.estimator.mode_keys import ModeKeys
from sparkflow.feature_column.layers import input_layer, linear_model
from sparkflow.graph.scopes import name_scope
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.layers import batch_normalization, dense, dropout as drop
from sparkflow.ops.elementwise.comparison import equal
from sparkflow.ops.elementwise.elementwise import add_n, cast
from sparkflow.ops.nn.activation import zero_fraction
from sparkflow.ops.reduction.reduction import reduce_sum
from sparkflow.ops.shape import arrays
from sparkflow.summary.summaries import histogram, scalar
from sparkflow.variables.initializers import GlorotUniform
from sparkflow.variables.variable_scope import variable_scope
from sparkflow_runtime.dtypes import float32


def linear_logits(
    features: Mapping[str, Any],
    columns: Sequence[Any],
    units: int,
    combiner: str,
    partitioner: Any,
) -> Tensor:
    """The weighted sum of columns, below the scope `linear`: `[batch, units]`."""
    variables: dict[Any, Any] = {}
    with variable_scope("linear", values=_tensors(features), partitioner=partitioner):
        logits = linear_model(
            features, columns, units=units, sparse_combiner=combiner, cols_to_vars=variables
        )
        bias = arrays.concat(variables.pop("bias"), 0)
        if units > 1:
            histogram("bias", bias)
        else:
            scalar("bias", bias[0])
        weights = [part for parts in variables.values() for part in parts]
        if weights:
            scalar("fraction_of_zero_weights", _zeros_in(weights))
    return logits


def _zeros_in(weights: Sequence[Any]) -> Tensor:
    """The fraction of zeros in all of these variables together."""
    with name_scope("zero_fraction"):
        zeros = [reduce_sum(cast(equal(each, 0.0), float32)) for each in weights]
        sizes = [cast(arrays.size(each), float32) for each in weights]
        found: Tensor = add_n(zeros) / add_n(sizes)
    return found


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
            _summarize(net, f"dnn/hiddenlayer_{index}")
        logits = dense(
            net, units=units, activation=None, kernel_initializer=GlorotUniform(), name="logits"
        )
        _summarize(logits, "dnn/logits")
    return logits


def _summarize(values: Tensor, tag: str) -> None:
    scalar(f"{tag}/fraction_of_zero_values", zero_fraction(values))
    histogram(f"{tag}/activation", values)


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
