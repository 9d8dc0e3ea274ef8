"""Random tensors.

Every node has its own stream per session, a Philox generator (Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3", 2011) keyed with its seeds, so that a step's numbers depend neither on
other nodes nor on which fetches ran before. The numbers are drawn on the host and copied to a GPU,
so that both get the same numbers. They are not the numbers that TensorFlow draws.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from sparkflow_runtime.codegen.cpu import random_numbers
from sparkflow_runtime.dtypes import FLOATING, INDEX, REAL, DType, bfloat16, float64, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import same_as, value_of
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.machine_call import CallSite, MachineCall
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, type_attr
from sparkflow_runtime.ops.static import (
    STRINGS_ON_HOST,
    bracketed,
    checked_dims,
    constant_scalar,
    ints,
    scalar,
)
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.shapes import Shape

HostArray = np.ndarray[Any, Any]

SEEDS = {"seed": int_attr(0), "seed2": int_attr(0)}
_KEY_MASK = (1 << 64) - 1
WAITING_STATES = "waiting random states"
"""Key of a session's dictionary of restored states of streams not yet created."""
_STEPS = {np.float16: 1 << 11, bfloat16.numpy: 1 << 8}
"""The bits of narrow dtypes: the number of equally spaced values in [0, 1)."""


class RandomStream:
    """The random numbers of one node of one session; `lock` guards `generator`.

    Args:
        seed, seed2: The node's seeds; both 0 for nondeterministic numbers.
    """

    def __init__(self, seed: int, seed2: int) -> None:
        if seed == 0 and seed2 == 0:
            philox = np.random.Philox()
        else:
            key = np.array([seed & _KEY_MASK, seed2 & _KEY_MASK], np.uint64)
            philox = np.random.Philox(key=key)
        self.generator = np.random.Generator(philox)
        self.lock = threading.Lock()

    @property
    def state(self) -> Any:
        """The generator's state in numpy's format; can be set."""
        return self.generator.bit_generator.state

    @state.setter
    def state(self, state: Any) -> None:
        self.generator.bit_generator.state = state


S = TypeVar("S", bound=RandomStream)


def stream_of(session: Resources, name: str, kind: type[S], make: Callable[[], S]) -> S:
    """Returns the stream of a node in a session, which all compiled steps share.

    Args:
        session: The session's resources.
        name: The node's name.
        kind: The stream's class.
        make: Creates the stream if there is none yet.
    """

    def made() -> S:
        stream = make()
        waiting = session.get_or_create("", WAITING_STATES, dict, dict)
        if name in waiting:
            stream.state = waiting.pop(name)
        return stream

    return session.get_or_create("", name, kind, made)


class RandomOp(Op):
    """An op that draws from its node's stream in `draw`."""

    draws = True
    stateful = True
    keeps_inputs = False
    gradient = not_differentiable
    draw: ClassVar[Callable[..., HostArray]]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """Draws the numbers and moves them to the device."""
        stream = self._stream(node, context.session)
        xp, draw, attrs = context.xp, self.draw, node.attrs

        def kernel(*inputs: Array) -> Array:
            host = [x.get() if hasattr(x, "get") else x for x in inputs]
            with stream.lock:
                result = draw(stream.generator, attrs, *host)
            return xp.asarray(result)

        return kernel

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """Draws directly into the array, from the same stream, if numpy supports it."""
        draw_into = self.filler(node.attrs)
        if draw_into is None:
            return None
        stream = self._stream(node, context.session)

        def fill(*arrays: Array) -> None:
            with stream.lock:
                draw_into(stream.generator, arrays[-1])

        return fill

    def filler(
        self, attrs: Mapping[str, Any]
    ) -> Callable[[np.random.Generator, HostArray], Any] | None:
        """A function that fills an array with the numbers of `draw`; None if there is none."""
        return None

    def _stream(self, node: NodeView, session: Resources) -> RandomStream:
        """The stream that the session's other compiled steps use too."""
        seeds = node.attrs["seed"], node.attrs["seed2"]
        return stream_of(session, node.name, RandomStream, lambda: RandomStream(*seeds))


