"""Moves elements along a dimension (roll, reverse_sequence); identities that check or promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import INDEX, REAL, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.kernels.joining import concatenated, stacked
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, shape_attr, type_attr
from sparkflow_runtime.ops.static import STRINGS_ON_HOST, bracketed, ints
from sparkflow_runtime.shapes import Dim, Shape


@register
class ReverseSequence(Op):
    """The first `seq_lengths[i]` elements along `seq_dim` of entry i of the batch reversed."""

    inputs = "input: T, seq_lengths: Tlen"
    outputs = "output: T"
    attrs = {
        "seq_dim": int_attr(),
        "batch_dim": int_attr(0),
        "T": type_attr(),
        "Tlen": type_attr(INDEX, int64),
    }
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        shape = node.shapes[0]
        length = node.with_rank(1, 1, "seq_lengths")[0]
        if shape is None:
            return [None]
        seq_dim, batch_dim = node.attrs["seq_dim"], node.attrs["batch_dim"]
        _check_sequence(shape, length, seq_dim, batch_dim)
        batch = shapes.merge_dims(shape[batch_dim], length)
        return [(*shape[:batch_dim], batch, *shape[batch_dim + 1 :])]

    def compute(
        self, xp: Any, value: Array, seq_lengths: Array, *, seq_dim: int, batch_dim: int
    ) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: A length is negative or longer than the sequences.
        """
        if seq_lengths.ndim != 1:
            raise InvalidArgumentError(
                message=f"seq_lens input must be 1-dim, not {seq_lengths.ndim}"
            )
        _check_sequence(value.shape, seq_lengths.size, seq_dim, batch_dim)
        if seq_dim == batch_dim:
            raise InvalidArgumentError(message=f"batch_dim == seq_dim == {seq_dim}")
        longest = value.shape[seq_dim]
        for index, length in enumerate(ints(seq_lengths)):
            if not 0 <= length <= longest:
                raise InvalidArgumentError(
                    message=f"seq_lens({index}) = {length} must be in [0, {longest}], the size of "
                    f"dimension {seq_dim}"
                )
        places = xp.arange(longest)[None, :]
        lengths = seq_lengths.astype(xp.int64)[:, None]
        source = xp.where(places < lengths, lengths - 1 - places, places)
        moved = xp.moveaxis(value, (batch_dim, seq_dim), (0, 1))
        turned = moved[xp.arange(seq_lengths.size)[:, None], source]
        return xp.moveaxis(turned, (0, 1), (batch_dim, seq_dim))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The same reversal of the gradient."""
        attrs = {name: op.attr(name) for name in ("seq_dim", "batch_dim")}
        return g.ReverseSequence(dy, op.inputs[1], **attrs), None


def _check_sequence(shape: Sequence[Dim], length: Dim, seq_dim: int, batch_dim: int) -> None:
    rank = len(shape)
    for name, dim in (("batch_dim", batch_dim), ("seq_dim", seq_dim)):
        if not -rank <= dim < rank:
            raise InvalidArgumentError(message=f"{name} must be < input rank: {dim} vs. {rank}")
    if None not in (length, shape[batch_dim]) and length != shape[batch_dim]:
        raise InvalidArgumentError(
            message=f"Length of seq_lengths != input.dims({batch_dim}), "
            f"({length} vs. {shape[batch_dim]})"
        )


@register
class Roll(Op):
    """Rolls elements by `shift` along the axes, wrapping around."""

    capturable = True
    host_inputs = frozenset({"shift", "axis"})
    inputs = "input: T, shift: Tshift, axis: Taxis"
    outputs = "output: T"
    attrs = {"T": type_attr(), "Tshift": type_attr(INDEX), "Taxis": type_attr(INDEX)}
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        shape = node.shapes[0]
        if shape == ():
            raise InvalidArgumentError(message="input must be 1-D or higher")
        return [shape]

    def compute(self, xp: Any, value: Array, shift: Array, axis: Array) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: `shift` and `axis` differ in size, or an axis does not exist.
        """
        if not value.ndim:
            raise InvalidArgumentError(message="input must be 1-D or higher")
        if shift.ndim > 1 or axis.ndim > 1 or shift.shape != axis.shape:
            raise InvalidArgumentError(
                message="shift and axis must have the same size, got shapes "
                f"{bracketed(shift.shape)} and {bracketed(axis.shape)}"
            )
        axes = ints(axis)
        for each in axes:
            if not -value.ndim <= each < value.ndim:
                raise InvalidArgumentError(message=f"axis {each} is out of range")
        return xp.roll(value, ints(shift), axes)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The gradient moved back."""
        _, shift, axis = op.inputs
        return g.Roll(dy, g.Neg(shift), axis), None, None


@register
class EnsureShape(Op):
    """The tensor itself, whose shape is checked against `shape` statically and at run time."""

    capturable = True
    inputs = "input: T"
    outputs = "output: T"
    aliases = frozenset({"input"})
    is_view = True
    attrs = {"shape": shape_attr(), "T": type_attr()}
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The merged static shape."""
        return [shapes.merge(node.shapes[0], node.attrs["shape"])]

    def compute(self, xp: Any, value: Array, *, shape: Shape) -> Array:
        """The value.

        Raises:
            InvalidArgumentError: It has a different shape.
        """
        if not shapes.is_compatible(shape, value.shape):
            raise InvalidArgumentError(
                message=f"Shape of tensor input {bracketed(value.shape)} is not compatible with "
                f"expected shape {bracketed(shape)}."
            )
        return value

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """The gradient itself."""
        return (dy,)


