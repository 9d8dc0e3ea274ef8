"""Elementwise ops of one input, one row each; see `elementwise_table`.

Activation functions are in `activation`, predicates in `comparison`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_runtime.dtypes import COMPLEX, FLOATING, INTEGER, SIGNED, complex64
from sparkflow_runtime.ops.elementwise.elementwise_table import REAL_KERNELS_ON_GPU, binary, unary
from sparkflow_runtime.ops.machine_call import CallSite, MachineCall
from sparkflow_runtime.ops.op import Array, NodeView, Op
from sparkflow_runtime.ops.signature import type_attr

_FIELD = FLOATING | COMPLEX
_SIGNED = FLOATING | SIGNED
_RECIPROCAL_KERNELS = {"CPU": _FIELD, "GPU": _FIELD}


def _sign(xp: Any, x: Array) -> Array:
    if x.dtype.kind != "c":
        return xp.sign(x)
    size = xp.abs(x)
    return xp.where(size == 0, x, x / size)


def _rsqrt(xp: Any, x: Array, out: Array | None = None) -> Array:
    return xp.reciprocal(xp.sqrt(x, out=out), out=out)


def _polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    kind = x.dtype.type
    result = kind(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + kind(coefficient)
    return result


def _erf(xp: Any, x: Array) -> Array:
    """W. J. Cody, Rational Chebyshev approximations for the error function, 1969.

    Below 0.47 a rational function of x² times x, above 1 - exp(-x²) times one of |x|.
    """
    if x.dtype.itemsize == 2:
        return _erf(xp, x.astype("float32")).astype(x.dtype)
    kind = x.dtype.type
    size = xp.minimum(xp.abs(x), kind(6.0))  # from here float64 rounds to 1; keeps powers finite
    square = size * size
    near = x * _polynomial(square, _ERF_NEAR[0]) / _polynomial(square, _ERF_NEAR[1])
    complement = xp.exp(-square)
    complement = complement * _polynomial(size, _ERF_FAR[0]) / _polynomial(size, _ERF_FAR[1])
    return xp.where(size <= kind(0.46875), near, xp.copysign(kind(1.0) - complement, x))


_ERF_NEAR = (
    (
        1.85777706184603153e-1,
        3.16112374387056560e0,
        1.13864154151050156e2,
        3.77485237685302021e2,
        3.20937758913846947e3,
    ),
    (
        1.0,
        2.36012909523441209e1,
        2.44024637934444173e2,
        1.28261652607737228e3,
        2.84423683343917062e3,
    ),
)
_ERF_FAR = (
    (
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594e0,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0,
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ),
)


def _one_minus_square(g: Any, x: Any) -> Any:
    return g.Sub(1.0, g.Square(x))


unary(
    "Neg",
    _SIGNED | COMPLEX,
    "-x",
    lambda g, x, y, dy: g.Neg(dy),
    tolerates_rounding=True,
    flops=1,
)
unary("Abs", _SIGNED, "absolute(x)", lambda g, x, y, dy: g.Mul(dy, g.Sign(x)))
unary(
    "Conj",
    COMPLEX,
    "input",
    lambda g, x, y, dy: g.Conj(dy),
    kernel="conjugate",
    inputs="input: T",
    outputs="output: T",
    attrs={"T": type_attr(COMPLEX, complex64)},
)
unary("Exp", _FIELD, "exp(x)", lambda g, x, y, dy: g.Mul(dy, y), flops=1)
unary(
    "Expm1",
    _FIELD,
    "expm1(x)",
    lambda g, x, y, dy: g.Mul(dy, g.Exp(x)),
    kernels=REAL_KERNELS_ON_GPU,
)
unary("Log", _FIELD, "log(x)", lambda g, x, y, dy: g.Mul(dy, g.Reciprocal(x)), flops=1)
unary(
    "Log1p",
    _FIELD,
    "log1p(x)",
    lambda g, x, y, dy: g.Mul(dy, g.Reciprocal(g.Add(x, 1.0))),
    kernels=REAL_KERNELS_ON_GPU,
)
unary("Sqrt", _FIELD, "sqrt(x)", "SqrtGrad", tolerates_rounding=True, flops=1)
unary("Rsqrt", _FIELD, "1 / sqrt(x)", "RsqrtGrad", kernel=_rsqrt, flops=2)
unary(
    "Square",
    FLOATING | INTEGER | COMPLEX,
    "x * x",
    lambda g, x, y, dy: g.Mul(dy, g.Mul(x, 2.0)),
    kernel="square",
    tolerates_rounding=True,
    flops=1,
)
unary(
    "Reciprocal",
    _SIGNED | COMPLEX,
    "1 / x",
    "ReciprocalGrad",
    kernel="reciprocal",
    kernels=_RECIPROCAL_KERNELS,
    flops=1,
)
unary(
    "Inv", _SIGNED | COMPLEX, "1 / x", "InvGrad", kernel="reciprocal", kernels=_RECIPROCAL_KERNELS
)
unary("Sign", _SIGNED | COMPLEX, "sign(x)", lambda g, x, y, dy: g.ZerosLike(x), kernel=_sign)


def _sine_call(is_cosine: bool) -> Callable[[Op, NodeView, CallSite], MachineCall | None]:
    """`Op.machine_call` of the sine or the cosine."""

    def call(self: Op, node: NodeView, site: CallSite) -> MachineCall | None:
        from sparkflow_runtime.codegen.cpu import trigonometry

        number = site.dtypes[0]
        if number not in trigonometry.NUMBERS:
            return None
        kernel = trigonometry.bind_sine(number, math.prod(site.shapes[0]), is_cosine)
        return MachineCall(kernel, (0,), can_fail=True)

    return call


unary(
    "Sin",
    _FIELD,
    "sin(x)",
    lambda g, x, y, dy: g.Mul(dy, g.Cos(x)),
    machine_call=_sine_call(False),
)
unary(
    "Cos",
    _FIELD,
    "cos(x)",
    lambda g, x, y, dy: g.Neg(g.Mul(dy, g.Sin(x))),
    machine_call=_sine_call(True),
)
unary(
    "Tan",
    _FIELD,
    "tan(x)",
    lambda g, x, y, dy: g.Mul(dy, g.Square(g.Reciprocal(g.Cos(x)))),
)
unary(
    "Asin",
    _FIELD,
    "arcsin(x)",
    lambda g, x, y, dy: g.Mul(dy, g.Rsqrt(_one_minus_square(g, x))),
)
unary(
    "Acos",
    _FIELD,
    "arccos(x)",
    lambda g, x, y, dy: g.Neg(g.Mul(dy, g.Rsqrt(_one_minus_square(g, x)))),
)
unary(
    "Atan",
    _FIELD,
    "arctan(x)",
    lambda g, x, y, dy: g.Mul(dy, g.Reciprocal(g.Add(g.Square(x), 1.0))),
)
unary("Sinh", _FIELD, "sinh(x)", lambda g, x, y, dy: g.Mul(dy, g.Cosh(x)))
unary("Cosh", _FIELD, "cosh(x)", lambda g, x, y, dy: g.Mul(dy, g.Sinh(x)))
unary(
    "Asinh",
    _FIELD,
    "arcsinh(x)",
    lambda g, x, y, dy: g.RealDiv(dy, g.Cosh(y)),
    kernels=REAL_KERNELS_ON_GPU,
)
unary(
    "Acosh",
    _FIELD,
    "arccosh(x)",
    lambda g, x, y, dy: g.RealDiv(dy, g.Sinh(y)),
    kernels=REAL_KERNELS_ON_GPU,
)
unary(
    "Atanh",
    _FIELD,
    "arctanh(x)",
    lambda g, x, y, dy: g.Mul(dy, g.Reciprocal(_one_minus_square(g, x))),
    kernels=REAL_KERNELS_ON_GPU,
)
unary("Floor", FLOATING, "floor(x)")
unary("Ceil", FLOATING, "ceil(x)")
unary("Round", _SIGNED, "rint(x)", integer_kernel="positive")
unary("Rint", FLOATING, "rint(x)")
unary(
    "Erf",
    FLOATING,
    "erf(x)",
    lambda g, x, y, dy: g.Mul(g.Mul(dy, 2.0 / math.sqrt(math.pi)), g.Exp(g.Neg(g.Square(x)))),
    kernel=_erf,
)


def _conjugate(xp: Any, y: Array) -> Array:
    """The conjugate of complex numbers; for others the array itself, not a copy."""
    return xp.conj(y) if y.dtype.kind == "c" else y


def _sqrt_grad(xp: Any, y: Array, dy: Array, out: Array | None = None) -> Array:
    return xp.divide(xp.multiply(dy, y.dtype.type(0.5), out=out), _conjugate(xp, y), out=out)


def _rsqrt_grad(xp: Any, y: Array, dy: Array) -> Array:
    y = _conjugate(xp, y)
    return dy * y.dtype.type(-0.5) * (y * y * y)


def _reciprocal_grad(xp: Any, y: Array, dy: Array, out: Array | None = None) -> Array:
    y = _conjugate(xp, y)
    return xp.multiply(xp.multiply(xp.negative(dy, out=out), y, out=out), y, out=out)


def _reciprocal_grad_gradient(g: Any, y: Any, dy: Any, z: Any, grad: Any) -> tuple[Any, Any]:
    return g.Mul(g.Mul(grad, dy), g.Mul(y, -2.0)), g.Neg(g.Mul(grad, g.Square(y)))


def _sqrt_grad_gradient(g: Any, y: Any, dy: Any, z: Any, grad: Any) -> tuple[Any, Any]:
    scaled = g.RealDiv(grad, y)
    return g.Neg(g.Mul(scaled, z)), g.Mul(scaled, 0.5)


def _rsqrt_grad_gradient(g: Any, y: Any, dy: Any, z: Any, grad: Any) -> tuple[Any, Any]:
    square = g.Square(y)
    return (
        g.Mul(g.Mul(grad, dy), g.Mul(square, -1.5)),
        g.Mul(grad, g.Mul(g.Mul(square, y), -0.5)),
    )


_Y_DY = "y: T, dy: T"
binary("SqrtGrad", _FIELD, "dy * 0.5 / y", _sqrt_grad_gradient, kernel=_sqrt_grad, inputs=_Y_DY)
binary(
    "RsqrtGrad",
    _FIELD,
    "dy * -0.5 * (y * y * y)",
    _rsqrt_grad_gradient,
    kernel=_rsqrt_grad,
    inputs=_Y_DY,
)
for _name in ("ReciprocalGrad", "InvGrad"):
    binary(
        _name,
        _FIELD,
        "-dy * y * y",
        _reciprocal_grad_gradient,
        kernel=_reciprocal_grad,
        inputs=_Y_DY,
    )
