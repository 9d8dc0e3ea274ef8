"""Random numbers of gamma, Poisson and truncated normal distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.device.special import special_functions
from sparkflow_runtime.dtypes import (
    FLOATING,
    INDEX,
    float16,
    float32,
    float64,
    int32,
    int64,
)
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.inference import value_of
from sparkflow_runtime.ops.op import Inference
from sparkflow_runtime.ops.random.random import SEEDS, HostArray, RandomOp, dims_of
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.ops.static import constant_shape, shape_tensor
from sparkflow_runtime.shapes import Shape

_NARROW = frozenset({float16, float32, float64})
_RATES = frozenset({float16, float32, float64, int32, int64})


class _PerParameter(RandomOp):
    """`shape` numbers for every element of a tensor of parameters."""

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The requested shape followed by that of the parameters."""
        return [shapes.concatenate(constant_shape(node, 0, "shape"), node.shapes[1])]


@register
class RandomGamma(_PerParameter):
    """Numbers from gamma distributions of shape parameter `alpha` and rate 1."""

    inputs = "shape: S, alpha: T"
    outputs = "output: T"
    attrs = {**SEEDS, "S": type_attr(INDEX), "T": type_attr(_NARROW)}

    @staticmethod
    def draw(
        generator: np.random.Generator, attrs: Any, shape: HostArray, alpha: HostArray
    ) -> HostArray:
        """[..shape, ..alpha.shape]."""
        drawn = generator.standard_gamma(alpha.astype(np.float64), dims_of(shape) + alpha.shape)
        kind = attrs["T"].as_numpy_dtype
        # 0 has no logarithm: small parameters yield numbers too small for the dtype.
        return np.asarray(np.maximum(np.asarray(drawn).astype(kind), np.finfo(kind).tiny))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[None, Tensor]:
        """To alpha, by implicit differentiation of the distribution function."""
        shape, alpha = op.inputs
        slopes = g.RandomGammaGrad(alpha, op.outputs[0])
        count = g.Size(shape)
        axes = g.Range(np.array(0, np.int32), count, np.array(1, np.int32))
        summed = g.Sum(g.Mul(dy, slopes), axes)
        return None, g.Reshape(summed, shape_tensor(g, alpha))


class _Poisson(_PerParameter):
    """Poisson-distributed event counts with expectation `rate`."""

    @staticmethod
    def draw(
        generator: np.random.Generator, attrs: Any, shape: HostArray, rate: HostArray
    ) -> HostArray:
        """[..shape, ..rate.shape]."""
        drawn = generator.poisson(rate.astype(np.float64), dims_of(shape) + rate.shape)
        return np.asarray(drawn).astype(attrs["dtype"].as_numpy_dtype)


@register
class RandomPoisson(_Poisson):
    """Event counts of the dtype of the rate."""

    inputs = "shape: S, rate: dtype"
    outputs = "output: dtype"
    attrs = {**SEEDS, "S": type_attr(INDEX), "dtype": type_attr(_NARROW)}


@register
class RandomPoissonV2(_Poisson):
    """Event counts of any dtype."""

    inputs = "shape: S, rate: R"
    outputs = "output: dtype"
    attrs = {
        **SEEDS,
        "S": type_attr(INDEX),
        "R": type_attr(_RATES, float64),
        "dtype": type_attr(_RATES, int64),
    }


@register
class ParameterizedTruncatedNormal(RandomOp):
    """Truncated normal numbers: a row for every batch of parameters."""

    inputs = "shape: T, means: dtype, stdevs: dtype, minvals: dtype, maxvals: dtype"
    outputs = "output: dtype"
    attrs = {**SEEDS, "dtype": type_attr(FLOATING), "T": type_attr(INDEX)}
    infer = value_of(0, "shape")

    @staticmethod
    def draw(
        generator: np.random.Generator,
        attrs: Any,
        shape: HostArray,
        means: HostArray,
        stdevs: HostArray,
        minvals: HostArray,
        maxvals: HostArray,
    ) -> HostArray:
        """Samples by inverting the distribution function.

        Raises:
            InvalidArgumentError: A maxval is not above its minval.
        """
        dims = dims_of(shape)
        wide = [np.asarray(p, np.float64) for p in (means, stdevs, minvals, maxvals)]
        mean, deviation, low, high = (
            p.reshape(-1, *(1,) * (len(dims) - 1)) if p.ndim else p for p in wide
        )
        if not (low < high).all():
            raise InvalidArgumentError(
                message=f"minvals must be below maxvals, got {minvals} and {maxvals}"
            )
        special = special_functions(np)
        first, last = (special.ndtr((end - mean) / deviation) for end in (low, high))
        points = first + generator.random(dims) * (last - first)
        result = special.ndtri(points) * deviation + mean
        return np.asarray(np.clip(result, low, high), attrs["dtype"].as_numpy_dtype)
