"""Joins tensors along a dimension, and splits one along a dimension: concatenation and splitting.

Along a new dimension: `stacking`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import INDEX, int8, int32, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.filling import copying
from sparkflow_runtime.ops.kernels.joining import concatenated
from sparkflow_runtime.ops.native.strips import Strips
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, type_attr
from sparkflow_runtime.ops.static import (
    STRINGS_ON_HOST,
    bracketed,
    constant_scalar,
    every_gradient,
    known_sizes,
    scalar,
    vector,
)
from sparkflow_runtime.ops.value import moving
from sparkflow_runtime.shapes import Dim, Shape


class _Concatenation(Op):
    """Concatenates tensors along one dimension; the rest of their shapes must agree.

    Attributes:
        axis_index: Which input is the axis: the first or the last.
    """

    tolerates_rounding = True
    outputs = "output: T"
    kernels = STRINGS_ON_HOST
    axis_index: ClassVar[int]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The common sizes, with the sum along the axis."""
        index = range(len(node.shapes))[self.axis_index]
        axis = constant_scalar(node, index, "axis")
        return [_concatenated([s for i, s in enumerate(node.shapes) if i != index], axis)]

    def compute(self, xp: Any, *inputs: Array) -> Array:
        """The joined tensor.

        Raises:
            InvalidArgumentError: The shapes differ in another dimension, or the axis is outside.
        """
        *rest, axis_input = inputs if self.axis_index else (*inputs[1:], inputs[0])
        axis = scalar(axis_input, "axis")
        _concatenated([value.shape for value in rest], axis)
        return concatenated(xp, rest, axis)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Machine code or numpy, which rejects wrong shapes; `compute` then reports the error."""
        axis_index, strips = self.axis_index, Strips()

        def run(*arrays: Array) -> None:
            *inputs, out = arrays
            axis = inputs.pop(axis_index)
            try:
                if not strips.copy(inputs, int(axis), out):
                    np.concatenate(inputs, int(axis), out)
            except (TypeError, ValueError):
                self.compute(np, *arrays[:-1])
                raise

        return run

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Each input gets its part of dy."""
        inputs = list(op.inputs)
        axis = inputs.pop(self.axis_index)
        parts = _parts(g, inputs, axis, dy)
        return (*parts, None) if self.axis_index else (None, *parts)


def _parts(g: GraphBuilder, like: Sequence[Tensor], axis: Tensor, whole: Tensor) -> list[Tensor]:
    """`whole` cut along `axis` into pieces of the shapes of `like`."""
    position = g.value(axis)
    sizes: list[Dim] = []
    if position is not None:
        for tensor in like:
            shape = g.shape(tensor)
            sizes.append(None if shape is None else shape[int(position)])
    if sizes and None not in sizes:
        lengths = np.array(sizes, np.int32)
        return list(g.SplitV(whole, lengths, np.array(position, np.int32), num_split=len(like)))
    axis = g.FloorMod(g.Cast(axis, SrcT=axis.dtype, DstT=int32), g.Rank(whole))
    vectors = list(g.ShapeN(list(like)))
    offsets = g.ConcatOffset(axis, vectors)
    pieces = zip(offsets, vectors, strict=True)
    return [g.Slice(whole, offset, size) for offset, size in pieces]


def _concatenated(given: Sequence[Shape], axis: int | None) -> Shape:
    """The shape of the joined tensor; `axis` None when unknown."""
    known = [shape for shape in given if shape is not None]
    if not known:
        return None
    rank = len(known[0])
    for index, other in enumerate(known):
        if len(other) != rank:
            raise InvalidArgumentError(
                message=f"Shape must be rank {rank} but is rank {len(other)}: "
                f"ConcatOp : Ranks of all input tensors should match: "
                f"shape[0] = {bracketed(known[0])} vs. shape[{index}] = {bracketed(other)}"
            )
    if rank == 0:
        raise InvalidArgumentError(
            message="ConcatOp : Can't concatenate scalars (use tf.stack instead)"
        )
    if axis is None:
        return (None,) * rank
    shapes.require_at_least(
        rank,
        axis,
        f"ConcatOp : Expected concatenating dimensions in the range [{-rank}, {rank}), "
        f"but got {axis}",
    )
    axis %= rank
    total: Dim = 0
    result: list[Dim] = [None] * rank
    for index, shape in enumerate(given):
        each = (None,) * rank if shape is None else shape
        size = each[axis]
        total = None if total is None or size is None else total + size
        for dim in range(rank):
            if dim == axis:
                continue
            if result[dim] is not None and each[dim] is not None and result[dim] != each[dim]:
                raise InvalidArgumentError(
                    message=f"ConcatOp : Dimension {dim} in both shapes must be equal, but are "
                    f"{result[dim]} and {each[dim]}. Dimensions of inputs should match: "
                    f"shape[0] = {bracketed(given[0])} vs. shape[{index}] = {bracketed(shape)}"
                )
            result[dim] = each[dim] if result[dim] is None else result[dim]
    result[axis] = total
    return tuple(result)


