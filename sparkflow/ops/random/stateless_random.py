"""Random numbers that a seed of two integers determines, in every run the same."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.random.stateless_random import *  # noqa: F403
from sparkflow._generated.ops.random.stateless_random import stateless_multinomial
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import as_dtype, float32, int32, int64, uint32, uint64


def _sizes(shape: Any) -> Tensor:
    return convert_to_tensor(shape, name="shape", preferred_dtype="int32")


def _scaled(
    op_type: str, shape: Any, seed: Any, mean: Any, stddev: Any, dtype: Any, name: str
) -> Tensor:
    kind = as_dtype(dtype)
    graph = graph_of((shape, seed, mean, stddev))
    with graph.as_default(), graph.name_scope(name) as scope:
        sizes = _sizes(shape)
        center = convert_to_tensor(mean, kind, "mean")
        spread = convert_to_tensor(stddev, kind, "stddev")
        drawn = apply_op(op_type, sizes, seed, dtype=kind)
        return output_of("AddV2", drawn * spread, center, name=scope)


@export("random.stateless_random_normal", "random.stateless_normal")
def stateless_random_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    name: str | None = None,
) -> Tensor:
    """Numbers from a normal distribution; `seed`: two integers."""
    name = name or "stateless_random_normal"
    return _scaled("StatelessRandomNormal", shape, seed, mean, stddev, dtype, name)


@export("random.stateless_truncated_normal")
def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    name: str | None = None,
) -> Tensor:
    """The same without numbers beyond two deviations."""
    name = name or "stateless_truncated_normal"
    return _scaled("StatelessTruncatedNormal", shape, seed, mean, stddev, dtype, name)


@export("random.stateless_random_uniform", "random.stateless_uniform")
def stateless_random_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    name: str | None = None,
) -> Tensor:
    """Numbers from [minval, maxval), all equally likely.

    Args:
        shape: int32 vector.
        seed: Two integers.
        minval: The least; None with `maxval` None for all integers of the type.
        maxval: The end, not drawn itself; 1 for floating point when None.
        dtype: Floating point, or int32, int64, uint32, uint64.
        name: Name of the scope.

    Raises:
        ValueError: Integers without `maxval`, or unsigned ones with ends.
    """
    kind = as_dtype(dtype)
    graph = graph_of((shape, seed, minval, maxval))
    with graph.as_default(), graph.name_scope(name or "stateless_random_uniform") as scope:
        sizes = _sizes(shape)
        if kind.is_integer and minval is None and maxval is None:
            return output_of("StatelessRandomUniformFullInt", sizes, seed, dtype=kind, name=scope)
        if kind in (uint32, uint64):
            raise ValueError(f"Invalid dtype for bounded uniform integers: {kind.name}")
        if kind.is_integer:
            if minval is None or maxval is None:
                raise ValueError(
                    f"For integer dtype {kind.name}, both minval and maxval must be None or both "
                    f"must be non-None; got minval={minval} and maxval={maxval}"
                )
            low = convert_to_tensor(minval, kind, "min")
            high = convert_to_tensor(maxval, kind, "max")
            return output_of("StatelessRandomUniformInt", sizes, seed, low, high, name=scope)
        low = convert_to_tensor(minval, kind, "min")
        high = convert_to_tensor(1 if maxval is None else maxval, kind, "max")
        drawn = apply_op("StatelessRandomUniform", sizes, seed, dtype=kind)
        return output_of("AddV2", drawn * (high - low), low, name=scope)


@export("random.stateless_categorical")
def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = int64, name: str | None = None
) -> Tensor:
    """The same."""
    name = name or "stateless_categorical"
    return stateless_multinomial(logits, num_samples, seed, dtype, name)


@export("random.stateless_random_gamma", "random.stateless_gamma")
def stateless_random_gamma(
    shape: Any,
    seed: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = float32,
    name: str | None = None,
) -> Tensor:
    """Numbers from gamma distributions; the shape ends with that of the parameters."""
    kind = as_dtype(dtype)
    graph = graph_of((shape, seed, alpha, beta))
    with graph.as_default(), graph.name_scope(name or "stateless_random_gamma"):
        form = convert_to_tensor(alpha, kind, "alpha")
        rate = convert_to_tensor(1 if beta is None else beta, kind, "beta")
        sizes = _sizes(shape)
        form = form + apply_op("ZerosLike", rate)
        result: Tensor = apply_op("StatelessRandomGammaV2", sizes, seed, form) / rate
        return result


@export("random.stateless_random_poisson", "random.stateless_poisson")
def stateless_random_poisson(
    shape: Any, seed: Any, lam: Any, dtype: Any = int32, name: str | None = None
) -> Tensor:
    """Numbers of events; the shape ends with that of `lam`."""
    return output_of(
        "StatelessRandomPoisson", _sizes(shape), seed, lam, dtype=as_dtype(dtype), name=name
    )
