"""Elementwise arithmetic and mathematical functions.

Two-argument functions broadcast as numpy does. The dtype of the first argument decides how a Python
number in the second is read.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/elementwise/elementwise.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.dispatch import of_stored_values

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "div_no_nan",
    "erf",
    "exp",
    "expm1",
    "floor",
    "floor_div",
    "floordiv",
    "floormod",
    "is_finite",
    "is_inf",
    "is_nan",
    "log",
    "log1p",
    "maximum",
    "minimum",
    "multiply",
    "multiply_no_nan",
    "negative",
    "nextafter",
    "pow",
    "realdiv",
    "reciprocal",
    "rint",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "squared_difference",
    "subtract",
    "tan",
    "tanh",
    "truncatediv",
    "truncatemod",
    "xdivy",
    "xlog1py",
    "xlogy",
]


def subtract(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x - y, elementwise.

    Args:
        x: Tensor [...] of any number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Sub", x, y, name=name)
    return result


def multiply(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * y, elementwise.

    Args:
        x: Tensor [...] of any number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Mul", x, y, name=name)
    return result


def floormod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder with the sign of y.

    Args:
        x: Tensor [...] of any real number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("FloorMod", x, y, name=name)
    return result


def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x to the power of y, elementwise.

    Args:
        x: Tensor [...] of any floating-point type, any complex type or any signed integer.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Pow", x, y, name=name)
    return result


def maximum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The larger of the two.

    Args:
        x: Tensor [...] of any real number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Maximum", x, y, name=name)
    return result


def minimum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The smaller of the two.

    Args:
        x: Tensor [...] of any real number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Minimum", x, y, name=name)
    return result


def squared_difference(x: Any, y: Any, name: str | None = None) -> Tensor:
    """(x - y)², elementwise.

    Args:
        x: Tensor [...] of any floating-point type, any complex type, int32 or int64.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("SquaredDifference", x, y, name=name)
    return result


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where y is 0, elementwise.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node (`div_no_nan` when None).

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("DivNoNan", x, y, name=name or "div_no_nan")
    return result


def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """The angle of the point (x, y).

    Args:
        y: Tensor [...] of any floating-point type.
        x: Tensor [...] of the dtype of `y`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `y`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Atan2", y, x, name=name)
    return result


@of_stored_values
def negative(x: Any, name: str | None = None) -> Tensor:
    """-x, elementwise.

    Args:
        x: Tensor [...] of any floating-point type, any complex type or any signed integer.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Neg", x, name=name)
    return result


@of_stored_values
def sign(x: Any, name: str | None = None) -> Tensor:
    """-1, 0 or 1 by the sign of each element.

    Args:
        x: Tensor [...] of any floating-point type, any complex type or any signed integer.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Sign", x, name=name)
    return result


@of_stored_values
def square(x: Any, name: str | None = None) -> Tensor:
    """x², elementwise.

    Args:
        x: Tensor [...] of any number.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Square", x, name=name)
    return result


@of_stored_values
def sqrt(x: Any, name: str | None = None) -> Tensor:
    """The square root of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Sqrt", x, name=name)
    return result


def rsqrt(x: Any, name: str | None = None) -> Tensor:
    """1 / √x, elementwise.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Rsqrt", x, name=name)
    return result


def reciprocal(x: Any, name: str | None = None) -> Tensor:
    """1 / x, elementwise.

    Args:
        x: Tensor [...] of any floating-point type, any complex type or any signed integer.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Reciprocal", x, name=name)
    return result


def exp(x: Any, name: str | None = None) -> Tensor:
    """E to the power of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Exp", x, name=name)
    return result


def expm1(x: Any, name: str | None = None) -> Tensor:
    """exp(x) - 1, exact near 0.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Expm1", x, name=name)
    return result


def log(x: Any, name: str | None = None) -> Tensor:
    """The natural logarithm of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Log", x, name=name)
    return result


def log1p(x: Any, name: str | None = None) -> Tensor:
    """log(1 + x), exact near 0.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Log1p", x, name=name)
    return result


def sin(x: Any, name: str | None = None) -> Tensor:
    """The sine of each element (radians).

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Sin", x, name=name)
    return result


def cos(x: Any, name: str | None = None) -> Tensor:
    """The cosine of each element (radians).

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Cos", x, name=name)
    return result


def tan(x: Any, name: str | None = None) -> Tensor:
    """The tangent of each element (radians).

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Tan", x, name=name)
    return result


