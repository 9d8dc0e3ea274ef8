"""Special functions: gamma, beta, error, zeta and Bessel functions, and integrals.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/elementwise/special.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "bessel_i0",
    "bessel_i0e",
    "bessel_i1",
    "bessel_i1e",
    "bessel_j0",
    "bessel_j1",
    "bessel_k0",
    "bessel_k0e",
    "bessel_k1",
    "bessel_k1e",
    "bessel_y0",
    "bessel_y1",
    "betainc",
    "dawsn",
    "digamma",
    "erfc",
    "erfinv",
    "expint",
    "fresnel_cos",
    "fresnel_sin",
    "igamma",
    "igammac",
    "lgamma",
    "ndtri",
    "polygamma",
    "spence",
    "zeta",
]


def lgamma(x: Any, name: str | None = None) -> Tensor:
    """Log |Γ(x)|, elementwise.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Lgamma", x, name=name)
    return result


def digamma(x: Any, name: str | None = None) -> Tensor:
    """The derivative of log Γ(x), elementwise.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Digamma", x, name=name)
    return result


def erfc(x: Any, name: str | None = None) -> Tensor:
    """1 - erf(x), exact for large x.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Erfc", x, name=name)
    return result


def erfinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of erf, on (-1, 1).

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Erfinv", x, name=name)
    return result


def ndtri(x: Any, name: str | None = None) -> Tensor:
    """The quantile of the standard normal distribution, on (0, 1).

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Ndtri", x, name=name)
    return result


def bessel_i0(x: Any, name: str | None = None) -> Tensor:
    """The modified Bessel function of order 0.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselI0", x, name=name)
    return result


def bessel_i0e(x: Any, name: str | None = None) -> Tensor:
    """exp(-|x|) times `bessel_i0`.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselI0e", x, name=name)
    return result


def bessel_i1(x: Any, name: str | None = None) -> Tensor:
    """The modified Bessel function of order 1.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselI1", x, name=name)
    return result


def bessel_i1e(x: Any, name: str | None = None) -> Tensor:
    """exp(-|x|) times `bessel_i1`.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselI1e", x, name=name)
    return result


def bessel_j0(x: Any, name: str | None = None) -> Tensor:
    """The Bessel function of the first kind of order 0.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselJ0", x, name=name)
    return result


def bessel_j1(x: Any, name: str | None = None) -> Tensor:
    """The Bessel function of the first kind of order 1.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselJ1", x, name=name)
    return result


def bessel_k0(x: Any, name: str | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 0.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselK0", x, name=name)
    return result


def bessel_k0e(x: Any, name: str | None = None) -> Tensor:
    """exp(x) times `bessel_k0`.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselK0e", x, name=name)
    return result


def bessel_k1(x: Any, name: str | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 1.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselK1", x, name=name)
    return result


def bessel_k1e(x: Any, name: str | None = None) -> Tensor:
    """exp(x) times `bessel_k1`.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselK1e", x, name=name)
    return result


def bessel_y0(x: Any, name: str | None = None) -> Tensor:
    """The Bessel function of the second kind of order 0.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselY0", x, name=name)
    return result


def bessel_y1(x: Any, name: str | None = None) -> Tensor:
    """The Bessel function of the second kind of order 1.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("BesselY1", x, name=name)
    return result


def dawsn(x: Any, name: str | None = None) -> Tensor:
    """Dawson's integral: exp(-x²) times the integral of exp(t²) from 0 to x.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Dawsn", x, name=name)
    return result


def expint(x: Any, name: str | None = None) -> Tensor:
    """The exponential integral Ei.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Expint", x, name=name)
    return result


def fresnel_cos(x: Any, name: str | None = None) -> Tensor:
    """The integral of cos(πt²/2) from 0 to x.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("FresnelCos", x, name=name)
    return result


def fresnel_sin(x: Any, name: str | None = None) -> Tensor:
    """The integral of sin(πt²/2) from 0 to x.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("FresnelSin", x, name=name)
    return result


def spence(x: Any, name: str | None = None) -> Tensor:
    """The integral of log(t) / (1 - t) from 1 to x: the dilogarithm of 1 - x.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Spence", x, name=name)
    return result


def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The regularised lower incomplete gamma function P(a, x).

    Args:
        a: Tensor [...] of any floating-point type.
        x: Tensor [...] of the dtype of `a`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `a`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Igamma", a, x, name=name)
    return result


def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The regularised upper incomplete gamma function Q(a, x).

    Args:
        a: Tensor [...] of any floating-point type.
        x: Tensor [...] of the dtype of `a`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `a`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Igammac", a, x, name=name)
    return result


def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The derivative number `a` of `digamma` at x.

    Args:
        a: Tensor [...] of any floating-point type.
        x: Tensor [...] of the dtype of `a`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `a`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Polygamma", a, x, name=name)
    return result


def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """The Hurwitz zeta function: the sum of (n + q)^-x over n.

    Args:
        x: Tensor [...] of any floating-point type.
        q: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Zeta", x, q, name=name)
    return result


def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    """The regularised incomplete beta function I_x(a, b).

    Args:
        a: Tensor [...] of any floating-point type.
        b: Tensor [...] of the dtype of `a`.
        x: Tensor [...] of the dtype of `a`.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `a`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("Betainc", a, b, x, name=name)
    return result
