"""Special functions from SciPy: gamma, beta, error, zeta and Bessel functions, and integrals.

Rows as in `unary` and `binary`, without a scalar expression: SciPy's functions are called directly.
float16 is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.device.special import special_functions
from sparkflow_runtime.dtypes import FLOATING, DType, float32, float64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import OperationView, Tensor
from sparkflow_runtime.ops.elementwise.broadcast_gradient import sum_to_operands
from sparkflow_runtime.ops.elementwise.elementwise_table import binary, unary
from sparkflow_runtime.ops.elementwise.log_gamma import log_gamma
from sparkflow_runtime.ops.inference import broadcast
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.shapes import Shape

_ON_HOST: dict[str, frozenset[DType] | None] = {"CPU": None}
_AX = "a: T, x: T"


def _scipy(name: str) -> Callable[..., Array]:
    """Returns a kernel that calls a function of SciPy."""

    def kernel(xp: Any, *inputs: Array) -> Array:
        dtype = inputs[0].dtype
        if dtype.itemsize == 2:
            inputs = tuple(x.astype(np.float32) for x in inputs)
        return getattr(special_functions(xp), name)(*inputs).astype(dtype)

    return kernel


def _lgamma(xp: Any, x: Array) -> Array:
    found = log_gamma(x.astype(np.float32) if x.dtype.itemsize == 2 else x) if xp is np else None
    return _scipy("gammaln")(xp, x) if found is None else found.astype(x.dtype, copy=False)


def _times(derivative: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the gradient rule for a derivative, a function of the builder, x and y."""
    return lambda g, x, y, dy: g.Mul(dy, derivative(g, x, y))


