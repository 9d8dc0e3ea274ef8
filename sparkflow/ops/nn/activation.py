"""Activation functions and layers' small change: bias, dropout, normalisation, top k."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.nn.activation import *  # noqa: F403
from sparkflow._generated.ops.nn.activation import relu
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.shapes.dimension import Dimension
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.dispatch import or_ragged
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.random.random import random_uniform
from sparkflow.ops.reduction import reduction
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays
from sparkflow.ops.shape.axis_order import exchanged_with_last
from sparkflow_runtime.dtypes import as_dtype, float32, int32
from sparkflow_runtime.errors import InvalidArgumentError


@export("math.softmax", "nn.softmax")
def softmax(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """exp(x) divided by its sum along `axis` (None: the last).

    Args:
        logits: float16, bfloat16, float32 or float64 of rank 1 or more.
        axis: The dimension of the classes.
        name: Name of the node.
        dim: The old name of `axis`.

    Returns:
        The shape and dtype of `logits`.

    Raises:
        InvalidArgumentError: The tensor has no such dimension.
    """
    return _along_last("Softmax", logits, either("axis", axis, "dim", dim), name)


@export("math.log_softmax", "nn.log_softmax")
def log_softmax(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """X minus the logarithm of the sum of exp(x) along `axis` (None: the last).

    Arguments, result and errors as for `softmax`.
    """
    return _along_last("LogSoftmax", logits, either("axis", axis, "dim", dim), name)


def _along_last(op_type: str, logits: Any, axis: Any, name: str | None) -> Tensor:
    tensor = convert_to_tensor(logits)
    rank = None if tensor._shape is None else len(tensor._shape)
    if rank is not None and axis is not None and not -rank <= axis < rank:
        raise InvalidArgumentError(
            message=f"`axis` must be in the range [{-rank}, {rank}) where {rank} is the number of "
            f"dimensions in the input. Received: axis={axis}"
        )
    if axis is None or axis == -1 or axis + 1 == rank:
        return output_of(op_type, tensor, name=name)
    order = exchanged_with_last(tensor, axis)
    with tensor.graph.name_scope(name or op_type) as scope:
        moved = apply_op(op_type, arrays.transpose(tensor, order))
        return arrays.transpose(moved, order, name=scope)


@export("nn.bias_add")
def bias_add(
    value: Any, bias: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """Adds a vector to the channels: the last dimension, or the second for `NCHW`.

    Args:
        value: [..., channels], or [batch, channels, ...] for `NCHW`; numbers.
        bias: [channels] of the same dtype.
        data_format: `NHWC` (when None) or `NCHW`.
        name: Name of the node.
    """
    attrs = {"data_format": data_format or "NHWC"}
    return output_of("BiasAdd", value, bias, name=name or "BiasAdd", **attrs)


@export("nn.dropout")
@or_ragged
def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Sets elements to 0 at random and scales the others so that the expected sum stays.

    Args:
        x: Real numbers.
        keep_prob: The probability of keeping an element.
        noise_shape: The shape of the random choice, broadcast to that of `x`; None in it stands
            for the size of `x`.
        seed: Seed of the choice.
        name: Name of the scope.
        rate: 1 - `keep_prob`, the newer way to say it.

    Raises:
        ValueError: Neither or both of `keep_prob` and `rate` are given, or outside [0, 1]; or `x`
            is not floating point.
    """
    if isinstance(keep_prob, int | float):
        if not 0 < keep_prob <= 1:
            raise ValueError(
                f"keep_prob must be a scalar tensor or a float in the range (0, 1], got {keep_prob}"
            )
        keep_prob = 1.0 - keep_prob
    elif keep_prob is not None:
        keep_prob = 1.0 - keep_prob
    rate = either("rate", rate, "keep_prob", keep_prob)
    if rate is None:
        raise ValueError("You must provide a rate to dropout.")
    tensor = convert_to_tensor(x, name="x")
    if not tensor.dtype.is_floating:
        raise ValueError(
            "x has to be a floating point tensor since it will be scaled. Got a "
            f"{tensor.dtype.name} tensor instead."
        )
    is_number = isinstance(rate, int | float)
    if is_number and not 0 <= rate < 1:
        raise ValueError(f"rate must be a scalar tensor or a float in the range [0, 1), got {rate}")
    if is_number and rate == 0:
        return tensor
    graph = tensor.graph
    with graph.as_default(), graph.name_scope(name or "dropout"):
        dtype = tensor.dtype.base
        lost = graph.convert(rate, dtype, "rate")
        factor = 1.0 / (1.0 - rate) if is_number else 1.0 / (1.0 - lost)
        shape = noise_sizes(tensor, noise_shape)
        drawn = random_uniform(shape, dtype=dtype, seed=seed)
        kept = elementwise.cast(apply_op("GreaterEqual", drawn, lost), dtype)
        result: Tensor = tensor * factor * kept
        result.set_shape(tensor.shape)
        return result


