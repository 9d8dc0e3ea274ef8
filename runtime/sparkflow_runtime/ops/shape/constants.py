"""Constants, placeholders, identities and tensors generated from a few numbers.

Shapes of tensors are in `shape_ops`, random tensors in `random`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from sparkflow_runtime.dtypes import FLOATING, INDEX, PLAIN, REAL, int32, kernel_name, string
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.fusion import Fused, Fusion, same_value
from sparkflow_runtime.ops.inference import attribute, same_as, same_as_all
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    list_attr,
    shape_attr,
    string_attr,
    tensor_attr,
    type_attr,
)
from sparkflow_runtime.ops.static import (
    STRINGS_ON_HOST,
    all_axes,
    bracketed,
    checked_dims,
    constant_scalar,
    constant_shape,
    scalar,
    vector,
)
from sparkflow_runtime.ops.value import fixed, moving
from sparkflow_runtime.shapes import Shape, merge


@register
class Const(Op):
    """The array of attribute `value`: one read-only array for all steps."""

    outputs = "output: dtype"
    attrs = {"value": tensor_attr(), "dtype": type_attr()}
    kernels = STRINGS_ON_HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the value."""
        value, dtype = node.attrs["value"], node.attrs["dtype"]
        if value.dtype != dtype.as_numpy_dtype:
            raise InvalidArgumentError(
                message=f"Const has dtype {dtype.name} but a value of {value.dtype}"
            )
        return [value.shape]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """Puts the value on the device once."""
        value = node.attrs["value"]
        value = fixed(value) if context.xp is np else context.xp.asarray(value)
        return lambda: value


@register
class Placeholder(Op):
    """A tensor that every step must feed; `shape` constrains the fed value."""

    is_placeholder = True
    outputs = "output: dtype"
    attrs = {"dtype": type_attr(), "shape": shape_attr(None)}
    kernels = STRINGS_ON_HOST
    stateful = True  # its value depends on the step: it must be neither folded nor merged
    gradient = not_differentiable
    infer = attribute("shape")

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., NoReturn]:
        """A kernel that raises an error, since a fed placeholder does not run."""
        shape, dtype = node.attrs["shape"], node.attrs["dtype"]
        expected = f" and shape {bracketed(shape)}" if shape else ""
        message = (
            f"You must feed a value for placeholder tensor '{node.name}' with dtype "
            f"{kernel_name(dtype)}{expected}"
        )

        def unfed() -> NoReturn:
            raise InvalidArgumentError(message=message)

        return unfed


@register
class PlaceholderWithDefault(Op):
    """Its input, unless the step feeds another value of a compatible shape."""

    is_placeholder = True
    inputs = "input: dtype"
    outputs = "output: dtype"
    aliases = frozenset({"input"})
    attrs = {"dtype": type_attr(), "shape": shape_attr()}
    kernels = STRINGS_ON_HOST
    stateful = True  # for the same reason as Placeholder
    keeps_inputs = False
    is_view = True

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The attribute `shape`, which the input must fit."""
        merge(node.shapes[0], node.attrs["shape"])
        return [node.attrs["shape"]]

    def compute(self, xp: Any, value: Array) -> Array:
        """The default."""
        return value

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """Passes through to the default."""
        return (dy,)


class _PassThrough(Op):
    """One input, passed through."""

    tolerates_rounding = True
    quiet = True
    capturable = True
    passes_on = True
    inputs = "input: T"
    outputs = "output: T"
    aliases = frozenset({"input"})
    is_view = True
    attrs = {"T": type_attr()}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)
    infer = same_as(0)

    def compute(self, xp: Any, value: Array) -> Array:
        """The input itself."""
        return value

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """The value itself."""
        return [same_value(fusion)]


@register
class Identity(_PassThrough):
    """Its input; of a reference, the variable's value."""

    reads_variable = True

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """The gradient itself."""
        return (dy,)


@register
class IdentityN(Op):
    """Its inputs, one output for each."""

    quiet = True
    passes_on = True
    inputs = "input: T"
    outputs = "output: T"
    aliases = frozenset({"input"})
    is_view = True
    attrs = {"T": list_attr("type", minimum=1)}
    value_rule = moving(slice(None))
    infer = same_as_all

    def compute(self, xp: Any, *values: Array) -> tuple[Array, ...]:
        """The inputs themselves."""
        return values

    def gradient(self, g: GraphBuilder, op: OperationView, *grads: Tensor) -> tuple[Tensor, ...]:
        """Each input gets the gradient of its output."""
        return grads


@register
class StopGradient(_PassThrough):
    """Its input, through which no gradient flows."""

    gradient = not_differentiable


@register
class PreventGradient(_PassThrough):
    """Its input; a gradient through it is an error that shows `message`."""

    attrs = {"T": type_attr(), "message": string_attr("")}
    kernels = STRINGS_ON_HOST

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> NoReturn:
        """Refuses.

        Raises:
            LookupError: Always, as TensorFlow does.
        """
        raise LookupError(f"Gradient explicitly disabled. Reason: {op.attr('message')}")


@register
class NoOp(Op):
    """A no-op; exists for its control edges."""

    def compute(self, xp: Any) -> tuple[()]:
        """Does nothing."""
        return ()


