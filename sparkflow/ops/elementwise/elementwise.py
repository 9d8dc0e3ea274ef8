"""Elementwise arithmetic and mathematical functions.

Two-argument functions broadcast as numpy does. The dtype of the first argument decides how a Python
number in the second is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.elementwise.elementwise import *  # noqa: F403
from sparkflow._generated.ops.elementwise.elementwise import floormod, maximum, minimum
from sparkflow.graph.operators import Symbolic, true_divide
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, operand, output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.dispatch import of_stored_values, or_ragged
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.graph.values.sparse_tensor import SparseTensor
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


@export("add", "math.add")
def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X + y, elementwise; texts are joined."""
    graph = graph_of((x, y))
    with graph.as_default():
        left, node = operand(x, "x", name or "Add", _dtype_of(x, y))
        op_type = "Add" if left.dtype.base is string else "AddV2"
        return output_of(op_type, left, y, name=node)


def _dtype_of(value: Any, other: Any) -> Any:
    """The dtype that a value gets beside another operand; None for its own."""
    if isinstance(value, Symbolic) or not isinstance(other, Symbolic):
        return None
    return other._to_tensor().dtype.base


@export("abs", "math.abs")
@of_stored_values
def abs(x: Any, name: str | None = None) -> Tensor:
    """The absolute value of each element; of complex numbers a real number."""
    tensor, node = operand(x, "x", name or "Abs")
    if tensor.dtype.is_complex:
        from sparkflow.ops.elementwise.complex import complex_abs

        return complex_abs(tensor, node)
    return output_of("Abs", tensor, name=node)


@export("round", "math.round")
@of_stored_values
def round(x: Any, name: str | None = None) -> Tensor:
    """The nearest integer, halves to even, elementwise; integers stay as they are."""
    tensor = convert_to_tensor(x, name="x")
    return tensor if tensor.dtype.is_integer else apply_op("Round", tensor, name=name)


@export("truediv", "math.truediv")
def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X / y as Python 3 divides: integers become floating point first."""
    with graph_of((x, y)).as_default():
        tensor, node = operand(x, "x", name or "truediv", _dtype_of(x, y))
        if tensor.dtype.is_integer:
            return true_divide(tensor, y, node)
        return output_of("RealDiv", tensor, y, name=node)


@export("divide", "math.divide")
def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X / y as Python 3 divides."""
    if name is None and not isinstance(x, Symbolic):  # as TensorFlow: an operator's constant
        x = convert_to_tensor(x, _dtype_of(x, y))
    return truediv(x, y, name)


@export("div")
def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """X / y as in Python 2: for integers, the floored quotient."""
    with graph_of((x, y)).as_default():
        tensor, node = operand(x, "x", name or "div", _dtype_of(x, y))
        op_type = "FloorDiv" if tensor.dtype.is_integer else "RealDiv"
        return output_of(op_type, tensor, y, name=node)


@export("mod", "math.mod")
def mod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder with the sign of y."""
    return floormod(x, y, name or "FloorMod")


@export("cast", "dtypes.cast")
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
    return output_of("Cast", tensor, DstT=wanted, name=node)


@export("saturate_cast", "dtypes.saturate_cast")
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


@export("to_float")
def to_float(x: Any, name: str = "ToFloat") -> Tensor:
    """`x` as float32."""
    return cast(x, float32, name)


@export("to_double")
def to_double(x: Any, name: str = "ToDouble") -> Tensor:
    """`x` as float64."""
    return cast(x, float64, name)


@export("to_int32")
def to_int32(x: Any, name: str = "ToInt32") -> Tensor:
    """`x` as int32."""
    return cast(x, int32, name)


@export("to_int64")
def to_int64(x: Any, name: str = "ToInt64") -> Tensor:
    """`x` as int64."""
    return cast(x, int64, name)


@export("to_bfloat16")
def to_bfloat16(x: Any, name: str = "ToBFloat16") -> Tensor:
    """`x` as bfloat16."""
    return cast(x, bfloat16, name)


@export("to_complex64")
def to_complex64(x: Any, name: str = "ToComplex64") -> Tensor:
    """`x` as complex64."""
    return cast(x, complex64, name)


@export("to_complex128")
def to_complex128(x: Any, name: str = "ToComplex128") -> Tensor:
    """`x` as complex128."""
    return cast(x, complex128, name)


@export("add_n", "math.add_n")
@or_ragged
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
        return apply_op("Identity", only, name=name) if name else only
    return output_of("AddN", list(inputs), name=name)


@export("scalar_mul", "math.scalar_mul")
def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Tensor:
    """`x` times one number."""
    if isinstance(x, IndexedSlices):
        slices = IndexedSlices(scalar_mul(scalar, x.values, name), x.indices, x.dense_shape)
        return slices  # type: ignore[return-value]  # sparse for sparse
    tensor = convert_to_tensor(x, name="x")
    factor = convert_to_tensor(scalar, tensor.dtype.base, name="scalar")
    return output_of("Mul", factor, tensor, name=name)


@export("math.reciprocal_no_nan")
def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0."""
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name or "reciprocal_no_nan") as scope:
        tensor = convert_to_tensor(x, name="x")
        one = convert_to_tensor(1, tensor.dtype.base, "one")
        return output_of("DivNoNan", one, tensor, name=scope)


@export("math.polyval")
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
            return output_of("ZerosLike", at, name=scope)
        numbers = [convert_to_tensor(c, at.dtype.base, f"coeff_{i}") for i, c in enumerate(coeffs)]
        total = numbers[0]
        for number in numbers[1:]:
            total = number + total * at
        return total


@export("accumulate_n", "math.accumulate_n")
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
            return output_of("Identity", tensors[0], name=name)
        result: Tensor = apply_op("AccumulateNV2", tensors, shape=merged._shape, name=name)
        result.set_shape(merged)
        return result


@export("log_sigmoid", "math.log_sigmoid")
def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """log(sigmoid(x)), exact for large -x."""
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name or "LogSigmoid") as scope:
        tensor = convert_to_tensor(x, name="x")
        return output_of("Neg", apply_op("Softplus", -tensor), name=scope)
