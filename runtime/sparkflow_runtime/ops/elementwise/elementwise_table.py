"""Turns table rows into elementwise ops: `unary` and `binary` register one op each.

A row has the type name, the allowed dtypes, a scalar expression and the gradient:

    unary("Exp", FLOATING | COMPLEX, "exp(x)", lambda g, x, y, dy: g.Mul(dy, y))

The expression may use Python's operators, numpy's functions by name, `where(condition, a, b)`,
`erf` and `sigmoid`. Fused kernels are generated from it if `codegen.ir.expressions` supports all of
it, and so is the kernel for arrays: a ufunc, which `bind` returns bare, or a function.

A row has its own kernel if that is faster, needs less memory or supports more than floating point:
the name of a ufunc that numpy and cupy share, or a function of the array module and the inputs. If
the function has another argument, `out`, it writes the result there, unless that is None, and needs
no other memory for real numbers. The expression must then agree with the kernel for floating-point
numbers, and for integers if there is no integer kernel.

Here are the two op classes. The rows are in `unary`, `binary`, `comparison` and `activation`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sparkflow_runtime.codegen.ir import expressions
from sparkflow_runtime.codegen.ir.kernel import NARROW
from sparkflow_runtime.dtypes import COMPLEX, FLOATING, DType
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.fusion import Fused, Fusion
from sparkflow_runtime.ops.inference import broadcast, same_as
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.signature import Attr, parse_args, type_attr
from sparkflow_runtime.ops.value import ELEMENTWISE

Kernel: TypeAlias = str | Callable[..., Array]
"""The name of a ufunc, or a function `(xp, *inputs)` or `(xp, *inputs, out=None)`."""
UnaryGradient: TypeAlias = Callable[[Any, Tensor, Tensor, Tensor], Tensor]
"""A function of the builder, x, y and the gradient of y; complex x and y are passed conjugated."""
BinaryGradient: TypeAlias = Callable[
    [Any, Tensor, Tensor, Tensor, Tensor], tuple[Tensor | None, Tensor | None]
]
"""A function of the builder, x, y, z and the gradient of z; results in z's shape, conjugated
likewise."""


class ElementwiseOp(Op):
    """An op that computes every element (of broadcast inputs) independently.

    Attributes:
        expression: The computation, as a scalar expression over the names of the inputs; "" if
            expressions cannot express it.
        kernel: The kernel.
        integer_kernel: The kernel for integers, if it differs.
    """

    widens = NARROW
    kernel: ClassVar[Kernel]
    integer_kernel: ClassVar[Kernel | None] = None
    expression: ClassVar[str]
    elementwise = True
    capturable = True
    value_rule = ELEMENTWISE

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The bare ufunc if there is one."""
        return self._kernel_for(context.xp, "T" in node.attrs and node.attrs["T"].is_integer)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """The bare ufunc, or the function if it accepts `out`."""
        dtype = node.attrs.get("T")
        kernel = self._kernel_for(context.xp, dtype is not None and dtype.is_integer)
        if isinstance(kernel, functools.partial) and (
            not _takes_out(kernel.func) or (dtype is not None and dtype.is_complex)
        ):
            return None
        if kernel in (np.maximum, np.minimum):  # numpy warns about a positional third argument
            return lambda x, y, out: kernel(x, y, out=out)
        return kernel

    def compute(self, xp: Any, *inputs: Array) -> Any:
        """One array."""
        return self._kernel_for(xp, inputs[0].dtype.kind in "iu")(*inputs)

    def is_fusable(self, node: NodeView) -> bool:
        """Whether fused kernels can compute the expression for this dtype."""
        op: Any = type(self)
        return _is_fusable(op, node.attrs.get("T"))

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """The expression."""
        shape = fusion.output_shapes[0]
        names = [arg.name for arg in self.signature.inputs]
        dims = fusion.align(shape, range(len(names)))
        operands = {name: fusion.input(number, dims) for number, name in enumerate(names)}
        value = expressions.apply(fusion.builder, self.expression, operands)
        return [Fused(value, shape, dims)]

    def _kernel_for(self, xp: Any, is_integer: bool) -> Callable[..., Any]:
        cls = type(self)
        kernel = cls.kernel
        if is_integer and cls.integer_kernel is not None:
            kernel = cls.integer_kernel
        if isinstance(kernel, str):
            return getattr(xp, kernel)  # type: ignore[no-any-return]  # a ufunc of Any's
        return functools.partial(kernel, xp)


@functools.cache
def _takes_out(kernel: Callable[..., Array]) -> bool:
    return "out" in inspect.signature(kernel).parameters