def asin(x: Any, name: str | None = None) -> Tensor:
    """The inverse sine of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Asin", x, name=name)
    return result


def acos(x: Any, name: str | None = None) -> Tensor:
    """The inverse cosine of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Acos", x, name=name)
    return result


def atan(x: Any, name: str | None = None) -> Tensor:
    """The inverse tangent of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Atan", x, name=name)
    return result


def asinh(x: Any, name: str | None = None) -> Tensor:
    """The inverse hyperbolic sine of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Asinh", x, name=name)
    return result


def acosh(x: Any, name: str | None = None) -> Tensor:
    """The inverse hyperbolic cosine of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Acosh", x, name=name)
    return result


def atanh(x: Any, name: str | None = None) -> Tensor:
    """The inverse hyperbolic tangent of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Atanh", x, name=name)
    return result


def sinh(x: Any, name: str | None = None) -> Tensor:
    """The hyperbolic sine of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Sinh", x, name=name)
    return result


def cosh(x: Any, name: str | None = None) -> Tensor:
    """The hyperbolic cosine of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Cosh", x, name=name)
    return result


@of_stored_values
def tanh(x: Any, name: str | None = None) -> Tensor:
    """The hyperbolic tangent of each element.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Tanh", x, name=name)
    return result


def sigmoid(x: Any, name: str | None = None) -> Tensor:
    """1 / (1 + exp(-x)), elementwise.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Sigmoid", x, name=name)
    return result


@of_stored_values
def erf(x: Any, name: str | None = None) -> Tensor:
    """The Gauss error function of each element.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Erf", x, name=name)
    return result


def floor(x: Any, name: str | None = None) -> Tensor:
    """The largest integer that is not greater, elementwise.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Floor", x, name=name)
    return result


def ceil(x: Any, name: str | None = None) -> Tensor:
    """The smallest integer that is not less, elementwise.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Ceil", x, name=name)
    return result


def rint(x: Any, name: str | None = None) -> Tensor:
    """The nearest integer, halves to even, elementwise.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Rint", x, name=name)
    return result


def is_nan(x: Any, name: str | None = None) -> Tensor:
    """Whether each element is NaN.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A bool tensor of the shape of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("IsNan", x, name=name)
    return result


def is_inf(x: Any, name: str | None = None) -> Tensor:
    """Whether each element is infinite.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A bool tensor of the shape of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("IsInf", x, name=name)
    return result


def is_finite(x: Any, name: str | None = None) -> Tensor:
    """Whether each element is finite.

    Args:
        x: Tensor [...] of any floating-point type.
        name: Name of the node.

    Returns:
        A bool tensor of the shape of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("IsFinite", x, name=name)
    return result


def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x // y, rounded towards minus infinity.

    Args:
        x: Tensor [...] of any real number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node (`floordiv` when None).

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("FloorDiv", x, y, name=name or "floordiv")
    return result


def xlogy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x log(y), and 0 where x is 0.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Xlogy", x, y, name=name)
    return result


def xlog1py(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x log(1 + y), and 0 where x is 0.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Xlog1py", x, y, name=name)
    return result


def xdivy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where x is 0.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("Xdivy", x, y, name=name)
    return result


def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * y, and 0 where y is 0, whatever x is.

    Args:
        x: Tensor [...] of any floating-point type or any complex type.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("MulNoNan", x, y, name=name)
    return result


def truncatediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y rounded towards 0.

    Args:
        x: Tensor [...] of any real number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("TruncateDiv", x, y, name=name)
    return result


def truncatemod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder with the sign of x.

    Args:
        x: Tensor [...] of any floating-point type, int32 or int64.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("TruncateMod", x, y, name=name)
    return result


def realdiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y of floating-point or complex numbers.

    Args:
        x: Tensor [...] of any number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("RealDiv", x, y, name=name)
    return result


def floor_div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y rounded down.

    Args:
        x: Tensor [...] of any real number.
        y: Tensor [...] of the dtype of `x`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("FloorDiv", x, y, name=name)
    return result


def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    """The number next to x1 in the direction of x2.

    Args:
        x1: Tensor [...] of float32 or float64.
        x2: Tensor [...] of the dtype of `x1`.
        name: Name of the node.

    Returns:
        A tensor of the shape that the inputs broadcast to and the dtype of `x1`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not broadcast.
    """
    result: Tensor = apply_op("NextAfter", x1, x2, name=name)
    return result
