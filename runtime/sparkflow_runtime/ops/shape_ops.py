"""Shapes of tensors, and the same elements in another shape or order.

Joining and splitting tensors is in `joining`, parts of tensors in `slicing`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import INDEX, DType, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, list_attr, type_attr
from sparkflow_runtime.ops.static import (
    STRINGS_ON_HOST,
    bracketed,
    checked_dims,
    constant_shape,
    constant_vector,
    ints,
    reshape_like,
    shape_tensor,
    vector,
    vector_length,
)
from sparkflow_runtime.shapes import Dim, Shape, is_fully_defined

_OUT_TYPE = type_attr(INDEX, int32)


@register
class ShapeOf(Op):
    """The sizes of a tensor, as a vector."""

    type = "Shape"
    inputs = "input: T"
    outputs = "output: out_type"
    attrs = {"T": type_attr(), "out_type": _OUT_TYPE}
    kernels = STRINGS_ON_HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """A vector as long as the rank."""
        return [_rank_vector(node.shapes[0])]

    def compute(self, xp: Any, value: Array, *, out_type: DType) -> Array:
        """shape(value)."""
        return xp.asarray(value.shape, dtype=out_type.numpy)


@register
class ShapeN(Op):
    """The sizes of several tensors, one vector for each."""

    inputs = "input: N * T"
    outputs = "output: N * out_type"
    attrs = {"N": int_attr(minimum=1), "T": type_attr(), "out_type": _OUT_TYPE}
    kernels = STRINGS_ON_HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Vectors as long as the ranks."""
        return [_rank_vector(shape) for shape in node.shapes]

    def compute(self, xp: Any, *values: Array, out_type: DType) -> tuple[Array, ...]:
        """shape(value) of each."""
        return tuple(xp.asarray(value.shape, dtype=out_type.numpy) for value in values)


def _rank_vector(shape: Shape) -> Shape:
    return (None if shape is None else len(shape),)


@register
class Size(Op):
    """The number of elements."""

    inputs = "input: T"
    outputs = "output: out_type"
    attrs = {"T": type_attr(), "out_type": _OUT_TYPE}
    kernels = STRINGS_ON_HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """A scalar."""
        return [()]

    def compute(self, xp: Any, value: Array, *, out_type: DType) -> Array:
        """size(value)."""
        return xp.asarray(value.size, dtype=out_type.numpy)


@register
class Rank(Op):
    """The number of dimensions."""

    inputs = "input: T"
    outputs = "output: int32"
    attrs = {"T": type_attr()}
    kernels = STRINGS_ON_HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """A scalar."""
        return [()]

    def compute(self, xp: Any, value: Array) -> Array:
        """rank(value)."""
        return xp.asarray(value.ndim, dtype=xp.int32)


