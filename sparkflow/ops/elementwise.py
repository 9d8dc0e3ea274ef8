"""Elementwise arithmetic and mathematical functions.

Two-argument functions broadcast as numpy does. The dtype of the first argument decides how a Python
number in the second is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.graph.dispatch import of_stored_values, or_ragged
from sparkflow.graph.indexed_slices import IndexedSlices
from sparkflow.graph.operators import Symbolic, true_divide
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, operand
from sparkflow.graph.sparse_tensor import SparseTensor
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.tensor_shape import TensorShape
from sparkflow.ops.complex import complex_abs
from sparkflow_runtime.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    complex64,
    complex128,
    float32,
    float64,
    int32,
    int64,
    string,
)


def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X + y, elementwise; texts are joined."""
    graph = graph_of((x, y))
    with graph.as_default():
        left, node = operand(x, "x", name or "Add", _dtype_of(x, y))
        op_type = "Add" if left.dtype.base is string else "AddV2"
        result: Tensor = apply_op(op_type, left, y, name=node)
        return result


def _dtype_of(value: Any, other: Any) -> Any:
    """The dtype that a value gets beside another operand; None for its own."""
    if isinstance(value, Symbolic) or not isinstance(other, Symbolic):
        return None
    return other._to_tensor().dtype.base


