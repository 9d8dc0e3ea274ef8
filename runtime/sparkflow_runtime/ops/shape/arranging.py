"""The same elements in a different order of dimensions, or repeated: transpose, broadcast, tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.rows import permutations
from sparkflow_runtime.dtypes import INDEX, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.fusion import Fused, Fusion
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.filling import remembering
from sparkflow_runtime.ops.kernels.transposing import fill, fill_transposed
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.ops.static import (
    STRINGS_ON_HOST,
    bracketed,
    checked_dims,
    constant_shape,
    constant_vector,
    known_sizes,
    shape_tensor,
    vector,
    vector_length,
)
from sparkflow_runtime.ops.value import moving
from sparkflow_runtime.shapes import Dim, Shape

if TYPE_CHECKING:
    from sparkflow_runtime.device.gpu import Gpu

_SHORT_ROW_BYTES: Final = 512
"""numpy repeats longer rows as fast."""


@register
class Transpose(Op):
    """Dimensions in another order: output dimension i is input dimension perm[i]."""

    capturable = True
    host_inputs = frozenset({"perm"})
    inputs = "x: T, perm: Tperm"
    outputs = "y: T"
    aliases = frozenset({"x"})
    is_view = True
    attrs = {"T": type_attr(), "Tperm": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The sizes in their new order."""
        perm = constant_vector(node, 1, "perm")
        shape = node.shapes[0]
        if perm is None:
            return [shapes.unknown(vector_length(node, 1) if shape is None else len(shape))]
        if shape is None:
            shape = (None,) * len(perm)
        return [tuple(shape[axis] for axis in _places(perm, len(shape)))]

    def compute(self, xp: Any, x: Array, perm: Array) -> Array:
        """A view.

        Raises:
            InvalidArgumentError: `perm` does not name every dimension once.
        """
        return x.transpose(_checked_permutation(x.shape, perm))

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """A view; a constant permutation is read in the first step only."""
        axes_of = remembering(_checked_permutation)
        return lambda x, perm: x.transpose(axes_of(x.shape, perm))

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Copies the elements in their new order."""
        axes_of = remembering(_checked_permutation)
        return lambda x, perm, out: fill_transposed(x, axes_of(x.shape, perm), out)

    def bind_out_gpu(self, node: NodeView, gpu: Gpu) -> Callable[..., Any]:
        """Copies the elements in their new order."""
        from sparkflow_runtime.ops.native.gpu_transposing import GpuTransposer

        axes_of, fill = remembering(_checked_permutation), GpuTransposer(gpu.cupy).fill
        return lambda x, perm, out: fill(x, axes_of(x.shape, perm), out)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient with its dimensions in the original order."""
        return g.Transpose(dy, g.InvertPermutation(op.inputs[1])), None


def _places(perm: Sequence[int], rank: int) -> tuple[int, ...]:
    """The dimensions named, each in [0, rank); one may be missing, which a step finds out."""
    if len(perm) != rank:
        raise InvalidArgumentError(
            message=f"Dimension must be {rank} but is {len(perm)}: "
            f"transpose expects a vector of size {rank}. "
            f"But input(1) is a vector of size {len(perm)}"
        )
    for axis in perm:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(message=f"perm dim {axis} is out of range [0 .. {rank})")
    return tuple(axis + rank if axis < 0 else axis for axis in perm)


def _checked_permutation(shape: Sequence[int], perm: Array) -> tuple[int, ...]:
    places = vector(perm, "perm")
    axes = _places(places, len(shape))
    for axis in range(len(shape)):
        if axis not in axes:
            raise InvalidArgumentError(
                message=f"{axis} is missing from {{{','.join(map(str, places))}}}."
            )
    return axes


@register
class InvertPermutation(Op):
    """The permutation y with y[x[i]] = i."""

    inputs = "x: T"
    outputs = "y: T"
    attrs = {"T": type_attr(INDEX, int32)}
    gradient = not_differentiable
    infer = same_as(0, 1, "x")

    def compute(self, xp: Any, x: Array) -> Array:
        """The inverse.

        Raises:
            InvalidArgumentError: x is not a permutation of 0, 1, ..., n - 1.
        """
        if xp is np and x.ndim == 1:  # a list of Python's takes 400 times as long
            inverse = permutations.inverse(x)
            if inverse is None:
                inverse = np.full(x.size, -1, x.dtype)
                if not x.size or (x.min() >= 0 and x.max() < x.size):
                    inverse[x] = np.arange(x.size, dtype=x.dtype)
            if not x.size or inverse.min() >= 0:
                return inverse
        values = vector(x, "x")
        ordered = sorted(values)
        if ordered != list(range(len(values))):
            twice = next((a for a, b in pairwise(ordered) if a == b), None)
            first = "" if twice is None else f"{twice} is duplicated in the input. "
            raise InvalidArgumentError(
                message=f"{first}{bracketed(values)} is not a permutation of 0 to {len(values) - 1}"
            )
        return xp.argsort(x).astype(x.dtype)