@register
class GuaranteeConst(Op):
    """The tensor itself, promised to be the same in every step."""

    inputs = "input: T"
    outputs = "output: T"
    aliases = frozenset({"input"})
    attrs = {"T": type_attr()}
    stateful = True
    keeps_inputs = False
    is_view = True
    kernels = STRINGS_ON_HOST
    infer = same_as(0)

    def compute(self, xp: Any, value: Array) -> Array:
        """The value."""
        return value


@register
class ParallelConcat(Op):
    """Tensors whose first size is 1 joined along it into a tensor of the given shape."""

    inputs = "values: N * T"
    outputs = "output: T"
    attrs = {"N": int_attr(minimum=1), "T": type_attr(), "shape": shape_attr()}
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape given.

        Raises:
            InvalidArgumentError: A value does not have the rest of that shape after a 1.
        """
        shape = node.attrs["shape"]
        if not shapes.is_fully_defined(shape):
            raise InvalidArgumentError(message="shape attr must be fully defined")
        for index, each in enumerate(node.shapes):
            if not shapes.is_compatible(each, (1, *shape[1:])):
                raise InvalidArgumentError(
                    message=f"All values must be of shape {bracketed((1, *shape[1:]))}, but "
                    f"values[{index}] has shape {bracketed(each)}"
                )
        return [shape]

    def compute(self, xp: Any, *values: Array) -> Array:
        """The joined tensor."""
        return concatenated(xp, values)


@register
class Cross(Op):
    """The cross products of vectors of length 3 in the last dimension."""

    inputs = "a: T, b: T"
    outputs = "product: T"
    attrs = {"T": type_attr(REAL)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The common shape."""
        a, b = node.shapes
        merged = shapes.merge(a, b)
        if merged is not None:
            _check_cross(merged)
        return [merged]

    def compute(self, xp: Any, a: Array, b: Array) -> Array:
        """The products.

        Raises:
            InvalidArgumentError: The shapes differ or do not end in 3.
        """
        if a.shape != b.shape:
            raise InvalidArgumentError(
                message=f"Both inputs must be of same shape: {bracketed(a.shape)} vs. "
                f"{bracketed(b.shape)}"
            )
        _check_cross(a.shape)
        a0, a1, a2 = (a[..., i] for i in range(3))
        b0, b1, b2 = (b[..., i] for i in range(3))
        return stacked(xp, [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """Da = b x dy, db = dy x a."""
        a, b = op.inputs
        return g.Cross(b, dy), g.Cross(dy, a)


def _check_cross(shape: Sequence[Dim]) -> None:
    if not shape:
        raise InvalidArgumentError(message="inputs must be at least 1-D")
    if shape[-1] not in (3, None):
        raise InvalidArgumentError(
            message=f"Cross-products are only defined for 3-element vectors, got {shape[-1]}"
        )