@register
class ConcatV2(_Concatenation):
    """Tensors joined along `axis`, the last input."""

    capturable = True
    host_inputs = frozenset({"axis"})
    inputs = "values: N * T, axis: Tidx"
    attrs = {"N": int_attr(minimum=2), "T": type_attr(), "Tidx": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST
    axis_index = -1
    value_rule = moving(slice(None, -1))


@register
class Concat(_Concatenation):
    """Tensors joined along `concat_dim`, the first input."""

    capturable = True
    host_inputs = frozenset({"concat_dim"})
    inputs = "concat_dim: int32, values: N * T"
    attrs = {"N": int_attr(minimum=2), "T": type_attr()}
    kernels = STRINGS_ON_HOST
    axis_index = 0
    value_rule = moving(slice(1, None))


@register
class ConcatOffset(Op):
    """Where each of several tensors begins in their concatenation, given their shapes."""

    inputs = "concat_dim: int32, shape: N * shape_type"
    outputs = "offset: N * shape_type"
    attrs = {"N": int_attr(minimum=2), "shape_type": type_attr(INDEX, int32)}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Vectors as long as the shapes."""
        node.with_rank(0, 0, "concat_dim")
        return [node.with_rank(i, 1, "shape") for i in range(1, len(node.shapes))]

    def compute(self, xp: Any, concat_dim: Array, *vectors: Array) -> tuple[Array, ...]:
        """Zeros except for the sum of the preceding sizes at `concat_dim`.

        Raises:
            InvalidArgumentError: The shapes differ in another dimension.
        """
        axis = scalar(concat_dim, "concat_dim")
        dims = [vector(each, "shape") for each in vectors]
        rank = len(_concatenated(dims, axis) or ())
        offsets = []
        position = 0
        for each in dims:
            offset = [0] * rank
            offset[axis] = position
            position += each[axis]
            offsets.append(xp.asarray(offset, dtype=vectors[0].dtype))
        return tuple(offsets)


@register
class Split(Op):
    """`num_split` equal parts along a dimension."""

    capturable = True
    host_inputs = frozenset({"split_dim"})
    inputs = "split_dim: int32, value: T"
    outputs = "output: num_split * T"
    aliases = frozenset({"value"})
    is_view = True
    attrs = {"num_split": int_attr(minimum=1), "T": type_attr()}
    kernels = STRINGS_ON_HOST
    value_rule = moving(1)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of each part."""
        axis, shape = constant_scalar(node, 0, "split_dim"), node.shapes[1]
        parts = node.attrs["num_split"]
        if shape is None or axis is None:
            return [shapes.unknown(None if shape is None else len(shape))] * parts
        axis = _checked_split_axis(axis, len(shape))
        dim = shape[axis]
        size = None if dim is None else _equal_part(dim, parts)
        return [(*shape[:axis], size, *shape[axis + 1 :])] * parts

    def compute(
        self, xp: Any, split_dim: Array, value: Array, *, num_split: int
    ) -> tuple[Array, ...]:
        """Views of the parts.

        Raises:
            InvalidArgumentError: The dimension does not exist or has no `num_split` equal parts.
        """
        axis = _checked_split_axis(scalar(split_dim, "split_dim"), value.ndim)
        size = _equal_part(value.shape[axis], num_split)
        return _cut(value, axis, [size] * num_split)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Copies the parts."""
        return _cutting(copying(self.bind(node, context), inputs=2), value=1, axis=0, inputs=2)

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor
    ) -> tuple[Tensor | None, ...]:
        """The parts' gradients joined."""
        return None, _joined(g, op, grads, op.inputs[0])


@register
class SplitV(Op):
    """Parts of the sizes `size_splits` along a dimension; one size may be -1: the remainder."""

    capturable = True
    host_inputs = frozenset({"size_splits", "split_dim"})
    inputs = "value: T, size_splits: Tlen, split_dim: int32"
    outputs = "output: num_split * T"
    aliases = frozenset({"value"})
    is_view = True
    attrs = {
        "num_split": int_attr(minimum=1),
        "T": type_attr(),
        "Tlen": type_attr(INDEX | {int8}, int64),
    }
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of each part."""
        axis = constant_scalar(node, 2, "split_dim")
        sizes = known_sizes(node, 1, "size_splits")
        shape, parts = node.shapes[0], node.attrs["num_split"]
        length = None if sizes is None else len(sizes)
        if length not in (None, parts):
            raise InvalidArgumentError(
                message=f"size_splits has {length} elements, but num_split is {parts}"
            )
        if shape is None or axis is None:
            return [shapes.unknown(None if shape is None else len(shape))] * parts
        axis = _checked_split_axis(axis, len(shape))
        pieces: Sequence[Dim] = (
            (None,) * parts if sizes is None else _part_sizes(sizes, shape[axis])
        )
        return [(*shape[:axis], size, *shape[axis + 1 :]) for size in pieces]

    def compute(
        self, xp: Any, value: Array, size_splits: Array, split_dim: Array, *, num_split: int
    ) -> tuple[Array, ...]:
        """Views of the parts.

        Raises:
            InvalidArgumentError: The dimension does not exist or the sizes do not add up to it.
        """
        axis = _checked_split_axis(scalar(split_dim, "split_dim"), value.ndim)
        sizes = vector(size_splits, "size_splits")
        if len(sizes) != num_split:
            raise InvalidArgumentError(
                message=f"size_splits has {len(sizes)} elements, but num_split is {num_split}"
            )
        return _cut(value, axis, _part_sizes(sizes, value.shape[axis]))

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Copies the parts."""
        return _cutting(copying(self.bind(node, context), inputs=3), value=0, axis=2, inputs=3)

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor
    ) -> tuple[Tensor | None, ...]:
        """The parts' gradients joined."""
        return _joined(g, op, grads, op.inputs[2]), None, None


