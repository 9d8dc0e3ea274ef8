"""Random tensors and the seeds behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.scopes import (
    apply_op,
    convert_to_tensor,
    get_default_graph,
    graph_of,
    name_scope,
    output_of,
)
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.debugging import Assert
from sparkflow.ops.reduction.reduction import reduce_all
from sparkflow_runtime.dtypes import DType, as_dtype, float32, int32

DEFAULT_GRAPH_SEED = 87654321
"""TensorFlow's graph seed where only the seed of an op is set."""


LARGEST_SEED = 2**31 - 1


@export("set_random_seed", "random.set_random_seed")
def set_random_seed(seed: int | None) -> None:
    """Sets the seed of the default graph: every random op made from now on is reproducible."""
    get_default_graph().seed = seed


def op_seeds(op_seed: int | None) -> tuple[int, int]:
    """The two seeds of a random op; (0, 0) asks for a seed from the system.

    With a graph seed only, each op's own seed is its number in the graph.
    """
    graph = get_default_graph()
    if graph.seed is None:
        seeds = (0, 0) if op_seed is None else (DEFAULT_GRAPH_SEED, op_seed)
    else:
        seeds = (graph.seed, graph.version if op_seed is None else op_seed)
    if seeds == (0, 0) and (graph.seed is not None or op_seed is not None):
        return (0, LARGEST_SEED)
    return seeds[0] % LARGEST_SEED, seeds[1] % LARGEST_SEED


@export("get_seed", "random.get_seed")
def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """The two seeds that a random op made now with `seed=op_seed` has.

    Both None where neither the graph nor the op has a seed: the numbers differ every time.
    """
    seeds = op_seeds(op_seed)
    return (None, None) if seeds == (0, 0) else seeds


def _draw(
    op_type: str, *inputs: Any, seed: int | None, name: str | None = None, **attrs: Any
) -> Tensor:
    first, second = op_seeds(seed)
    return output_of(op_type, *inputs, seed=first, seed2=second, name=name, **attrs)


def _scaled(
    op_type: str, shape: Any, mean: Any, stddev: Any, dtype: Any, seed: int | None, name: str
) -> Tensor:
    kind = as_dtype(dtype)
    graph = graph_of((shape, mean, stddev))
    with graph.as_default(), graph.name_scope(name) as scope:
        sizes = convert_to_tensor(shape, name="shape", preferred_dtype="int32")
        center = convert_to_tensor(mean, kind, "mean")
        spread = convert_to_tensor(stddev, kind, "stddev")
        drawn = _draw(op_type, sizes, seed=seed, dtype=kind)
        scaled = apply_op("Mul", drawn, spread, name="mul")
        return output_of("AddV2", scaled, center, name=scope)


@export("random_normal", "random.random_normal", "random.normal")
def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str = "random_normal",
) -> Tensor:
    """Numbers from a normal distribution."""
    return _scaled("RandomStandardNormal", shape, mean, stddev, dtype, seed, name)


@export("truncated_normal", "random.truncated_normal")
def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str = "truncated_normal",
) -> Tensor:
    """Numbers from a normal distribution, drawn again when over two deviations from the mean."""
    return _scaled("TruncatedNormal", shape, mean, stddev, dtype, seed, name)


@export("random_uniform", "random.random_uniform", "random.uniform")
def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str = "random_uniform",
) -> Tensor:
    """Numbers from [minval, maxval), all equally likely; `maxval` is 1 when None.

    Raises:
        ValueError: Integers without `maxval`.
    """
    kind = as_dtype(dtype)
    if maxval is None:
        if kind.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {kind.name}")
        maxval = 1
    graph = graph_of((shape, minval, maxval))
    with graph.as_default(), graph.name_scope(name) as scope:
        sizes = convert_to_tensor(shape, name="shape", preferred_dtype="int32")
        if kind.is_integer:
            low, high = (
                convert_to_tensor(v, kind, n) for v, n in ((minval, "min"), (maxval, "max"))
            )
            return _draw("RandomUniformInt", sizes, low, high, seed=seed, name=scope)
        if _is_number(minval, 0) and _is_number(maxval, 1):
            return _draw("RandomUniform", sizes, seed=seed, dtype=kind)
        return _between(sizes, minval, maxval, kind, seed, scope)


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, int | float) and value == number