@register
class CheckNumerics(Op):
    """Its input, if every element is finite."""

    checks = True
    inputs = "tensor: T"
    outputs = "output: T"
    aliases = frozenset({"tensor"})
    keeps_inputs = False
    is_view = True
    attrs = {"T": type_attr(FLOATING), "message": string_attr()}
    stateful = True  # must run whenever fetched, even if its output is not used
    infer = same_as(0)

    def compute(self, xp: Any, value: Array, *, message: str) -> Array:
        """The input itself.

        Raises:
            InvalidArgumentError: An element is infinite or NaN; the text starts with `message`.
        """
        if not xp.isfinite(value).all():
            kinds = [
                name
                for name, found in (("Inf", xp.isinf(value).any()), ("NaN", xp.isnan(value).any()))
                if found
            ]
            raise InvalidArgumentError(
                message=f"{message} : Tensor had {' and '.join(kinds)} values"
            )
        return value

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """Checks the gradient too."""
        text = "Not a number (NaN) or infinity (Inf) values detected in gradient. "
        return (g.CheckNumerics(dy, message=text + op.attr("message")),)


@register
class ZerosLike(Op):
    """Zeros of the shape and dtype of the input."""

    capturable = True
    fills = 0
    elementwise = True
    inputs = "x: T"
    outputs = "y: T"
    attrs = {"T": type_attr()}
    kernels = {"CPU": PLAIN | {string}, "GPU": PLAIN}
    gradient = not_differentiable
    infer = same_as(0)

    def compute(self, xp: Any, x: Array) -> Array:
        """zeros(shape(x)); the zero of strings is the empty string."""
        if x.dtype == object:
            return np.full(x.shape, b"", object)
        return xp.zeros(x.shape, x.dtype)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """Zeros."""
        return None if node.attrs["T"] is string else lambda x, out: out.fill(0)


@register
class OnesLike(Op):
    """Ones of the shape and dtype of the input."""

    capturable = True
    fills = 1
    elementwise = True
    inputs = "x: T"
    outputs = "y: T"
    attrs = {"T": type_attr(PLAIN)}
    gradient = not_differentiable
    infer = same_as(0)

    def compute(self, xp: Any, x: Array) -> Array:
        """ones(shape(x))."""
        return xp.ones(x.shape, x.dtype)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Ones."""
        return lambda x, out: out.fill(1)


@register
class Fill(Op):
    """A tensor of shape `dims` with every element equal to the scalar `value`."""

    capturable = True
    host_inputs = frozenset({"dims"})
    repeats = "value"
    inputs = "dims: index_type, value: T"
    outputs = "output: T"
    attrs = {"T": type_attr(), "index_type": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST
    value_rule = moving(1)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape given by `dims`."""
        node.with_rank(1, 0, "value")
        return [constant_shape(node, 0, "dims")]

    def compute(self, xp: Any, dims: Array, value: Array) -> Array:
        """The filled tensor.

        Raises:
            InvalidArgumentError: `dims` is not a vector or has a negative size, or `value` is not a
                scalar.
        """
        _check_scalar(value)
        result = xp.empty(checked_dims(vector(dims, "dims"), "dims"), value.dtype)
        result[...] = value
        return result

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The value everywhere."""

        def run(dims: Array, value: Array, out: Array) -> None:
            _check_scalar(value)
            out[...] = value

        return run

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The value gets sum(dy)."""
        return None, g.Sum(dy, all_axes(g, dy))


def _check_scalar(value: Array) -> None:
    if value.ndim != 0:
        raise InvalidArgumentError(
            message=f"value must be a scalar, got shape {bracketed(value.shape)}"
        )


@register
class Range(Op):
    """start, start + delta, start + 2·delta, ... up to but without limit."""

    inputs = "start: Tidx, limit: Tidx, delta: Tidx"
    outputs = "output: Tidx"
    attrs = {"Tidx": type_attr(REAL, int32)}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """One dimension, its size known when all three inputs are."""
        bounds = []
        for index, name in enumerate(("start", "limit", "delta")):
            node.with_rank(index, 0, name)
            bounds.append(node.value(index))
        if any(bound is None for bound in bounds):
            return [(None,)]
        return [(_range_size(*bounds),)]

    def compute(self, xp: Any, start: Array, limit: Array, delta: Array) -> Array:
        """The numbers, each as start + i·delta rounded once.

        Raises:
            InvalidArgumentError: delta is 0 or leads away from limit.
        """
        size = _range_size(start, limit, delta)
        return (start.item() + xp.arange(size) * delta.item()).astype(start.dtype)


def _range_size(start: Array, limit: Array, delta: Array) -> int:
    """The number of elements; floating-point bounds are divided in their own precision."""
    low, high, step = start.item(), limit.item(), delta.item()
    if step == 0:
        raise InvalidArgumentError(message=f"Requires delta != 0: {step}")
    if (high - low) * step < 0:
        sign, relation = (">", "<=") if step > 0 else ("<", ">=")
        raise InvalidArgumentError(
            message=f"Requires start {relation} limit when delta {sign} 0: {low}/{high}"
        )
    if isinstance(low, int):
        return int(-((high - low) // -step))
    kind = start.dtype.type
    size: int = math.ceil(abs((kind(high) - kind(low)) / kind(step)))
    return size


@register
class LinSpace(Op):
    """`num` numbers in equal steps from start to stop, both included."""

    inputs = "start: T, stop: T, num: Tidx"
    outputs = "output: T"
    attrs = {"T": type_attr(FLOATING), "Tidx": type_attr(INDEX, int32)}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """One dimension of size `num`."""
        node.with_rank(0, 0, "start")
        node.with_rank(1, 0, "stop")
        num = constant_scalar(node, 2, "num")
        return [(None if num is None else _checked_num(num),)]

    def compute(self, xp: Any, start: Array, stop: Array, num: Array) -> Array:
        """The numbers.

        Raises:
            InvalidArgumentError: num is not positive.
        """
        count = _checked_num(scalar(num, "num"))
        return xp.linspace(start.item(), stop.item(), count, dtype=start.dtype)


def _checked_num(num: int) -> int:
    if num <= 0:
        raise InvalidArgumentError(message=f"Requires num > 0: {num}")
    return num