def _checked_split_axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise InvalidArgumentError(
            message=f"Dimension size, given by scalar input {axis} must be in range "
            f"[{-rank}, {rank}): it is split_dim"
        )
    return axis % rank


def _equal_part(dim: int, parts: int) -> int:
    if dim % parts:
        raise InvalidArgumentError(
            message=f"Dimension size must be evenly divisible by {parts} but is {dim}"
        )
    return dim // parts


def _part_sizes(sizes: Sequence[Dim], dim: Dim) -> list[Dim]:
    """The sizes with -1 replaced by the remainder of `dim`, None if that is unknown."""
    known = [size for size in sizes if size is not None]
    given = sum(size for size in known if size != -1)
    free = known.count(-1) + (len(known) < len(sizes))
    if known.count(-1) > 1 or any(size < -1 for size in known):
        raise InvalidArgumentError(
            message=f"size_splits {bracketed(sizes)} may hold one -1 and else no negative size"
        )
    if dim is not None and (given != dim if not free else given > dim):
        raise InvalidArgumentError(
            message=f"can't split axis of size {dim} into pieces of size {bracketed(sizes)}"
        )
    rest = None if dim is None or len(known) < len(sizes) else dim - given
    return [rest if size == -1 else size for size in sizes]


def _cutting(
    by_numpy: Callable[..., None], value: int, axis: int, inputs: int
) -> Callable[..., None]:
    """Splits a value by machine code if its shapes fit; otherwise numpy reports the error.

    Args:
        by_numpy: The numpy kernel.
        value: The number of the input to split.
        axis: The number of the input with the dimension.
        inputs: The number of inputs, which come before the parts.
    """
    strips = Strips(is_cut=True)

    def run(*arrays: Array) -> None:
        along = arrays[axis]
        if along.size != 1 or not strips.copy(arrays[inputs:], int(along), arrays[value]):
            by_numpy(*arrays)

    return run


def _cut(value: Array, axis: int, sizes: Sequence[Dim]) -> tuple[Array, ...]:
    before = (slice(None),) * axis
    parts = []
    start = 0
    for size in sizes:
        assert size is not None
        parts.append(value[(*before, slice(start, start + size))])
        start += size
    return tuple(parts)


def _joined(g: GraphBuilder, op: OperationView, grads: Sequence[Tensor], axis: Tensor) -> Tensor:
    """The gradients of all outputs along `axis`, zeros for outputs without."""
    complete = every_gradient(g, op, grads)
    return g.ConcatV2(complete, axis) if len(complete) > 1 else complete[0]
