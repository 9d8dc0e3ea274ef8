"""Stacks tensors of one shape along a new dimension, and unstacks them: pack and unpack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_runtime import shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.filling import copying
from sparkflow_runtime.ops.kernels.joining import fill_stacked, stacked
from sparkflow_runtime.ops.native.strips import Strips
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, type_attr
from sparkflow_runtime.ops.static import (
    STRINGS_ON_HOST,
    bracketed,
    every_gradient,
)
from sparkflow_runtime.ops.value import moving
from sparkflow_runtime.shapes import Dim, Shape


@register
class Pack(Op):
    """Tensors of one shape stacked along a new dimension."""

    capturable = True
    inputs = "values: N * T"
    outputs = "output: T"
    attrs = {"N": int_attr(minimum=1), "T": type_attr(), "axis": int_attr(0)}
    kernels = STRINGS_ON_HOST
    value_rule = moving(slice(None), alike=True)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The common shape with N inserted."""
        merged: Shape = None
        for index, shape in enumerate(node.shapes):
            if merged is not None and shape is not None and not shapes.is_compatible(merged, shape):
                raise InvalidArgumentError(
                    message=f"{shapes.difference(merged, shape)}\n\tFrom merging shape "
                    f"{index - 1} with other shapes. {_pack_text(merged, shape, index)}"
                )
            merged = shapes.merge(merged, shape)
        if merged is None:
            return [None]
        axis = _checked_stack_axis(node.attrs["axis"], len(merged) + 1)
        return [(*merged[:axis], len(node.shapes), *merged[axis:])]

    def compute(self, xp: Any, *values: Array, axis: int) -> Array:
        """The stacked tensor.

        Raises:
            InvalidArgumentError: The shapes differ.
        """
        _check_same_shape(values)
        return stacked(xp, values, _checked_stack_axis(axis, values[0].ndim + 1))

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Copies one input after the other."""
        axis, strips = node.attrs["axis"], Strips(is_stacked=True)

        def run(*arrays: Array) -> None:
            *values, out = arrays
            if strips.copy(values, axis, out):
                return
            _check_same_shape(values)
            fill_stacked(values, _checked_stack_axis(axis, out.ndim), out)

        return run

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """Each input gets its slice of dy."""
        return tuple(g.Unpack(dy, num=op.attr("N"), axis=op.attr("axis")))


def _check_same_shape(values: Sequence[Array]) -> None:
    first = values[0].shape
    for index, value in enumerate(values):
        if value.shape != first:
            raise InvalidArgumentError(message=_pack_text(first, value.shape, index))


def _pack_text(first: Shape, other: Shape, index: int) -> str:
    return (
        f"Shapes of all inputs must match: values[0].shape = {bracketed(first)} "
        f"!= values[{index}].shape = {bracketed(other)}"
    )


def _checked_stack_axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise InvalidArgumentError(message=f"axis = {axis} not in [{-rank}, {rank})")
    return axis % rank


@register
class Unpack(Op):
    """The slices of a tensor along one dimension, one output for each."""

    capturable = True
    inputs = "value: T"
    outputs = "output: num * T"
    aliases = frozenset({"value"})
    is_view = True
    attrs = {"num": int_attr(minimum=0), "T": type_attr(), "axis": int_attr(0)}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape without the dimension."""
        shape, num = node.shapes[0], node.attrs["num"]
        if shape is None:
            return [None] * num
        axis = _checked_unstack(shape, node.attrs["axis"], num)
        return [shape[:axis] + shape[axis + 1 :]] * num

    def compute(self, xp: Any, value: Array, *, num: int, axis: int) -> tuple[Array, ...]:
        """Views of the slices.

        Raises:
            InvalidArgumentError: The dimension does not exist or is not of size `num`.
        """
        before = (slice(None),) * _checked_unstack(value.shape, axis, num)
        return tuple(value[(*before, i, ...)] for i in range(num))

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Copies the slices."""
        return copying(self.bind(node, context), inputs=1)

    def gradient(self, g: GraphBuilder, op: OperationView, *grads: Tensor) -> tuple[Tensor, ...]:
        """The slices' gradients stacked."""
        return (g.Pack(every_gradient(g, op, grads), axis=op.attr("axis")),)


def _checked_unstack(shape: Sequence[Dim], axis: int, num: int) -> int:
    axis = _checked_stack_axis(axis, len(shape))
    if shape[axis] not in (None, num):
        raise InvalidArgumentError(
            message=f"Dimension must be {num} but is {shape[axis]}: "
            f"Input shape axis {axis} must equal {num}, got shape {bracketed(shape)}"
        )
    return axis