@functools.cache
def _is_fusable(op: type[ElementwiseOp], dtype: DType | None) -> bool:
    if dtype is not None and dtype.is_integer and op.integer_kernel is not None:
        return False
    return bool(op.expression) and expressions.supports(op.expression, dtype)


class UnaryOp(ElementwiseOp):
    """One input, one output of the same shape and dtype."""

    inputs = "x: T"
    outputs = "y: T"
    infer = same_as(0)


class BinaryOp(ElementwiseOp):
    """Two inputs of one dtype, broadcast against each other as in numpy."""

    inputs = "x: T, y: T"
    outputs = "z: T"
    broadcasts = True
    infer = broadcast


def unary(
    name: str,
    allowed: frozenset[DType],
    expression: str,
    gradient: UnaryGradient | str | None = None,
    *,
    kernel: Kernel | None = None,
    integer_kernel: Kernel | None = None,
    kernels: Mapping[str, frozenset[DType] | None] | None = None,
    **members: Any,
) -> None:
    """Registers a `UnaryOp`.

    Args:
        name: The op type.
        allowed: The dtypes of `T`.
        expression: See `ElementwiseOp`.
        gradient: A function, the name of an op of y and the gradient of y, or None if no gradient
            flows through the op.
        kernel: See `ElementwiseOp`; that of the expression when None.
        integer_kernel: See `ElementwiseOp`.
        kernels: The dtypes with a kernel per device type, if not all allowed ones have one.
        members: Class attributes that differ from those of `UnaryOp`.
    """
    rule = not_differentiable if gradient is None else _unary_gradient(gradient)
    taken = UnaryOp.kernels if kernels is None else kernels
    own: dict[str, Any] = {"gradient": rule, "integer_kernel": integer_kernel, "kernels": taken}
    own |= {"attrs": {"T": type_attr(allowed)}, **members}
    enter(UnaryOp, name, expression=expression, kernel=kernel, **own)


def binary(
    name: str,
    allowed: frozenset[DType],
    expression: str,
    gradient: BinaryGradient | None = None,
    *,
    kernel: Kernel | None = None,
    integer_kernel: Kernel | None = None,
    kernels: Mapping[str, frozenset[DType] | None] | None = None,
    **members: Any,
) -> None:
    """Registers a `BinaryOp`; arguments as for `unary`."""
    rule = not_differentiable if gradient is None else _binary_gradient(gradient)
    taken = BinaryOp.kernels if kernels is None else kernels
    own: dict[str, Any] = {"gradient": rule, "integer_kernel": integer_kernel, "kernels": taken}
    own |= {"attrs": {"T": type_attr(allowed)}, **members}
    enter(BinaryOp, name, expression=expression, kernel=kernel, **own)


def conjugated(g: GraphBuilder, tensor: Tensor) -> Tensor:
    """The complex conjugate; the tensor itself if it is real."""
    return g.Conj(tensor) if tensor.dtype.base in COMPLEX else tensor


def enter(
    base: type[ElementwiseOp],
    name: str,
    attrs: Mapping[str, Attr],
    expression: str,
    *,
    kernel: Kernel | None = None,
    **members: Any,
) -> None:
    """Registers an op that differs from its base in `members`, class attributes of `Op`."""
    documented = {"__doc__": f"Elementwise `{expression}`.", "gradient": not_differentiable}
    if kernel is None:
        inputs = parse_args(members.get("inputs", base.inputs), attrs)
        kernel = expressions.of_arrays(expression, tuple(arg.name for arg in inputs))
    own = {"attrs": attrs, "kernel": kernel, "expression": expression}
    registry.register(type(name, (base,), {**documented, **own, **members}))


def _unary_gradient(rule: UnaryGradient | str) -> Callable[..., Any]:
    def gradient(op: Op, g: GraphBuilder, node: OperationView, dy: Tensor) -> Sequence[Tensor]:
        if isinstance(rule, str):
            return [getattr(g, rule)(node.outputs[0], dy)]
        x, y = conjugated(g, node.inputs[0]), conjugated(g, node.outputs[0])
        return [rule(g, x, y, dy)]

    return gradient


def _binary_gradient(rule: BinaryGradient) -> Callable[..., Any]:
    def gradient(
        op: Op, g: GraphBuilder, node: OperationView, dz: Tensor
    ) -> Sequence[Tensor | None]:
        first, second = node.inputs
        x, y, z = (conjugated(g, each) for each in (first, second, node.outputs[0]))
        from sparkflow_runtime.ops.elementwise.broadcast_gradient import sum_to_operands

        return sum_to_operands(g, first, second, *rule(g, x, y, z, dz))

    return gradient


REAL_KERNELS_ON_GPU: Mapping[str, frozenset[DType] | None] = {"CPU": None, "GPU": FLOATING}
"""The kernels of functions that cupy supports for real numbers only."""
