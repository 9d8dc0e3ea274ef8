"""Stateless random numbers, determined by two seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import (
    FLOATING,
    INDEX,
    REAL,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.random.random import (
    HostArray,
    classes,
    dims_of,
    integers,
    standard_normal,
    truncated_normal,
    uniform,
)
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.ops.static import bracketed, constant_scalar, constant_shape
from sparkflow_runtime.shapes import Shape

_SEED = type_attr(INDEX, int64)
_SHAPE = type_attr(INDEX, int32)
_KEY_MASK = (1 << 64) - 1


class _Stateless(Op):
    """Draws in `draw`, from a generator created from the seeds."""

    gradient = not_differentiable
    widens = ()
    draw: ClassVar[Callable[..., HostArray]]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The requested shape."""
        self._check_seed(node)
        return [constant_shape(node, 0, "shape")]

    def _check_seed(self, node: Inference) -> None:
        index = [arg.name for arg in self.signature.inputs].index("seed")
        (count,) = node.with_rank(index, 1, "seed")
        if count not in (None, 2):
            raise InvalidArgumentError(message=f"seed must have shape [2], not [{count}]")

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """The kernel; the generator is keyed with both seeds."""
        xp, draw, attrs = context.xp, self.draw, node.attrs
        place = [arg.name for arg in self.signature.inputs].index("seed")

        def kernel(*inputs: Array) -> Array:
            host = [x.get() if hasattr(x, "get") else x for x in inputs]
            seed = host.pop(place)
            if seed.shape != (2,):
                raise InvalidArgumentError(
                    message=f"seed must have shape [2], not {bracketed(seed.shape)}"
                )
            key = np.array([int(each) & _KEY_MASK for each in seed], np.uint64)
            generator = np.random.Generator(np.random.Philox(key=key))
            return xp.asarray(draw(generator, attrs, *host))

        return kernel


class _StatelessFloat(_Stateless):
    """Floating-point numbers of a shape."""

    inputs = "shape: T, seed: Tseed"
    outputs = "output: dtype"
    attrs = {"dtype": type_attr(FLOATING, float32), "T": _SHAPE, "Tseed": _SEED}


@register
class StatelessRandomUniform(_StatelessFloat):
    """Uniformly distributed numbers in [0, 1)."""

    @staticmethod
    def draw(generator: np.random.Generator, attrs: Any, shape: HostArray) -> HostArray:
        """The numbers."""
        return uniform(generator, attrs["dtype"], dims_of(shape))


@register
class StatelessRandomNormal(_StatelessFloat):
    """Normally distributed numbers with mean 0 and standard deviation 1."""

    @staticmethod
    def draw(generator: np.random.Generator, attrs: Any, shape: HostArray) -> HostArray:
        """The numbers."""
        return np.asarray(standard_normal(generator, attrs["dtype"], dims_of(shape)))


@register
class StatelessTruncatedNormal(_StatelessFloat):
    """The same without numbers beyond 2 standard deviations."""

    @staticmethod
    def draw(generator: np.random.Generator, attrs: Any, shape: HostArray) -> HostArray:
        """The numbers."""
        return truncated_normal(generator, attrs["dtype"], dims_of(shape))


@register
class StatelessRandomUniformInt(_Stateless):
    """Uniformly distributed integers in [minval, maxval)."""

    inputs = "shape: T, seed: Tseed, minval: dtype, maxval: dtype"
    outputs = "output: dtype"
    attrs = {"dtype": type_attr(INDEX | {uint32, uint64}), "T": type_attr(INDEX), "Tseed": _SEED}

    @staticmethod
    def draw(
        generator: np.random.Generator,
        attrs: Any,
        shape: HostArray,
        minval: HostArray,
        maxval: HostArray,
    ) -> HostArray:
        """The integers.

        Raises:
            InvalidArgumentError: minval is not below maxval.
        """
        return integers(generator, attrs["dtype"], shape, minval, maxval)


@register
class StatelessRandomUniformFullInt(_Stateless):
    """Uniformly distributed integers over the dtype's whole range."""

    inputs = "shape: T, seed: Tseed"
    outputs = "output: dtype"
    attrs = {
        "dtype": type_attr(INDEX | {uint32, uint64}, uint64),
        "T": _SHAPE,
        "Tseed": type_attr(INDEX | {uint32, uint64}, int64),
    }

    @staticmethod
    def draw(generator: np.random.Generator, attrs: Any, shape: HostArray) -> HostArray:
        """The integers."""
        kind = attrs["dtype"].as_numpy_dtype
        ends = np.iinfo(kind)
        return generator.integers(ends.min, ends.max, dims_of(shape), kind, endpoint=True)


@register
class StatelessMultinomial(_Stateless):
    """Per row of `logits`, classes drawn with probability softmax(logits)."""

    inputs = "logits: T, num_samples: int32, seed: Tseed"
    outputs = "output: output_dtype"
    attrs = {"T": type_attr(REAL), "Tseed": _SEED, "output_dtype": type_attr(INDEX, int64)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, num_samples)."""
        self._check_seed(node)
        samples = constant_scalar(node, 1, "num_samples")
        return [(node.with_rank(0, 2, "logits")[0], samples)]

    @staticmethod
    def draw(
        generator: np.random.Generator, attrs: Any, logits: HostArray, num_samples: HostArray
    ) -> HostArray:
        """[batch, num_samples] class numbers."""
        return classes(generator, logits, num_samples, attrs["output_dtype"])


class _PerParameter(_Stateless):
    """Checks that the requested shape ends with that of the broadcast parameters."""

    @staticmethod
    def _check(dims: tuple[int, ...], parameter: HostArray) -> None:
        if not shapes.is_compatible(dims[len(dims) - parameter.ndim :], parameter.shape):
            raise InvalidArgumentError(
                message=f"Shape passed in must end with broadcasted shape "
                f"{shapes.text(parameter.shape)}, got {shapes.text(dims)}"
            )


@register
class StatelessRandomGammaV2(_PerParameter):
    """Numbers from gamma distributions of shape parameter `alpha` and rate 1."""

    inputs = "shape: T, seed: Tseed, alpha: dtype"
    outputs = "output: dtype"
    attrs = {
        "dtype": type_attr(frozenset({float16, float32, float64})),
        "T": _SHAPE,
        "Tseed": _SEED,
    }

    @staticmethod
    def draw(
        generator: np.random.Generator, attrs: Any, shape: HostArray, alpha: HostArray
    ) -> HostArray:
        """The numbers."""
        dims = dims_of(shape)
        _PerParameter._check(dims, alpha)
        drawn = generator.standard_gamma(alpha.astype(np.float64), dims)
        return np.asarray(drawn).astype(attrs["dtype"].as_numpy_dtype)


@register
class StatelessRandomPoisson(_PerParameter):
    """Poisson-distributed event counts with expectation `lam`."""

    inputs = "shape: T, seed: Tseed, lam: Rtype"
    outputs = "output: dtype"
    attrs = {
        "Rtype": type_attr(REAL),
        "dtype": type_attr(REAL),
        "T": type_attr(INDEX),
        "Tseed": _SEED,
    }

    @staticmethod
    def draw(
        generator: np.random.Generator, attrs: Any, shape: HostArray, lam: HostArray
    ) -> HostArray:
        """The numbers."""
        dims = dims_of(shape)
        _PerParameter._check(dims, lam)
        drawn = generator.poisson(lam.astype(np.float64), dims)
        return np.asarray(drawn).astype(attrs["dtype"].as_numpy_dtype)