class _OfShape(RandomOp):
    """Random numbers of a dtype, with the shape given by a tensor."""

    inputs = "shape: T"
    outputs = "output: dtype"
    attrs = {**SEEDS, "dtype": type_attr(FLOATING), "T": type_attr(INDEX)}
    infer = value_of(0, "shape")


class _Filled(_OfShape):
    """Numbers that numpy can write into an array."""

    fill: ClassVar[Callable[..., Any]]
    """The name of numpy's generator method."""

    def filler(
        self, attrs: Mapping[str, Any]
    ) -> Callable[[np.random.Generator, HostArray], Any] | None:
        """Numpy's own, but for narrow types."""
        kind, fill = attrs["dtype"].as_numpy_dtype, type(self).fill
        if kind in _STEPS:
            return None
        return lambda generator, out: fill(generator, dtype=kind, out=out)


def dims_of(shape: HostArray) -> tuple[int, ...]:
    """Reads the requested shape from a vector."""
    if shape.ndim != 1:
        raise InvalidArgumentError(
            message=f"shape must be a vector of sizes, got shape {bracketed(shape.shape)}"
        )
    return checked_dims(ints(shape), "shape")


@register
class RandomUniform(_Filled):
    """Uniformly distributed numbers in [0, 1)."""

    fill = np.random.Generator.random

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """The same numbers."""
        dtype = node.attrs["dtype"]
        if not random_numbers.is_as_numpys(dtype):
            return None
        stream = self._stream(node, site.session)
        count = math.prod(site.output_shapes[0])
        kernel = random_numbers.bind_uniform(stream.generator, dtype, count)
        return MachineCall(kernel, (), stream=stream)

    @staticmethod
    def draw(generator: np.random.Generator, attrs: Any, shape: HostArray) -> HostArray:
        """The numbers."""
        return uniform(generator, attrs["dtype"], dims_of(shape))


def uniform(generator: np.random.Generator, dtype: DType, dims: tuple[int, ...]) -> HostArray:
    """Uniformly distributed numbers in [0, 1)."""
    kind = dtype.as_numpy_dtype
    if kind in _STEPS:
        # Rounding float32 to fewer bits would sometimes yield 1.
        steps = generator.integers(0, _STEPS[kind], dims, np.int16)
        return (steps / np.float32(_STEPS[kind])).astype(kind)
    return np.asarray(generator.random(dims, kind))


def standard_normal(
    generator: np.random.Generator, dtype: DType, size: int | tuple[int, ...]
) -> HostArray:
    """Normally distributed numbers with mean 0 and standard deviation 1."""
    kind = dtype.as_numpy_dtype
    if kind in _STEPS:
        return np.asarray(generator.standard_normal(size, np.float32)).astype(kind)
    return generator.standard_normal(size, kind)


@register
class RandomStandardNormal(_Filled):
    """Normally distributed numbers with mean 0 and standard deviation 1."""

    fill = np.random.Generator.standard_normal

    @staticmethod
    def draw(generator: np.random.Generator, attrs: Any, shape: HostArray) -> HostArray:
        """The numbers."""
        return standard_normal(generator, attrs["dtype"], dims_of(shape))


@register
class TruncatedNormal(_OfShape):
    """As `RandomStandardNormal`, but numbers beyond 2 standard deviations are redrawn."""

    @staticmethod
    def draw(generator: np.random.Generator, attrs: Any, shape: HostArray) -> HostArray:
        """The numbers."""
        return truncated_normal(generator, attrs["dtype"], dims_of(shape))


def truncated_normal(
    generator: np.random.Generator, dtype: DType, dims: tuple[int, ...]
) -> HostArray:
    """As `standard_normal`, but numbers beyond 2 standard deviations are redrawn."""
    result = np.asarray(standard_normal(generator, dtype, dims))
    flat = result.reshape(-1)
    beyond = np.flatnonzero(np.abs(flat) > 2)
    while beyond.size:
        flat[beyond] = standard_normal(generator, dtype, beyond.size)
        beyond = beyond[np.abs(flat[beyond]) > 2]
    return result