@register
class BroadcastTo(Op):
    """The tensor repeated along dimensions of size 1 and new leading ones."""

    capturable = True
    host_inputs = frozenset({"shape"})
    repeats = "input"
    inputs = "input: T, shape: Tidx"
    outputs = "output: T"
    aliases = frozenset({"input"})
    is_view = True
    attrs = {"T": type_attr(), "Tidx": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The requested shape."""
        shape = constant_shape(node, 1, "shape")
        if shape is not None and node.shapes[0] is not None:
            _check_broadcast(node.shapes[0], shape)
        return [shape]

    def compute(self, xp: Any, value: Array, shape: Array) -> Array:
        """A read-only view with zero strides.

        Raises:
            InvalidArgumentError: The shapes do not fit.
        """
        dims = checked_dims(vector(shape, "shape"), "shape")
        _check_broadcast(value.shape, dims)
        return xp.broadcast_to(value, dims)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Copies the elements."""

        def run(value: Array, shape: Array, out: Array) -> None:
            _check_broadcast(value.shape, out.shape)
            np.copyto(out, value)

        return run

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """The value itself, which the kernel repeats."""
        shape = fusion.output_shapes[0]
        dims = fusion.align(shape, [0])
        return [Fused(fusion.input(0, dims), shape, dims)]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """dx: dy summed over the dimensions that were repeated."""
        x = op.inputs[0]
        shape = shape_tensor(g, x)
        axes, _ = g.BroadcastGradientArgs(shape, shape_tensor(g, dy))
        return g.Reshape(g.Sum(dy, axes), shape), None


def _check_broadcast(given: Sequence[Dim], asked: Shape) -> None:
    assert asked is not None
    tail = asked[len(asked) - len(given) :] if len(given) <= len(asked) else None
    if tail is None or any(
        dim not in (None, 1, target) and target is not None
        for dim, target in zip(given, tail, strict=True)
    ):
        raise InvalidArgumentError(
            message=f"Incompatible shapes: {bracketed(given)} vs. {bracketed(asked)}; "
            "a size must be 1 or equal to broadcast"
        )


@register
class BroadcastArgs(Op):
    """The shape of two tensors of the given shapes broadcast against each other."""

    inputs = "s0: T, s1: T"
    outputs = "r0: T"
    attrs = {"T": type_attr(INDEX, int32)}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """A vector as long as the longer one."""
        first, second = (node.with_rank(i, 1, "The shape")[0] for i in (0, 1))
        return [(None if first is None or second is None else max(first, second),)]

    def compute(self, xp: Any, s0: Array, s1: Array) -> Array:
        """The common shape.

        Raises:
            InvalidArgumentError: There is none.
        """
        dims = shapes.broadcast(vector(s0, "s0"), vector(s1, "s1"))
        return xp.asarray(dims, dtype=s0.dtype)


@register
class Tile(Op):
    """The tensor repeated `multiples[i]` times along dimension i."""

    capturable = True
    host_inputs = frozenset({"multiples"})
    repeats = "input"
    inputs = "input: T, multiples: Tmultiples"
    outputs = "output: T"
    attrs = {"T": type_attr(), "Tmultiples": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Each size times its multiple."""
        multiples = known_sizes(node, 1, "multiples")
        shape = node.shapes[0]
        if multiples is None:
            return [shapes.unknown(None if shape is None else len(shape))]
        if shape is None:
            shape = (None,) * len(multiples)
        _check_multiples(multiples, len(shape))
        return [
            tuple(
                0 if 0 in (dim, times) else None if dim is None or times is None else dim * times
                for dim, times in zip(shape, multiples, strict=True)
            )
        ]

    def compute(self, xp: Any, value: Array, multiples: Array) -> Array:
        """The repeated tensor.

        Raises:
            InvalidArgumentError: Not one multiple per dimension, or a negative one.
        """
        times = vector(multiples, "multiples")
        _check_multiples(times, value.ndim)
        return xp.tile(value, times)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """One copy, with every dimension seen as (multiple, size)."""

        def run(value: Array, multiples: Array, out: Array) -> None:
            times = vector(multiples, "multiples")
            _check_multiples(times, value.ndim)
            pairs = [n for pair in zip(times, value.shape, strict=True) for n in pair]
            ones = [n for dim in value.shape for n in (1, dim)]
            row_bytes = value.itemsize * value.shape[-1] if value.ndim else 0
            if context.xp is np and 0 < row_bytes <= _SHORT_ROW_BYTES:
                fill(np.broadcast_to(value.reshape(ones), pairs), out.reshape(pairs))
            else:
                np.copyto(out.reshape(pairs), value.reshape(ones))

        return run

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """dx: the sum over the copies, seen as dimensions (multiple, size, multiple, size, ...)."""
        x, multiples = op.inputs
        shape = g.Shape(x, out_type=multiples.dtype)
        # Interleaved as [m0, s0, m1, s1, ...]
        pairs = g.Reshape(g.Pack([multiples, shape], axis=1), np.array([-1], np.int32))
        zero, two = np.array(0, np.int32), np.array(2, np.int32)
        copies = g.Range(zero, g.Size(pairs), two)
        return g.Sum(g.Reshape(dy, pairs), copies), None


def _check_multiples(multiples: Sequence[Dim], rank: int) -> None:
    if len(multiples) != rank:
        raise InvalidArgumentError(
            message=f"Expected multiples argument to be a vector of length {rank} "
            f"but got length {len(multiples)}"
        )
    for axis, times in enumerate(multiples):
        if times is not None and times < 0:
            raise InvalidArgumentError(message=f"Expected multiples[{axis}] >= 0, but got {times}")