def _over_x(limit: float, derivative: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a derivative that divides by x, with its limit at 0."""

    def rule(g: Any, x: Any, y: Any, dy: Any) -> Any:
        at_zero = g.Equal(x, 0.0)
        safe = g.SelectV2(at_zero, 1.0, x)
        return g.Mul(dy, g.SelectV2(at_zero, limit, derivative(g, safe, y)))

    return rule


def _gaussian(g: Any, x: Any, scale: float, factor: float) -> Any:
    """`scale exp(factor x²)`."""
    return g.Mul(g.Exp(g.Mul(g.Square(x), factor)), scale)


def _half_pi_square(g: Any, x: Any) -> Any:
    return g.Mul(g.Square(x), math.pi / 2)


for _name, _function, _gradient in (
    ("Digamma", "psi", _times(lambda g, x, y: g.Polygamma(g.OnesLike(x), x))),
    ("Erfc", "erfc", _times(lambda g, x, y: _gaussian(g, x, -2 / math.sqrt(math.pi), -1.0))),
    ("Erfinv", "erfinv", _times(lambda g, x, y: _gaussian(g, y, math.sqrt(math.pi) / 2, 1.0))),
    ("Ndtri", "ndtri", _times(lambda g, x, y: _gaussian(g, y, math.sqrt(2 * math.pi), 0.5))),
    ("BesselI0", "i0", _times(lambda g, x, y: g.BesselI1(x))),
    (
        "BesselI0e",
        "i0e",
        _times(lambda g, x, y: g.Sub(g.BesselI1e(x), g.Mul(g.Sign(x), y))),
    ),
    (
        "BesselI1",
        "i1",
        _over_x(0.5, lambda g, x, y: g.Sub(g.BesselI0(x), g.RealDiv(y, x))),
    ),
    (
        "BesselI1e",
        "i1e",
        _over_x(
            0.5,
            lambda g, x, y: g.Sub(g.BesselI0e(x), g.Mul(y, g.Add(g.Sign(x), g.Reciprocal(x)))),
        ),
    ),
    ("BesselJ0", "j0", _times(lambda g, x, y: g.Neg(g.BesselJ1(x)))),
    (
        "BesselJ1",
        "j1",
        _over_x(0.5, lambda g, x, y: g.Sub(g.BesselJ0(x), g.RealDiv(y, x))),
    ),
    ("BesselK0", "k0", _times(lambda g, x, y: g.Neg(g.BesselK1(x)))),
    ("BesselK0e", "k0e", _times(lambda g, x, y: g.Sub(y, g.BesselK1e(x)))),
    (
        "BesselK1",
        "k1",
        _times(lambda g, x, y: g.Sub(g.Neg(g.BesselK0(x)), g.RealDiv(y, x))),
    ),
    (
        "BesselK1e",
        "k1e",
        _times(lambda g, x, y: g.Sub(g.Mul(y, g.Sub(1.0, g.Reciprocal(x))), g.BesselK0e(x))),
    ),
    ("BesselY0", "y0", _times(lambda g, x, y: g.Neg(g.BesselY1(x)))),
    ("BesselY1", "y1", _times(lambda g, x, y: g.Sub(g.BesselY0(x), g.RealDiv(y, x)))),
):
    unary(_name, FLOATING, "", _gradient, kernel=_scipy(_function))

unary("Lgamma", FLOATING, "", _times(lambda g, x, y: g.Digamma(x)), kernel=_lgamma)
unary(
    "Expint",
    FLOATING,
    "",
    _times(lambda g, x, y: g.RealDiv(g.Exp(x), x)),
    kernel=_scipy("expi"),
    kernels=_ON_HOST,
)
unary(
    "Dawsn",
    FLOATING,
    "",
    _times(lambda g, x, y: g.Sub(1.0, g.Mul(g.Mul(x, y), 2.0))),
    kernel=_scipy("dawsn"),
    kernels=_ON_HOST,
)


def _fresnel(index: int) -> Callable[..., Array]:
    def kernel(xp: Any, x: Array) -> Array:
        wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
        return special_functions(xp).fresnel(wide)[index].astype(x.dtype)

    return kernel


unary(
    "FresnelSin",
    FLOATING,
    "",
    _times(lambda g, x, y: g.Sin(_half_pi_square(g, x))),
    kernel=_fresnel(0),
    kernels=_ON_HOST,
)
unary(
    "FresnelCos",
    FLOATING,
    "",
    _times(lambda g, x, y: g.Cos(_half_pi_square(g, x))),
    kernel=_fresnel(1),
    kernels=_ON_HOST,
)


def _spence_gradient(g: Any, x: Any, y: Any, dy: Any) -> Any:
    at_one = g.Equal(x, 1.0)
    safe = g.SelectV2(at_one, 2.0, x)
    slope = g.RealDiv(g.Log(safe), g.Sub(1.0, safe))
    return g.Mul(dy, g.SelectV2(at_one, -1.0, slope))


unary("Spence", FLOATING, "", _spence_gradient, kernel=_scipy("spence"), kernels=_ON_HOST)


def _polygamma_gradient(g: Any, a: Any, x: Any, z: Any, dz: Any) -> tuple[Any, Any]:
    return None, g.Mul(dz, g.Polygamma(g.Add(a, 1.0), x))


def _zeta_gradient(g: Any, x: Any, q: Any, z: Any, dz: Any) -> tuple[Any, Any]:
    return None, g.Mul(dz, g.Mul(g.Neg(x), g.Zeta(g.Add(x, 1.0), q)))


def _gamma_density(g: Any, a: Any, x: Any) -> Any:
    """The derivative of the lower incomplete gamma function by its upper limit."""
    power = g.Mul(g.Sub(a, 1.0), g.Log(x))
    return g.Exp(g.Sub(g.Sub(power, x), g.Lgamma(a)))


def _igamma_gradient(g: Any, a: Any, x: Any, z: Any, dz: Any) -> tuple[Any, Any]:
    return g.Mul(g.IgammaGradA(a, x), dz), g.Mul(_gamma_density(g, a, x), dz)


def _igammac_gradient(g: Any, a: Any, x: Any, z: Any, dz: Any) -> tuple[Any, Any]:
    return g.Neg(g.Mul(g.IgammaGradA(a, x), dz)), g.Neg(g.Mul(_gamma_density(g, a, x), dz))


def igamma_gradient_by_a(a: Array, x: Array) -> Array:
    """The derivative of the regularised lower incomplete gamma function P(a, x) by a.

    P(a, x) is the sum of `exp(-x) x^(a+n) / Γ(a+n+1)` over n; every term is differentiated
    (DLMF 8.7.1). Beyond the series' range the derivative is 0 to working precision.

    Args:
        a: Positive float64.
        x: Non-negative float64, of the same shape.
    """
    special = special_functions(np)
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    usual = (a > 0) & (x > 0) & np.isfinite(x) & np.isfinite(a)
    result = np.where((a > 0) & ((x == 0) | np.isposinf(x)), 0.0, np.nan)
    known_a, known_x = a[usual], x[usual]
    total = np.zeros_like(known_a)
    log_x = np.log(known_x)
    # The terms are largest at n = x - a and fall off as a Poisson distribution does.
    spread = 12 * np.sqrt(known_x) + 60
    first = np.maximum(np.floor(known_x - known_a - spread), 0.0)
    count = int((2 * spread).max(initial=0))
    for step in range(count + 1):
        n = first + step
        weight = np.exp((known_a + n) * log_x - known_x - special.gammaln(known_a + n + 1))
        total += weight * (log_x - special.psi(known_a + n + 1))
    result[usual] = total
    return result


def _igamma_grad_a(xp: Any, a: Array, x: Array) -> Array:
    return igamma_gradient_by_a(a, x).astype(a.dtype)


binary("Polygamma", FLOATING, "", _polygamma_gradient, kernel=_scipy("polygamma"), inputs=_AX)
binary("Zeta", FLOATING, "", _zeta_gradient, kernel=_scipy("zeta"), inputs="x: T, q: T")
binary("Igamma", FLOATING, "", _igamma_gradient, kernel=_scipy("gammainc"), inputs=_AX)
binary("Igammac", FLOATING, "", _igammac_gradient, kernel=_scipy("gammaincc"), inputs=_AX)
binary("IgammaGradA", FLOATING, "", kernel=_igamma_grad_a, inputs=_AX, kernels=_ON_HOST)


@register
class Betainc(Op):
    """The regularised incomplete beta function I_x(a, b); scalars are broadcast."""

    inputs = "a: T, b: T, x: T"
    outputs = "z: T"
    attrs = {"T": type_attr(FLOATING)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the non-scalar inputs."""
        merged: Shape = ()
        for shape in node.shapes:
            if shape is None:
                merged = None if merged in ((), None) else merged
            elif shape != ():
                merged = shape if merged in ((), None) else shapes.merge(merged, shape)
        return [merged]

    def compute(self, xp: Any, a: Array, b: Array, x: Array) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: Two shapes differ and neither is a scalar.
        """
        found = {each.shape for each in (a, b, x) if each.ndim}
        if len(found) > 1:
            texts = ", ".join(map(shapes.text, (a.shape, b.shape, x.shape)))
            raise InvalidArgumentError(
                message=f"Shapes of a, b and x must match or be scalars, got {texts}"
            )
        return _scipy("betainc")(xp, a, b, x)

    def gradient(self, g: Any, op: OperationView, dz: Tensor) -> Sequence[Tensor | None]:
        """With respect to x only, as in TensorFlow."""
        a, b, x = op.inputs
        beta = g.Sub(g.Add(g.Lgamma(a), g.Lgamma(b)), g.Lgamma(g.Add(a, b)))
        above = g.Mul(g.Sub(b, 1.0), g.Log1p(g.Neg(x)))
        below = g.Mul(g.Sub(a, 1.0), g.Log(x))
        density = g.Exp(g.Sub(g.Add(above, below), beta))
        dx, _ = sum_to_operands(g, x, op.outputs[0], g.Mul(dz, density), None)
        return [None, None, dx]


@register
class RandomGammaGrad(Op):
    """The derivative of a sample of a gamma distribution by its shape parameter `alpha`.

    Implicit differentiation: minus the derivative of the distribution function by alpha over the
    density (Figurnov et al., Implicit reparameterization gradients, 2018).
    """

    inputs = "alpha: T, sample: T"
    outputs = "output: T"
    attrs = {"T": type_attr(frozenset({float32, float64}))}
    kernels = _ON_HOST
    gradient = not_differentiable
    infer = broadcast

    def compute(self, xp: Any, alpha: Array, sample: Array) -> Array:
        """Of the dtype of the inputs."""
        a, x = (each.astype(np.float64) for each in (alpha, sample))
        density = np.exp((a - 1) * np.log(x) - x - special_functions(np).gammaln(a))
        return (-igamma_gradient_by_a(a, x) / density).astype(alpha.dtype)