@register
class RandomUniformInt(RandomOp):
    """Uniformly distributed integers in [minval, maxval)."""

    inputs = "shape: T, minval: Tout, maxval: Tout"
    outputs = "output: Tout"
    attrs = {**SEEDS, "Tout": type_attr(INDEX), "T": type_attr(INDEX)}
    infer = value_of(0, "shape")

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
        return integers(generator, attrs["Tout"], shape, minval, maxval)


def integers(
    generator: np.random.Generator,
    dtype: DType,
    shape: HostArray,
    minval: HostArray,
    maxval: HostArray,
) -> HostArray:
    """Uniformly distributed integers in [minval, maxval).

    Raises:
        InvalidArgumentError: minval is not below maxval.
    """
    low, high = scalar(minval, "minval"), scalar(maxval, "maxval")
    if low >= high:
        raise InvalidArgumentError(message=f"Need minval < maxval, got {low} >= {high}")
    return generator.integers(low, high, dims_of(shape), dtype.as_numpy_dtype)


@register
class RandomShuffle(RandomOp):
    """The slices along the first dimension in random order."""

    inputs = "value: T"
    outputs = "output: T"
    aliases = frozenset({"value"})
    attrs = {**SEEDS, "T": type_attr()}
    kernels = STRINGS_ON_HOST
    infer = same_as(0)

    @staticmethod
    def draw(generator: np.random.Generator, attrs: Any, value: HostArray) -> HostArray:
        """The shuffled tensor; a scalar stays as it is."""
        return generator.permutation(value) if value.ndim else value


@register
class Multinomial(RandomOp):
    """Per row of `logits`, `num_samples` classes drawn with probability softmax(logits)."""

    inputs = "logits: T, num_samples: int32"
    outputs = "output: output_dtype"
    attrs = {**SEEDS, "T": type_attr(REAL), "output_dtype": type_attr(INDEX, int64)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, num_samples)."""
        samples = constant_scalar(node, 1, "num_samples")
        return [(node.with_rank(0, 2, "logits")[0], samples)]

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """The same classes, except if rounding differs at a boundary."""
        dtype, (rows, classes) = site.dtypes[0], site.shapes[0]
        if not 0 < classes <= random_numbers.MOST_CLASSES or dtype not in random_numbers.LOGITS:
            return None
        if not random_numbers.is_as_numpys(float64):
            return None
        stream = self._stream(node, site.session)
        sizes = rows, classes, site.output_shapes[0][1]
        index = node.attrs["output_dtype"]
        kernel = random_numbers.bind_classes(stream.generator, dtype, *sizes, index)
        return MachineCall(kernel, (0,), can_fail=True, stream=stream)

    @staticmethod
    def draw(
        generator: np.random.Generator, attrs: Any, logits: HostArray, num_samples: HostArray
    ) -> HostArray:
        """[batch, num_samples] class numbers.

        Raises:
            InvalidArgumentError: Not a matrix with at least one class, or a negative number.
        """
        return classes(generator, logits, num_samples, attrs["output_dtype"])


def classes(
    generator: np.random.Generator, logits: HostArray, num_samples: HostArray, dtype: DType
) -> HostArray:
    """[batch, num_samples] class numbers drawn with probability softmax(logits).

    Raises:
        InvalidArgumentError: Not a matrix with at least one class, or a negative number.
    """
    count = scalar(num_samples, "num_samples")
    if logits.ndim != 2 or not logits.shape[1] or count < 0:
        raise InvalidArgumentError(
            message="logits must be [batch, classes] with classes > 0 and num_samples >= 0, "
            f"got shape {bracketed(logits.shape)} and num_samples {count}"
        )
    wide = logits.astype(np.float64)
    weights = np.cumsum(np.exp(wide - wide.max(axis=1, keepdims=True, initial=-np.inf)), axis=1)
    points = generator.random((logits.shape[0], count)) * weights[:, -1:]
    drawn = [
        np.searchsorted(row, point, side="right")
        for row, point in zip(weights, points, strict=True)
    ]
    result = np.array(drawn, dtype.as_numpy_dtype)
    return result.reshape(logits.shape[0], count)
