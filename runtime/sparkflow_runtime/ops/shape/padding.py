"""Padding tensors: with zeros, a constant, or their own mirror image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import INDEX, PLAIN, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.filling import remembering
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import string_attr, type_attr
from sparkflow_runtime.ops.static import STRINGS_ON_HOST, bracketed, shape_tensor
from sparkflow_runtime.ops.value import moving
from sparkflow_runtime.shapes import Dim, Shape

Widths = Sequence[tuple[int, int]]
"""(before, after) per dimension."""
KnownWidths = Sequence[tuple[Dim, Dim]]
"""The same, None for values unknown in the graph."""

_TPADDINGS = type_attr(INDEX, int32)


def _static_widths(node: Inference) -> tuple[tuple[Dim, ...] | None, KnownWidths | None]:
    """The input's shape and the paddings, each as far as it is known."""
    shape, paddings = node.shapes[0], node.shapes[1]
    value = node.known(1)
    if paddings is not None and (len(paddings) != 2 or paddings[1] not in (None, 2)):
        raise InvalidArgumentError(
            message=f"paddings must be a matrix with 2 columns: {bracketed(paddings)}"
        )
    rows = None if paddings is None else paddings[0]
    if shape is None:
        shape = shapes.unknown(rows)
    elif rows not in (None, len(shape)):
        raise InvalidArgumentError(
            message="The first dimension of paddings must be the rank of inputs: "
            f"{bracketed(paddings)}, {bracketed(shape)}"
        )
    if value is None:
        return shape, None
    widths = value.elements()
    return shape, _checked(list(zip(widths[::2], widths[1::2], strict=True)))


_Widths = TypeVar("_Widths", bound=KnownWidths)


def _checked(widths: _Widths) -> _Widths:
    if any(width is not None and width < 0 for pair in widths for width in pair):
        listed = [list(pair) for pair in widths]
        raise InvalidArgumentError(message=f"Paddings must be non-negative: {listed}")
    return widths


def _widths(shape: Sequence[int], paddings: Array) -> Widths:
    """The paddings of a kernel's inputs."""
    if paddings.shape != (len(shape), 2):
        raise InvalidArgumentError(
            message=f"paddings must be a matrix of shape [{len(shape)},2] for a tensor of rank "
            f"{len(shape)}, but has shape {bracketed(paddings.shape)}"
        )
    return _checked([(before, after) for before, after in paddings.tolist()])


def _padded_shape(node: Inference) -> Shape:
    shape, widths = _static_widths(node)
    if shape is None or widths is None:
        return shapes.unknown(None if shape is None else len(shape))
    return tuple(
        None if dim is None or before is None or after is None else dim + before + after
        for dim, (before, after) in zip(shape, widths, strict=True)
    )


def pad_constant(xp: Any, value: Array, widths: Widths, constant: Any) -> Array:
    """`value` with `before` and `after` elements equal to `constant` around each dimension."""
    shape = tuple(
        dim + before + after for dim, (before, after) in zip(value.shape, widths, strict=True)
    )
    result = xp.empty(shape, value.dtype)
    fill_padded(value, widths, constant, result)
    return result


def fill_padded(value: Array, widths: Widths, constant: Any, out: Array) -> None:
    """The same into an array of the padded shape; writes every element once."""
    inside = _inside(value.shape, widths)
    for axis, (before, after) in enumerate(widths):
        lead = inside[:axis]
        if before:
            out[(*lead, slice(0, before))] = constant
        if after:
            out[(*lead, slice(before + value.shape[axis], None))] = constant
    out[inside] = value


def _inside(shape: Sequence[int], widths: Widths) -> tuple[Any, ...]:
    """The index of the part inside the border."""
    return (
        *(slice(before, before + dim) for dim, (before, _) in zip(shape, widths, strict=True)),
        ...,
    )


def _inner_part(g: GraphBuilder, op: OperationView, dy: Tensor) -> Tensor:
    """The gradient without the border."""
    x, paddings = op.inputs[0], op.inputs[1]
    before, _ = g.Unpack(paddings, num=2, axis=1)
    return g.Slice(dy, before, shape_tensor(g, x, paddings.dtype))


@register
class Pad(Op):
    """A tensor with `paddings[i]` = (before, after) zeros around dimension i."""

    capturable = True
    host_inputs = frozenset({"paddings"})
    inputs = "input: T, paddings: Tpaddings"
    outputs = "output: T"
    attrs = {"T": type_attr(), "Tpaddings": _TPADDINGS}
    kernels = {"CPU": PLAIN, "GPU": PLAIN}
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Each size plus its paddings."""
        return [_padded_shape(node)]

    def compute(self, xp: Any, value: Array, paddings: Array) -> Array:
        """The padded tensor.

        Raises:
            InvalidArgumentError: Not one pair per dimension, or a negative padding.
        """
        return pad_constant(xp, value, _widths(value.shape, paddings), 0)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """As `compute`."""
        widths_of = remembering(_widths)

        def run(value: Array, paddings: Array, out: Array) -> None:
            fill_padded(value, widths_of(value.shape, paddings), 0, out)

        return run

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """dx: dy without the border."""
        return _inner_part(g, op, dy), None


@register
class PadV2(Op):
    """As `Pad`, with a given constant."""

    capturable = True
    host_inputs = frozenset({"paddings"})
    inputs = "input: T, paddings: Tpaddings, constant_values: T"
    outputs = "output: T"
    attrs = {"T": type_attr(), "Tpaddings": _TPADDINGS}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0, 2)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Each size plus its paddings."""
        node.with_rank(2, 0, "constant_values")
        return [_padded_shape(node)]

    def compute(self, xp: Any, value: Array, paddings: Array, constant_values: Array) -> Array:
        """The padded tensor.

        Raises:
            InvalidArgumentError: Not one pair per dimension, or a negative padding.
        """
        return pad_constant(xp, value, _widths(value.shape, paddings), constant_values)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """As `compute`."""
        widths_of = remembering(_widths)

        def run(value: Array, paddings: Array, constant_values: Array, out: Array) -> None:
            fill_padded(value, widths_of(value.shape, paddings), constant_values, out)

        return run

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """dx: dy without the border; none for the constant, as in TensorFlow."""
        return _inner_part(g, op, dy), None, None