def _between(
    sizes: Tensor, minval: Any, maxval: Any, kind: DType, seed: int | None, scope: str
) -> Tensor:
    low = convert_to_tensor(minval, kind, "min")
    high = convert_to_tensor(maxval, kind, "max")
    drawn = _draw("RandomUniform", sizes, seed=seed, dtype=kind)
    width = apply_op("Sub", high, low, name="sub")
    scaled = apply_op("Mul", drawn, width, name="mul")
    return output_of("AddV2", scaled, low, name=scope)


@export("random_shuffle", "random.random_shuffle", "random.shuffle")
def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """The rows of `value` in random order."""
    return _draw("RandomShuffle", value, seed=seed, name=name)


@export("multinomial", "random.multinomial")
def multinomial(
    logits: Any,
    num_samples: Any,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: Any = None,
) -> Tensor:
    """Classes drawn with the probabilities softmax(logits): [batch, num_samples]."""
    kind = as_dtype(output_dtype or "int64")
    with name_scope(name, "multinomial", [logits]):
        return _draw("Multinomial", logits, num_samples, seed=seed, output_dtype=kind)


@export("random_gamma", "random.random_gamma", "random.gamma")
def random_gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers from gamma distributions: `shape` of them for every pair of parameters.

    Differentiable with respect to both parameters.

    Args:
        shape: int32 vector.
        alpha: The shape parameters, of `dtype`.
        beta: The rates; 1 when None.
        dtype: float16, float32 or float64.
        seed: The op's seed.
        name: Name of the scope.
    """
    kind = as_dtype(dtype)
    graph = graph_of((shape, alpha, beta))
    with graph.as_default(), graph.name_scope(name or "random_gamma"):
        sizes = convert_to_tensor(shape, name="shape", preferred_dtype="int32")
        form = convert_to_tensor(alpha, kind, "alpha")
        rate = convert_to_tensor(1 if beta is None else beta, kind, "beta")
        # Zeros broadcast alpha to the shape of both parameters.
        drawn = _draw("RandomGamma", sizes, form + apply_op("ZerosLike", rate), seed=seed)
        least = np.array(np.finfo(kind.as_numpy_dtype).tiny, kind.as_numpy_dtype)
        return output_of("Maximum", least, drawn / rate)


@export("random_poisson", "random.random_poisson", "random.poisson")
def random_poisson(
    lam: Any,
    shape: Any,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers of events where `lam` are to be expected: `shape` of them for each."""
    return random_poisson_v2(shape, lam, dtype, seed, name)


def random_poisson_v2(
    shape: Any,
    lam: Any,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """The same with the shape first."""
    graph = graph_of((shape, lam))
    with graph.as_default(), graph.name_scope(name or "random_poisson"):
        sizes = convert_to_tensor(shape, name="shape", preferred_dtype="int32")
        rate = convert_to_tensor(lam, name="lam")
        return _draw("RandomPoissonV2", sizes, rate, seed=seed, dtype=as_dtype(dtype))


@export("random_crop", "image.random_crop", "random.random_crop")
def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """A part of `value` of this size, at a random place.

    Args:
        value: The tensor.
        size: A size for every axis.
        seed: The op's seed.
        name: Name of the scope.
    """
    graph = graph_of((value, size))
    with graph.as_default(), graph.name_scope(name or "random_crop") as scope:
        tensor = convert_to_tensor(value, name="value")
        sizes = convert_to_tensor(size, int32, "size")
        shape = apply_op("Shape", tensor)
        fits = reduce_all(apply_op("GreaterEqual", shape, sizes))
        check = Assert(fits, ["Need value.shape >= size, got ", shape, sizes], summarize=1000)
        with graph.control_dependencies([check]):
            shape = apply_op("Identity", shape)
        limit = shape - sizes + 1
        drawn = random_uniform(apply_op("Shape", shape), 0, int32.max, int32, seed)
        return output_of("Slice", tensor, drawn % limit, sizes, name=scope)


@export("random.categorical")
def categorical(
    logits: Any,
    num_samples: Any,
    dtype: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Classes drawn with the probabilities softmax(logits): [batch, num_samples]."""
    return multinomial(logits, num_samples, seed, name or "categorical", dtype or "int64")