def noise_sizes(tensor: Tensor, noise_shape: Any) -> Any:
    """The shape of what `dropout` draws: that of `tensor` where `noise_shape` does not say another.

    Raises:
        ValueError: `noise_shape` leaves out sizes and does not have the rank of `tensor`.
    """
    if noise_shape is None:
        return arrays.shape(tensor)
    if isinstance(noise_shape, TensorShape):
        noise_shape = noise_shape.as_list()
    if not isinstance(noise_shape, list | tuple):
        return noise_shape
    given = [each.value if isinstance(each, Dimension) else each for each in noise_shape]
    if None not in given:
        return given
    if tensor.shape.ndims not in (None, len(given)):
        raise ValueError(
            f"noise_shape {given} leaves out sizes, so it must have the rank of x: {tensor.shape}"
        )
    static = [None] * len(given) if tensor._shape is None else list(tensor._shape)
    known = [own if asked is None else asked for asked, own in zip(given, static, strict=True)]
    if None not in known:
        return known
    sizes = arrays.shape(tensor)
    return [sizes[axis] if size is None else size for axis, size in enumerate(known)]


class TopKV2(NamedTuple):
    """The result of `top_k`."""

    values: Tensor
    indices: Tensor


@export("math.top_k", "nn.top_k")
def top_k(
    input: Any,
    k: Any = 1,
    sorted: bool = True,
    index_type: Any = int32,
    name: str | None = None,
) -> TopKV2:
    """The `k` largest elements along the last dimension, and their positions.

    Args:
        input: [..., n] real numbers, n at least `k`.
        k: A scalar int32.
        sorted: Whether the largest comes first.
        index_type: The dtype of the positions.
        name: Name of the node.

    Returns:
        `values` [..., k] and `indices` [..., k] int32; of equal elements the first comes first.
    """
    return TopKV2(
        *apply_op("TopKV2", input, k, sorted=sorted, index_type=as_dtype(index_type), name=name)
    )


@export("math.in_top_k", "nn.in_top_k")
def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Whether the target class of each row is among its `k` largest predictions: [batch] bool."""
    with graph_of((predictions, targets)).name_scope(name or "in_top_k"):
        return output_of("InTopKV2", predictions, targets, k)


@export("nn.xw_plus_b")
def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """matmul(x, weights) + biases."""
    graph = graph_of((x, weights, biases))
    with graph.as_default(), graph.name_scope(name or "xw_plus_b") as scope:
        product = apply_op("MatMul", x, weights)
        return bias_add(product, biases, name=scope)


@export("math.zero_fraction", "nn.zero_fraction")
def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """The share of zeros in `value`: a float32 scalar."""
    graph = graph_of((value,))
    with graph.as_default(), graph.name_scope(name or "zero_fraction"):
        tensor = convert_to_tensor(value, name="value")
        zero = graph.convert(np.zeros((), tensor.dtype.as_numpy_dtype), None, "zero")
        zeros = elementwise.cast(apply_op("Equal", tensor, zero), float32)
        return output_of("Identity", reduction.reduce_mean(zeros), name="fraction")


@export("nn.relu_layer")
def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """relu(matmul(x, weights) + biases)."""
    graph = graph_of((x, weights, biases))
    with graph.as_default(), graph.name_scope(name or "relu_layer") as scope:
        return relu(bias_add(apply_op("MatMul", x, weights), biases), name=scope)


@export("nn.crelu")
def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """Concatenates relu(x) and relu(-x) along `axis` (Shang et al. 2016)."""
    graph = graph_of((features,))
    with graph.as_default(), graph.name_scope(name or "CRelu") as scope:
        tensor = convert_to_tensor(features, name="features")
        both = arrays.concat([tensor, -tensor], axis, name=scope)
        return relu(both)


@export("nn.swish", "nn.silu")
def swish(features: Any, beta: Any = 1.0) -> Tensor:
    """X · sigmoid(beta · x) (Ramachandran et al. 2017)."""
    graph = graph_of((features, beta))
    with graph.as_default(), graph.name_scope("swish"):
        tensor = convert_to_tensor(features, name="features")
        scaled = tensor if isinstance(beta, int | float) and beta == 1 else tensor * beta
        return elementwise.multiply(tensor, elementwise.sigmoid(scaled))


silu = swish