_MODE = string_attr(allowed=frozenset({"REFLECT", "SYMMETRIC"}))


def _check_mirror(shape: Sequence[Dim], widths: KnownWidths, mode: str) -> None:
    """Checks the border's width against the mirrored part, with the edge only for SYMMETRIC."""
    edge = 1 if mode == "REFLECT" else 0
    for axis, (dim, pair) in enumerate(zip(shape, widths, strict=True)):
        if dim is not None and max(width or 0 for width in pair) > max(dim - edge, 0):
            relation = "less than" if edge else "no greater than"
            raise InvalidArgumentError(
                message=f"paddings must be {relation} the dimension size: "
                f"{pair[0]} and {pair[1]} for size {dim} of dimension {axis}"
            )


def _fill_mirrored(value: Array, widths: Widths, mode: str, out: Array) -> None:
    """Copies the tensor inside, then mirrors it outwards, one dimension after another."""
    _check_mirror(value.shape, widths, mode)
    edge = 1 if mode == "REFLECT" else 0
    inside = _inside(value.shape, widths)
    out[inside] = value
    for axis, ((before, after), size) in enumerate(zip(widths, value.shape, strict=True)):
        end = before + size
        low, high = before + edge, end - edge
        backwards = (*(slice(None),) * axis, slice(None, None, -1))
        out[_band(inside, axis, 0, before)] = out[_band(inside, axis, low, low + before)][backwards]
        out[_band(inside, axis, end, end + after)] = out[_band(inside, axis, high - after, high)][
            backwards
        ]


def _band(inside: tuple[Any, ...], axis: int, first: int, last: int) -> tuple[Any, ...]:
    """The index of a range of one dimension, with all of those before and the inside of others."""
    return (*(slice(None),) * axis, slice(first, last), *inside[axis + 1 :])


@register
class MirrorPad(Op):
    """A tensor padded with its mirror image.

    `REFLECT` mirrors about the edge elements (2 1 | 0 1 2 | 1 0), `SYMMETRIC` about the edges
    (1 0 | 0 1 2 | 2 1).
    """

    capturable = True
    host_inputs = frozenset({"paddings"})
    inputs = "input: T, paddings: Tpaddings"
    outputs = "output: T"
    aliases = frozenset({"input"})
    attrs = {"T": type_attr(), "Tpaddings": _TPADDINGS, "mode": _MODE}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Each size plus its paddings."""
        return [_padded_shape(node)]

    def compute(self, xp: Any, value: Array, paddings: Array, *, mode: str) -> Array:
        """The padded tensor.

        Raises:
            InvalidArgumentError: The paddings do not fit, or are wider than what can be mirrored.
        """
        widths = _widths(value.shape, paddings)
        result = xp.empty(
            tuple(dim + sum(pair) for dim, pair in zip(value.shape, widths, strict=True)),
            value.dtype,
        )
        _fill_mirrored(value, widths, mode, result)
        return result

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """As `compute`."""
        widths_of, mode = remembering(_widths), node.attrs["mode"]

        def run(value: Array, paddings: Array, out: Array) -> None:
            _fill_mirrored(value, widths_of(value.shape, paddings), mode, out)

        return run

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """dx: dy with its border folded back."""
        return g.MirrorPadGrad(dy, op.inputs[1], mode=op.attr("mode")), None


@register
class MirrorPadGrad(Op):
    """A tensor with its border folded back onto the part it mirrors, and added there."""

    capturable = True
    host_inputs = frozenset({"paddings"})
    inputs = "input: T, paddings: Tpaddings"
    outputs = "output: T"
    aliases = frozenset({"input"})
    attrs = {"T": type_attr(PLAIN), "Tpaddings": _TPADDINGS, "mode": _MODE}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Each size minus its paddings."""
        shape, widths = _static_widths(node)
        if shape is None or widths is None:
            return [shapes.unknown(None if shape is None else len(shape))]
        inner = tuple(
            None if dim is None or before is None or after is None else dim - before - after
            for dim, (before, after) in zip(shape, widths, strict=True)
        )
        _check_mirror(inner, widths, node.attrs["mode"])
        return [inner]

    def compute(self, xp: Any, value: Array, paddings: Array, *, mode: str) -> Array:
        """The folded tensor.

        Raises:
            InvalidArgumentError: The paddings do not fit, or are wider than what can be mirrored.
        """
        widths = _widths(value.shape, paddings)
        inner = [dim - sum(pair) for dim, pair in zip(value.shape, widths, strict=True)]
        _check_mirror(inner, widths, mode)
        edge = 1 if mode == "REFLECT" else 0
        for axis, (before, after) in enumerate(widths):
            if before or after:
                lead, size = (slice(None),) * axis, inner[axis]
                low = xp.flip(value[(*lead, slice(0, before))], axis)
                high = xp.flip(value[(*lead, slice(before + size, None))], axis)
                value = value[(*lead, slice(before, before + size))].copy()
                value[(*lead, slice(edge, edge + before))] += low
                value[(*lead, slice(size - edge - after, size - edge))] += high
        return value

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The mirrored gradient."""
        return g.MirrorPad(dy, op.inputs[1], mode=op.attr("mode")), None