def subtract(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X - y, elementwise."""
    result: Tensor = apply_op("Sub", x, y, name=name or "Sub")
    return result


def multiply(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X * y, elementwise."""
    result: Tensor = apply_op("Mul", x, y, name=name or "Mul")
    return result


def floormod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder with the sign of y."""
    result: Tensor = apply_op("FloorMod", x, y, name=name or "FloorMod")
    return result


def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X to the power of y, elementwise."""
    result: Tensor = apply_op("Pow", x, y, name=name or "Pow")
    return result


def maximum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The larger of the two."""
    result: Tensor = apply_op("Maximum", x, y, name=name or "Maximum")
    return result


def minimum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The smaller of the two."""
    result: Tensor = apply_op("Minimum", x, y, name=name or "Minimum")
    return result


def squared_difference(x: Any, y: Any, name: str | None = None) -> Tensor:
    """(x - y)², elementwise."""
    result: Tensor = apply_op("SquaredDifference", x, y, name=name or "SquaredDifference")
    return result


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X / y, and 0 where y is 0, elementwise."""
    result: Tensor = apply_op("DivNoNan", x, y, name=name or "div_no_nan")
    return result


def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """The angle of the point (x, y)."""
    result: Tensor = apply_op("Atan2", y, x, name=name or "Atan2")
    return result


@of_stored_values
def negative(x: Any, name: str | None = None) -> Tensor:
    """-x, elementwise."""
    result: Tensor = apply_op("Neg", x, name=name)
    return result


@of_stored_values
def sign(x: Any, name: str | None = None) -> Tensor:
    """-1, 0 or 1 by the sign of each element."""
    result: Tensor = apply_op("Sign", x, name=name)
    return result


@of_stored_values
def square(x: Any, name: str | None = None) -> Tensor:
    """x², elementwise."""
    result: Tensor = apply_op("Square", x, name=name)
    return result


@of_stored_values
def sqrt(x: Any, name: str | None = None) -> Tensor:
    """The square root of each element."""
    result: Tensor = apply_op("Sqrt", x, name=name)
    return result


def rsqrt(x: Any, name: str | None = None) -> Tensor:
    """1 / √x, elementwise."""
    result: Tensor = apply_op("Rsqrt", x, name=name)
    return result


def reciprocal(x: Any, name: str | None = None) -> Tensor:
    """1 / x, elementwise."""
    result: Tensor = apply_op("Reciprocal", x, name=name)
    return result


def exp(x: Any, name: str | None = None) -> Tensor:
    """E to the power of each element."""
    result: Tensor = apply_op("Exp", x, name=name)
    return result


def expm1(x: Any, name: str | None = None) -> Tensor:
    """exp(x) - 1, exact near 0."""
    result: Tensor = apply_op("Expm1", x, name=name)
    return result


def log(x: Any, name: str | None = None) -> Tensor:
    """The natural logarithm of each element."""
    result: Tensor = apply_op("Log", x, name=name)
    return result


def log1p(x: Any, name: str | None = None) -> Tensor:
    """log(1 + x), exact near 0."""
    result: Tensor = apply_op("Log1p", x, name=name)
    return result


def sin(x: Any, name: str | None = None) -> Tensor:
    """The sine of each element (radians)."""
    result: Tensor = apply_op("Sin", x, name=name)
    return result


def cos(x: Any, name: str | None = None) -> Tensor:
    """The cosine of each element (radians)."""
    result: Tensor = apply_op("Cos", x, name=name)
    return result


def tan(x: Any, name: str | None = None) -> Tensor:
    """The tangent of each element (radians)."""
    result: Tensor = apply_op("Tan", x, name=name)
    return result


def asin(x: Any, name: str | None = None) -> Tensor:
    """The inverse sine of each element."""
    result: Tensor = apply_op("Asin", x, name=name)
    return result


def acos(x: Any, name: str | None = None) -> Tensor:
    """The inverse cosine of each element."""
    result: Tensor = apply_op("Acos", x, name=name)
    return result


def atan(x: Any, name: str | None = None) -> Tensor:
    """The inverse tangent of each element."""
    result: Tensor = apply_op("Atan", x, name=name)
    return result


def asinh(x: Any, name: str | None = None) -> Tensor:
    """The inverse hyperbolic sine of each element."""
    result: Tensor = apply_op("Asinh", x, name=name)
    return result


def acosh(x: Any, name: str | None = None) -> Tensor:
    """The inverse hyperbolic cosine of each element."""
    result: Tensor = apply_op("Acosh", x, name=name)
    return result


def atanh(x: Any, name: str | None = None) -> Tensor:
    """The inverse hyperbolic tangent of each element."""
    result: Tensor = apply_op("Atanh", x, name=name)
    return result


def sinh(x: Any, name: str | None = None) -> Tensor:
    """The hyperbolic sine of each element."""
    result: Tensor = apply_op("Sinh", x, name=name)
    return result


def cosh(x: Any, name: str | None = None) -> Tensor:
    """The hyperbolic cosine of each element."""
    result: Tensor = apply_op("Cosh", x, name=name)
    return result


@of_stored_values
def tanh(x: Any, name: str | None = None) -> Tensor:
    """The hyperbolic tangent of each element."""
    result: Tensor = apply_op("Tanh", x, name=name)
    return result


def sigmoid(x: Any, name: str | None = None) -> Tensor:
    """1 / (1 + exp(-x)), elementwise."""
    result: Tensor = apply_op("Sigmoid", x, name=name)
    return result


@of_stored_values
def erf(x: Any, name: str | None = None) -> Tensor:
    """The Gauss error function of each element."""
    result: Tensor = apply_op("Erf", x, name=name)
    return result


def floor(x: Any, name: str | None = None) -> Tensor:
    """The largest integer that is not greater, elementwise."""
    result: Tensor = apply_op("Floor", x, name=name)
    return result


def ceil(x: Any, name: str | None = None) -> Tensor:
    """The smallest integer that is not less, elementwise."""
    result: Tensor = apply_op("Ceil", x, name=name)
    return result


def rint(x: Any, name: str | None = None) -> Tensor:
    """The nearest integer, halves to even, elementwise."""
    result: Tensor = apply_op("Rint", x, name=name)
    return result


def is_nan(x: Any, name: str | None = None) -> Tensor:
    """Whether each element is NaN."""
    result: Tensor = apply_op("IsNan", x, name=name)
    return result


def is_inf(x: Any, name: str | None = None) -> Tensor:
    """Whether each element is infinite."""
    result: Tensor = apply_op("IsInf", x, name=name)
    return result


def is_finite(x: Any, name: str | None = None) -> Tensor:
    """Whether each element is finite."""
    result: Tensor = apply_op("IsFinite", x, name=name)
    return result


@of_stored_values
def abs(x: Any, name: str | None = None) -> Tensor:
    """The absolute value of each element; of complex numbers a real number."""
    tensor, node = operand(x, "x", name or "Abs")
    if tensor.dtype.is_complex:
        return complex_abs(tensor, node)
    result: Tensor = apply_op("Abs", tensor, name=node)
    return result


@of_stored_values
def round(x: Any, name: str | None = None) -> Tensor:
    """The nearest integer, halves to even, elementwise; integers stay as they are."""
    tensor = convert_to_tensor(x, name="x")
    result: Tensor = tensor if tensor.dtype.is_integer else apply_op("Round", tensor, name=name)
    return result


def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X / y as Python 3 divides: integers become floating point first."""
    with graph_of((x, y)).as_default():
        tensor, node = operand(x, "x", name or "truediv", _dtype_of(x, y))
        if tensor.dtype.is_integer:
            quotient: Tensor = true_divide(tensor, y, node)
            return quotient
        result: Tensor = apply_op("RealDiv", tensor, y, name=node)
        return result


def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X / y as Python 3 divides."""
    if name is None and not isinstance(x, Symbolic):  # as TensorFlow: an operator's constant
        x = convert_to_tensor(x, _dtype_of(x, y))
    return truediv(x, y, name)


def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X / y as Python 2 divides: integers give their floored quotient."""
    with graph_of((x, y)).as_default():
        tensor, node = operand(x, "x", name or "div", _dtype_of(x, y))
        op_type = "FloorDiv" if tensor.dtype.is_integer else "RealDiv"
        result: Tensor = apply_op(op_type, tensor, y, name=node)
        return result


def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X // y, rounded towards minus infinity."""
    result: Tensor = apply_op("FloorDiv", x, y, name=name or "floordiv")
    return result


def mod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder with the sign of y."""
    return floormod(x, y, name or "FloorMod")


def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """`x` with another element type; the same tensor where it has it already."""
    wanted = as_dtype(dtype).base
    if isinstance(x, SparseTensor):
        sparse = SparseTensor(x.indices, cast(x.values, wanted, name), x.dense_shape)
        return sparse  # type: ignore[return-value]  # sparse for sparse
    if isinstance(x, IndexedSlices):
        slices = IndexedSlices(cast(x.values, wanted, name), x.indices, x.dense_shape)
        return slices  # type: ignore[return-value]  # likewise
    tensor, node = operand(x, "x", name or "Cast")
    if tensor.dtype.base is wanted:
        return tensor
    result: Tensor = apply_op("Cast", tensor, DstT=wanted, name=node)
    return result


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """`value` with another element type; what does not fit becomes its nearest value."""
    wanted = as_dtype(dtype).base
    tensor = convert_to_tensor(value, name="value")
    with graph_of((tensor,)).name_scope(name or "saturate_cast") as scope:
        if tensor.dtype.min < wanted.min:
            tensor = maximum(tensor, _bound(wanted.min, tensor.dtype.base, wanted))
        if tensor.dtype.max > wanted.max:
            tensor = minimum(tensor, _bound(wanted.max, tensor.dtype.base, wanted))
        return cast(tensor, wanted, scope)


def _bound(limit: Any, kind: DType, wanted: DType) -> Any:
    """The limit of `wanted` as a `kind`, the next number inside where there is no such."""
    number = np.asarray(limit).astype(kind.as_numpy_dtype)
    if kind.is_floating and wanted.is_integer and int(number) not in (limit, 0):
        number = np.nextafter(number, np.zeros_like(number))
    return number


def to_float(x: Any, name: str = "ToFloat") -> Tensor:
    """`x` as float32."""
    return cast(x, float32, name)


def to_double(x: Any, name: str = "ToDouble") -> Tensor:
    """`x` as float64."""
    return cast(x, float64, name)


def to_int32(x: Any, name: str = "ToInt32") -> Tensor:
    """`x` as int32."""
    return cast(x, int32, name)


def to_int64(x: Any, name: str = "ToInt64") -> Tensor:
    """`x` as int64."""
    return cast(x, int64, name)


def to_bfloat16(x: Any, name: str = "ToBFloat16") -> Tensor:
    """`x` as bfloat16."""
    return cast(x, bfloat16, name)


def to_complex64(x: Any, name: str = "ToComplex64") -> Tensor:
    """`x` as complex64."""
    return cast(x, complex64, name)


def to_complex128(x: Any, name: str = "ToComplex128") -> Tensor:
    """`x` as complex128."""
    return cast(x, complex128, name)


@or_ragged("flat")
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The elementwise sum of a list of tensors of one shape.

    Raises:
        ValueError: The list is empty.
    """
    if not isinstance(inputs, list | tuple) or not inputs:
        raise ValueError(
            "inputs must be a list of at least one Tensor/IndexedSlices with the same dtype and "
            f"shape, got {inputs!r}"
        )
    if len(inputs) == 1:
        only = convert_to_tensor(inputs[0])
        single: Tensor = apply_op("Identity", only, name=name) if name else only
        return single
    result: Tensor = apply_op("AddN", list(inputs), name=name)
    return result


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Tensor:
    """`x` times one number."""
    if isinstance(x, IndexedSlices):
        slices = IndexedSlices(scalar_mul(scalar, x.values, name), x.indices, x.dense_shape)
        return slices  # type: ignore[return-value]  # sparse for sparse
    tensor = convert_to_tensor(x, name="x")
    factor = convert_to_tensor(scalar, tensor.dtype.base, name="scalar")
    result: Tensor = apply_op("Mul", factor, tensor, name=name)
    return result


def xlogy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X log(y), and 0 where x is 0."""
    result: Tensor = apply_op("Xlogy", x, y, name=name)
    return result


def xlog1py(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X log(1 + y), and 0 where x is 0."""
    result: Tensor = apply_op("Xlog1py", x, y, name=name)
    return result


def xdivy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X / y, and 0 where x is 0."""
    result: Tensor = apply_op("Xdivy", x, y, name=name)
    return result


def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X * y, and 0 where y is 0, whatever x is."""
    result: Tensor = apply_op("MulNoNan", x, y, name=name)
    return result


def truncatediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X / y rounded towards 0."""
    result: Tensor = apply_op("TruncateDiv", x, y, name=name)
    return result


def truncatemod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder with the sign of x."""
    result: Tensor = apply_op("TruncateMod", x, y, name=name)
    return result


def realdiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X / y of floating-point or complex numbers."""
    result: Tensor = apply_op("RealDiv", x, y, name=name)
    return result


def floor_div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X / y rounded down."""
    result: Tensor = apply_op("FloorDiv", x, y, name=name)
    return result


def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    """The number next to x1 in the direction of x2."""
    result: Tensor = apply_op("NextAfter", x1, x2, name=name)
    return result


def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0."""
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name or "reciprocal_no_nan") as scope:
        tensor = convert_to_tensor(x, name="x")
        one = convert_to_tensor(1, tensor.dtype.base, "one")
        result: Tensor = apply_op("DivNoNan", one, tensor, name=scope)
        return result


def polyval(coeffs: Any, x: Any, name: str | None = None) -> Tensor:
    """The polynomial with these coefficients, the highest power's first, at `x`.

    Raises:
        ValueError: The coefficients are no list.
    """
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    graph = graph_of((x, *coeffs))
    with graph.as_default(), graph.name_scope(name or "polyval") as scope:
        at = convert_to_tensor(x, name="x")
        if not coeffs:
            zeros: Tensor = apply_op("ZerosLike", at, name=scope)
            return zeros
        numbers = [convert_to_tensor(c, at.dtype.base, f"coeff_{i}") for i, c in enumerate(coeffs)]
        total = numbers[0]
        for number in numbers[1:]:
            total = number + total * at
        return total


def accumulate_n(
    inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None
) -> Tensor:
    """The elementwise sum of a list of tensors of one shape, as `add_n`.

    Raises:
        ValueError: The list is empty, or holds tensors of different types or shapes.
        TypeError: `tensor_dtype` is another dtype than theirs.
    """
    if not isinstance(inputs, list | tuple) or not inputs:
        raise ValueError("inputs must be a list of at least one Tensor with the same dtype")
    graph = graph_of(inputs)
    with graph.as_default():
        tensors = [convert_to_tensor(each) for each in inputs]
        kinds = {each.dtype.base for each in tensors}
        if len(kinds) > 1:
            raise ValueError("inputs must be a list of at least one Tensor with the same dtype")
        merged = TensorShape(shape)
        for each in tensors:
            merged = merged.merge_with(each.shape)
        if tensor_dtype is not None and as_dtype(tensor_dtype) is not tensors[0].dtype.base:
            raise TypeError(
                f"tensor_dtype is {as_dtype(tensor_dtype).name}, but input is of type "
                f"{tensors[0].dtype.base.name}"
            )
        if len(tensors) == 1 and name is None:
            return tensors[0]
        if len(tensors) == 1:
            single: Tensor = apply_op("Identity", tensors[0], name=name)
            return single
        result: Tensor = apply_op("AccumulateNV2", tensors, shape=merged._shape, name=name)
        result.set_shape(merged)
        return result


def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """log(sigmoid(x)), exact for large -x."""
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name or "LogSigmoid") as scope:
        tensor = convert_to_tensor(x, name="x")
        result: Tensor = apply_op("Neg", apply_op("Softplus", -tensor), name=scope)
        return result
