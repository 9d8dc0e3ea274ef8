"""Shapes of tensors, and the same elements in another shape.

Other orders of elements are in `arranging`, parts of tensors in `slicing`.
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
from sparkflow_runtime.ops.fusion import Fused, Fusion, same_value
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, list_attr, type_attr
from sparkflow_runtime.ops.static import (
    STRINGS_ON_HOST,
    bracketed,
    ints,
    known_sizes,
    reshape_like,
    vector,
)
from sparkflow_runtime.ops.value import Value, moving, of_shapes, of_sizes
from sparkflow_runtime.shapes import Dim, Shape, is_fully_defined

_OUT_TYPE = type_attr(INDEX, int32)


def _number(count: int | None, dtype: DType) -> Value | None:
    return None if count is None else Value(np.asarray(count, dtype.as_numpy_dtype))


@register
class ShapeOf(Op):
    """The sizes of a tensor, as a vector."""

    type = "Shape"
    inputs = "input: T"
    outputs = "output: out_type"
    attrs = {"T": type_attr(), "out_type": _OUT_TYPE}
    kernels = STRINGS_ON_HOST
    gradient = not_differentiable
    value_rule = of_shapes(lambda node: [of_sizes(node.shapes[0], node.attrs["out_type"])])

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
    value_rule = of_shapes(
        lambda node: [of_sizes(shape, node.attrs["out_type"]) for shape in node.shapes]
    )

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
    value_rule = of_shapes(
        lambda node: [_number(shapes.num_elements(node.shapes[0]), node.attrs["out_type"])]
    )
    infer = scalars

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
    value_rule = of_shapes(
        lambda node: [_number(None if node.shapes[0] is None else len(node.shapes[0]), int32)]
    )
    infer = scalars

    def compute(self, xp: Any, value: Array) -> Array:
        """rank(value)."""
        return xp.asarray(value.ndim, dtype=xp.int32)


@register
class Reshape(Op):
    """The same elements in row-major order in another shape; one size may be -1: the remainder."""

    tolerates_rounding = True
    capturable = True
    host_inputs = frozenset({"shape"})
    reshapes = True
    quiet = True
    inputs = "tensor: T, shape: Tshape"
    outputs = "output: T"
    aliases = frozenset({"tensor"})
    is_view = True
    attrs = {"T": type_attr(), "Tshape": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The requested shape, with -1 resolved if the number of elements is known."""
        dims = known_sizes(node, 1, "shape")
        if dims is None:
            return [None]
        for axis, dim in enumerate(dims):
            if dim is not None and dim < -1:
                raise InvalidArgumentError(message=f"Size {axis} must be non-negative, not {dim}")
        return [_static_shape(node.shapes[0], dims)]

    def compute(self, xp: Any, tensor: Array, shape: Array) -> Array:
        """A view, if the order of the elements allows it.

        Raises:
            InvalidArgumentError: The number of elements does not fit.
        """
        return tensor.reshape(_resolved(tensor.shape, vector(shape, "shape")))

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """The value itself, if only dimensions of size 1 are added or removed."""
        return [same_value(fusion)]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient in the shape of the input."""
        return reshape_like(g, dy, op.inputs[0]), None


def _static_shape(shape: Shape, given: Sequence[Dim]) -> Shape:
    """The requested sizes, with an unknown one inferred from the number of elements.

    Args:
        shape: The input's.
        given: The requested sizes; None for unknown ones.

    Raises:
        InvalidArgumentError: No number of elements fits both; with TensorFlow's message.
    """
    dims = tuple(None if dim == -1 else dim for dim in given)
    asked, free = _product(dims), dims.count(None)
    if shape is None or free > 1 or shape.count(None) > 1:
        return dims
    size, hidden = _product(shape), None in shape
    if not hidden and not free:
        if asked != size:
            raise InvalidArgumentError(
                message=f"Cannot reshape a tensor with {size} elements to shape "
                f"{bracketed(dims)} ({asked} elements)"
            )
    elif not hidden and asked:
        return tuple(_divided(size, asked) if dim is None else dim for dim in dims)
    elif not free and size:
        _divided(asked, size)  # the size of the input that is not known
    elif not hidden and free and -1 in given:  # if another size is 0: see `_resolved`
        return _resolved([dim or 0 for dim in shape], [-1 if dim is None else dim for dim in dims])
    return dims


def _product(dims: Sequence[Dim]) -> int:
    """The product of the known sizes."""
    return math.prod(dim for dim in dims if dim is not None)


def _divided(size: int, by: int) -> int:
    if size % by:
        raise InvalidArgumentError(
            message=f"Dimension size must be evenly divisible by {by} but is {size}"
        )
    return size // by


def _free_axis(dims: Sequence[int]) -> int | None:
    """The position of -1; None if there is none."""
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
    """The complete shape for reshaping `shape` to `dims`.

    If another requested size is 0, -1 is resolved from the non-zero sizes, as in TensorFlow: a
    tensor [4, 2, 0] reshaped to [-1, 2, 0] is unchanged.
    """
    free = _free_axis(dims)
    size = math.prod(shape)
    if free is None:
        if math.prod(dims) != size:
            raise InvalidArgumentError(
                message=f"Input to reshape is a tensor with {size} values, but the requested shape "
                f"has {math.prod(dims)}"
            )
        return tuple(dims)
    known = math.prod(dim for dim in dims if dim > 0)
    left = math.prod(dim for dim in shape if dim) if 0 in dims else size
    if size and (0 in dims or left % known):
        raise InvalidArgumentError(
            message=f"Input to reshape is a tensor with {size} values, but the requested shape "
            f"requires a multiple of {0 if 0 in dims else known}"
        )
    return (*dims[:free], left // known, *dims[free + 1 :])


@register
class ExpandDims(Op):
    """The tensor with a dimension of size 1 inserted at `dim`."""

    capturable = True
    host_inputs = frozenset({"dim"})
    reshapes = True
    quiet = True
    inputs = "input: T, dim: Tdim"
    outputs = "output: T"
    aliases = frozenset({"input"})
    is_view = True
    attrs = {"T": type_attr(), "Tdim": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

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
        shape = value.shape
        axis %= len(shape) + 1
        return value.reshape(*shape[:axis], 1, *shape[axis:])

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """The value itself, if only dimensions of size 1 are added or removed."""
        return [same_value(fusion)]

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

    capturable = True
    reshapes = True
    quiet = True
    inputs = "input: T"
    outputs = "output: T"
    aliases = frozenset({"input"})
    is_view = True
    attrs = {"T": type_attr(), "squeeze_dims": list_attr("int", [])}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The remaining shape; unknown if it is not known which sizes are 1."""
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

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """The value itself, if only dimensions of size 1 are added or removed."""
        return [same_value(fusion)]

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