@register
class Reshape(Op):
    """The same elements in row-major order in another shape; one size may be -1: what is left."""

    inputs = "tensor: T, shape: Tshape"
    outputs = "output: T"
    attrs = {"T": type_attr(), "Tshape": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape asked for, with -1 resolved where the number of elements is known."""
        dims = constant_vector(node, 1, "shape")
        if dims is None:
            return [shapes.unknown(vector_length(node, 1))]
        shape = node.shapes[0]
        if shape is not None and None not in shape:
            return [_resolved([dim for dim in shape if dim is not None], dims)]
        _free_axis(dims)
        return [tuple(None if dim == -1 else dim for dim in dims)]

    def compute(self, xp: Any, tensor: Array, shape: Array) -> Array:
        """A view of the elements where their order allows it.

        Raises:
            InvalidArgumentError: The number of elements does not fit.
        """
        return tensor.reshape(_resolved(tensor.shape, vector(shape, "shape")))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient in the shape of the input."""
        return reshape_like(g, dy, op.inputs[0]), None


def _free_axis(dims: Sequence[int]) -> int | None:
    """The position of -1, None when there is none."""
    free = [axis for axis, dim in enumerate(dims) if dim == -1]
    if len(free) > 1:
        raise InvalidArgumentError(
            message=f"Only one input size may be -1, not both {free[0]} and {free[1]}"
        )
    for axis, dim in enumerate(dims):
        if dim < -1:
            raise InvalidArgumentError(message=f"Size {axis} must be non-negative, not {dim}")
    return free[0] if free else None


def _resolved(shape: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """The complete shape for elements of shape `shape` asked for as `dims`.

    Where another size asked for is 0, -1 is what the sizes other than 0 leave, as in TensorFlow: a
    tensor [4, 2, 0] asked for as [-1, 2, 0] is not changed.
    """
    free = _free_axis(dims)
    size = math.prod(shape)
    if free is None:
        if math.prod(dims) != size:
            raise InvalidArgumentError(
                message=f"Cannot reshape a tensor with {size} elements to shape "
                f"{bracketed(dims)} ({math.prod(dims)} elements)"
            )
        return tuple(dims)
    known = math.prod(dim for dim in dims if dim > 0)
    left = math.prod(dim for dim in shape if dim) if 0 in dims else size
    if size and (0 in dims or left % known):
        raise InvalidArgumentError(
            message=f"Cannot reshape a tensor with {size} elements to shape {bracketed(dims)}: "
            f"the number of elements must be a multiple of {0 if 0 in dims else known}"
        )
    return (*dims[:free], left // known, *dims[free + 1 :])


@register
class ExpandDims(Op):
    """The tensor with a dimension of size 1 inserted at `dim`."""

    inputs = "input: T, dim: Tdim"
    outputs = "output: T"
    attrs = {"T": type_attr(), "Tdim": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape with a 1 inserted."""
        shape, value = node.shapes[0], node.value(1)
        if shape is None:
            return [None]
        if value is None:
            return [shapes.unknown(len(shape) + 1)]
        axis = _single(value)
        _check_insertion(axis, len(shape))
        axis %= len(shape) + 1
        return [(*shape[:axis], 1, *shape[axis:])]

    def compute(self, xp: Any, value: Array, dim: Array) -> Array:
        """A view.

        Raises:
            InvalidArgumentError: `dim` is outside [-rank - 1, rank].
        """
        axis = _single(dim)
        _check_insertion(axis, value.ndim)
        return xp.expand_dims(value, axis)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient in the shape of the input."""
        return reshape_like(g, dy, op.inputs[0]), None


def _single(dim: Array) -> int:
    values = ints(dim)
    if len(values) != 1:
        raise InvalidArgumentError(
            message=f"dim must be a tensor with a single value, got shape {bracketed(dim.shape)}"
        )
    return values[0]


def _check_insertion(axis: int, rank: int) -> None:
    if not -rank - 1 <= axis <= rank:
        raise InvalidArgumentError(
            message=f"Tried to expand dim index {axis} for tensor with {rank} dimensions; "
            f"it must be in [{-rank - 1}, {rank}]"
        )


@register
class Squeeze(Op):
    """The tensor without its dimensions of size 1, or without those named in `squeeze_dims`."""

    inputs = "input: T"
    outputs = "output: T"
    attrs = {"T": type_attr(), "squeeze_dims": list_attr("int", [])}
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """What is left of the shape; unknown where it is not known which sizes are 1."""
        shape, squeeze_dims = node.shapes[0], node.attrs["squeeze_dims"]
        if shape is None or (not squeeze_dims and not is_fully_defined(shape)):
            return [None]
        doomed = _squeezed_axes(shape, squeeze_dims)
        return [tuple(dim for axis, dim in enumerate(shape) if axis not in doomed)]

    def compute(self, xp: Any, value: Array, *, squeeze_dims: Sequence[int]) -> Array:
        """A view.

        Raises:
            InvalidArgumentError: A named dimension is not of size 1 or does not exist.
        """
        return xp.squeeze(value, tuple(_squeezed_axes(value.shape, squeeze_dims)))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """The gradient in the shape of the input."""
        return (reshape_like(g, dy, op.inputs[0]),)


def _squeezed_axes(shape: Sequence[Dim], squeeze_dims: Sequence[int]) -> set[int]:
    if not squeeze_dims:
        return {axis for axis, dim in enumerate(shape) if dim == 1}
    rank = len(shape)
    for axis in squeeze_dims:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(
                message=f"Tried to squeeze dim index {axis} for tensor with {rank} dimensions"
            )
        dim = shape[axis]
        if dim is not None and dim != 1:
            raise InvalidArgumentError(
                message=f"Can not squeeze dim[{axis}], expected a dimension of 1, got {dim}"
            )
    return {axis % rank for axis in squeeze_dims}


@register
class Transpose(Op):
    """Dimensions in another order: output dimension i is input dimension perm[i]."""

    inputs = "x: T, perm: Tperm"
    outputs = "y: T"
    attrs = {"T": type_attr(), "Tperm": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The sizes in their new order."""
        perm = constant_vector(node, 1, "perm")
        shape = node.shapes[0]
        if perm is None:
            return [shapes.unknown(vector_length(node, 1) if shape is None else len(shape))]
        if shape is None:
            shape = (None,) * len(perm)
        return [tuple(shape[axis] for axis in _checked_permutation(perm, len(shape)))]

    def compute(self, xp: Any, x: Array, perm: Array) -> Array:
        """A view.

        Raises:
            InvalidArgumentError: `perm` does not name every dimension once.
        """
        return x.transpose(_checked_permutation(vector(perm, "perm"), x.ndim))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient with its dimensions put back."""
        return g.Transpose(dy, g.InvertPermutation(op.inputs[1])), None


def _checked_permutation(perm: Sequence[int], rank: int) -> tuple[int, ...]:
    if len(perm) != rank:
        raise InvalidArgumentError(
            message=f"transpose expects a vector of size {rank}. "
            f"But input(1) is a vector of size {len(perm)}"
        )
    axes = tuple(axis + rank if axis < 0 else axis for axis in perm)
    if sorted(axes) != list(range(rank)):
        raise InvalidArgumentError(
            message=f"perm {bracketed(perm)} must name each of the {rank} dimensions once"
        )
    return axes


@register
class InvertPermutation(Op):
    """The permutation y with y[x[i]] = i."""

    inputs = "x: T"
    outputs = "y: T"
    attrs = {"T": type_attr(INDEX, int32)}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The vector's shape."""
        return [node.with_rank(0, 1, "x")]

    def compute(self, xp: Any, x: Array) -> Array:
        """The inverse.

        Raises:
            InvalidArgumentError: x is not a permutation of 0, 1, ..., n - 1.
        """
        values = vector(x, "x")
        if sorted(values) != list(range(len(values))):
            raise InvalidArgumentError(
                message=f"{bracketed(values)} is not a permutation of 0 to {len(values) - 1}"
            )
        return xp.argsort(x).astype(x.dtype)


@register
class BroadcastTo(Op):
    """The tensor repeated along dimensions of size 1 and new leading ones."""

    inputs = "input: T, shape: Tidx"
    outputs = "output: T"
    attrs = {"T": type_attr(), "Tidx": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape asked for."""
        shape = constant_shape(node, 1, "shape")
        if is_fully_defined(shape) and node.shapes[0] is not None:
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
        dim is not None and dim not in (1, target) for dim, target in zip(given, tail, strict=True)
    ):
        raise InvalidArgumentError(
            message=f"Incompatible shapes: {bracketed(given)} vs. {bracketed(asked)}; "
            "a size must be 1 or equal to broadcast"
        )


@register
class Tile(Op):
    """The tensor repeated `multiples[i]` times along dimension i."""

    inputs = "input: T, multiples: Tmultiples"
    outputs = "output: T"
    attrs = {"T": type_attr(), "Tmultiples": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Each size times its multiple."""
        multiples = constant_vector(node, 1, "multiples")
        shape = node.shapes[0]
        if multiples is None:
            return [shapes.unknown(vector_length(node, 1) if shape is None else len(shape))]
        if shape is None:
            shape = (None,) * len(multiples)
        _check_multiples(multiples, len(shape))
        return [
            tuple(
                0 if times == 0 else None if dim is None else dim * times
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

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """dx: the sum over the copies, seen as dimensions (multiple, size, multiple, size, ...)."""
        x, multiples = op.inputs
        shape = g.Shape(x, out_type=multiples.dtype)
        # Interleaved as [m0, s0, m1, s1, ...]
        pairs = g.Reshape(g.Pack([multiples, shape], axis=1), np.array([-1], np.int32))
        zero, two = np.array(0, np.int32), np.array(2, np.int32)
        copies = g.Range(zero, g.Size(pairs), two)
        return g.Sum(g.Reshape(dy, pairs), copies), None


def _check_multiples(multiples: Sequence[int], rank: int) -> None:
    if len(multiples) != rank:
        raise InvalidArgumentError(
            message=f"Expected multiples argument to be a vector of length {rank} "
            f"but got length {len(multiples)}"
        )
    for axis, times in enumerate(multiples):
        if times < 0:
            raise InvalidArgumentError(message=f"Expected multiples[{axis}] >= 0, but got {times}")
