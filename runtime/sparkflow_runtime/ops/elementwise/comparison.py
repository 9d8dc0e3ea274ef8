"""Comparisons, logic, and choosing between tensors by a condition.

Gradients flow through the two `Select` ops only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.codegen.strings.parts import equal
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.elementwise.broadcast_gradient import sum_to_operands
from sparkflow_runtime.ops.elementwise.elementwise_table import BinaryOp, UnaryOp, enter
from sparkflow_runtime.ops.fusion import Fused, Fusion
from sparkflow_runtime.ops.inference import merged
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.choosing import choose, fill_chosen
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import Attr, bool_attr, float_attr, type_attr
from sparkflow_runtime.ops.value import moving
from sparkflow_runtime.shapes import Shape

_FIXED_BOOL = "x: bool, y: bool"

for _name, _sign in (
    ("Less", "<"),
    ("LessEqual", "<="),
    ("Greater", ">"),
    ("GreaterEqual", ">="),
):
    enter(
        BinaryOp,
        _name,
        {"T": type_attr(dtypes.REAL)},
        f"x {_sign} y",
        outputs="z: bool",
        flops=1,
    )

for _name, _sign in (("LogicalAnd", "&"), ("LogicalOr", "|")):
    enter(
        BinaryOp,
        _name,
        {},
        f"x {_sign} y",
        inputs=_FIXED_BOOL,
        outputs="z: bool",
        commutative=True,
    )
enter(UnaryOp, "LogicalNot", {}, "~x", inputs="x: bool", outputs="y: bool")

for _name in ("IsNan", "IsInf", "IsFinite"):
    _attrs: dict[str, Attr] = {"T": type_attr(dtypes.FLOATING)}
    enter(UnaryOp, _name, _attrs, f"{_name.lower()}(x)", outputs="y: bool")


class EqualityOp(BinaryOp):
    """`==` or `!=`, for every dtype; optionally also for tensors that cannot be broadcast."""

    outputs = "z: bool"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The broadcast shape; a scalar for incompatible shapes if that is not an error."""
        if node.attrs["incompatible_shape_error"]:
            return super().infer(node)
        if not all(map(shapes.is_fully_defined, node.shapes)):
            return [None]
        try:
            return super().infer(node)
        except InvalidArgumentError:
            return [()]

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """The bare ufunc, if shapes must be compatible."""
        if node.attrs["T"] is dtypes.string or not node.attrs["incompatible_shape_error"]:
            return None
        return super().bind_out(node, context)

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The bare ufunc, unless incompatible shapes mean "not equal"."""
        compare = super().bind(node, context)
        if node.attrs["T"] is dtypes.string:
            compare = functools.partial(_compared, self.kernel == "not_equal")
        if node.attrs["incompatible_shape_error"]:
            return compare
        different = context.xp.asarray(self.kernel == "not_equal")

        def compare_any(x: Array, y: Array) -> Any:
            try:
                np.broadcast_shapes(x.shape, y.shape)
            except ValueError:
                return different
            return compare(x, y)

        return compare_any


def _compared(is_unequal: bool, x: Array, y: Array) -> Array:
    """Whether strings are equal, or are not."""
    if x.shape != y.shape:
        if not y.ndim:
            y = _repeated(y, x.shape)
        elif not x.ndim:
            x = _repeated(x, y.shape)
        else:
            x, y = np.broadcast_arrays(x, y)
    found = equal(*(np.ascontiguousarray(each).reshape(-1) for each in (x, y))).reshape(x.shape)
    return ~found if is_unequal else found


def _repeated(text: Array, shape: tuple[int, ...]) -> Array:
    """An array of this shape with the same string everywhere; sooner than by `np.broadcast_to`."""
    result = np.empty(shape, np.object_)
    result.fill(text[()])
    return result


for _name, _sign in (("Equal", "=="), ("NotEqual", "!=")):
    enter(
        EqualityOp,
        _name,
        {"T": type_attr(dtypes.ALL), "incompatible_shape_error": bool_attr(True)},
        f"x {_sign} y",
        kernels={"CPU": None, "GPU": dtypes.PLAIN},
        commutative=True,
        flops=1,
    )

_HAS_DISTANCE = dtypes.FLOATING | dtypes.SIGNED | dtypes.COMPLEX


@register
class ApproximateEqual(Op):
    """`|x - y| <= tolerance` of tensors of one shape; nothing is broadcast."""

    elementwise = True
    inputs = "x: T, y: T"
    outputs = "z: bool"
    attrs = {"T": type_attr(dtypes.NUMERIC), "tolerance": float_attr(1e-5)}
    kernels = {"CPU": _HAS_DISTANCE, "GPU": _HAS_DISTANCE}
    gradient = not_differentiable
    infer = merged

    def compute(self, xp: Any, x: Array, y: Array, *, tolerance: float) -> Array:
        """A boolean array.

        Raises:
            InvalidArgumentError: The shapes differ.
        """
        if x.shape != y.shape:
            raise InvalidArgumentError(
                message=f"ApproximateEqual takes tensors of one shape, got {shapes.text(x.shape)} "
                f"and {shapes.text(y.shape)}"
            )
        return xp.less_equal(xp.absolute(x - y), tolerance)


@register
class Select(Op):
    """`t` where the condition holds, `e` elsewhere.

    The condition has the shape of `t` and `e`, or is a scalar, or a vector that chooses rows.
    """

    tolerates_rounding = True
    elementwise = True
    capturable = True
    inputs = "condition: bool, t: T, e: T"
    outputs = "output: T"
    attrs = {"T": type_attr(dtypes.ALL)}
    kernels = {"CPU": None, "GPU": dtypes.PLAIN}
    value_rule = moving(1, 2, alike=True)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The merged static shape of `t` and `e`."""
        condition = node.shapes[0]
        result = shapes.merge(node.shapes[1], node.shapes[2])
        if condition == () or condition is None or result is None:
            return [result]
        if len(condition) == 1 and len(result) > 1:
            _check_condition(condition, result, result[:1])
            return [(shapes.merge_dims(condition[0], result[0]), *result[1:])]
        _check_condition(condition, result, result)
        return [shapes.merge(condition, result)]

    def compute(self, xp: Any, condition: Array, t: Array, e: Array) -> Array:
        """A new array."""
        return choose(xp, _fitting_condition(condition, t, e), t, e)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The choice."""

        def run(condition: Array, t: Array, e: Array, out: Array) -> None:
            fill_chosen(_fitting_condition(condition, t, e), t, e, out)

        return run

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """A selection of elements or rows."""
        if len(fusion.shapes[0]) in (0, len(fusion.shapes[1])):
            return _fused_choice(fusion)
        shape = fusion.output_shapes[0]
        dims = fusion.align(shape, (1, 2))
        condition = fusion.input(0, dims[:1])
        t, e = (fusion.input(number, dims) for number in (1, 2))
        return [Fused(fusion.builder.call("where", condition, t, e), shape, dims)]

    def gradient(
        self, g: GraphBuilder, op: OperationView, dy: Tensor
    ) -> tuple[None, Tensor, Tensor]:
        """To the tensor that was chosen."""
        condition = op.inputs[0]
        zeros = g.ZerosLike(dy)
        return None, g.Select(condition, dy, zeros), g.Select(condition, zeros, dy)


def _fitting_condition(condition: Array, t: Array, e: Array) -> Array:
    """Reshapes the condition to broadcast against both."""
    if t.shape != e.shape:
        raise InvalidArgumentError(
            message=f"Select needs t and e of the same shape, got {shapes.text(t.shape)} "
            f"and {shapes.text(e.shape)}"
        )
    if condition.ndim == 1 and t.ndim > 1:
        _check_condition(condition.shape, t.shape, t.shape[:1])
        return condition.reshape(-1, *(1,) * (t.ndim - 1))
    if condition.ndim:
        _check_condition(condition.shape, t.shape, t.shape)
    return condition


def _check_condition(condition: Shape, chosen: Shape, expected: Shape) -> None:
    if not shapes.is_compatible(condition, expected):
        raise InvalidArgumentError(
            message=f"The condition of Select must be a scalar, a vector along the first axis of t "
            f"or of the shape of t; got {shapes.text(condition)} for t {shapes.text(chosen)}"
        )


def _fused_choice(fusion: Fusion) -> Sequence[Fused]:
    shape = fusion.output_shapes[0]
    dims = fusion.align(shape, range(3))
    condition, t, e = (fusion.input(number, dims) for number in range(3))
    return [Fused(fusion.builder.call("where", condition, t, e), shape, dims)]


@register
class SelectV2(Op):
    """`t` where the condition holds, `e` elsewhere; all three are broadcast as in numpy."""

    elementwise = True
    broadcasts = True
    capturable = True
    inputs = "condition: bool, t: T, e: T"
    outputs = "output: T"
    attrs = {"T": type_attr(dtypes.ALL)}
    kernels = {"CPU": None, "GPU": dtypes.PLAIN}
    value_rule = moving(1, 2)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The broadcast shape."""
        condition, t, e = node.shapes
        return [shapes.broadcast(shapes.broadcast(t, e), condition)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The choice."""
        return functools.partial(choose, context.xp)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The choice."""
        return fill_chosen

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """A choice."""
        return _fused_choice(fusion)

    def gradient(
        self, g: GraphBuilder, op: OperationView, dy: Tensor
    ) -> tuple[None, Tensor | None, Tensor | None]:
        """To the tensor that was chosen, summed where it was repeated."""
        condition, t, e = op.inputs
        output = op.outputs[0]
        zero = g.const(0, dy.dtype.base)
        dt, _ = sum_to_operands(g, t, output, g.SelectV2(condition, dy, zero), None)
        de, _ = sum_to_operands(g, e, output, g.SelectV2(condition, zero, dy), None)
        return None, dt, de
