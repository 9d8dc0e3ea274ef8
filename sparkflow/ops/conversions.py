"""Anything as a tensor, and tensors as messages: conversion functions, make_tensor_proto."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph import constants, conversion
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.graph.values.sparse_tensor import SparseTensor, SparseTensorValue
from sparkflow_runtime import tensor_proto
from sparkflow_runtime.dtypes import as_dtype
from sparkflow_runtime.protos import tensor_pb2


@export("register_tensor_conversion_function")
def register_tensor_conversion_function(
    base_type: Any, conversion_func: Callable[..., Any], priority: int = 100
) -> None:
    """Makes values of a user's class usable wherever a tensor is expected.

    Args:
        base_type: The class, or a tuple of classes.
        conversion_func: Called as `conversion_func(value, dtype=None, name=None, as_ref=False)`;
            returns a tensor, or `NotImplemented` to let another function try.
        priority: Functions with smaller numbers are tried first.

    Raises:
        TypeError: `base_type` holds something that is no class, or the function cannot be called.
    """
    kinds = base_type if isinstance(base_type, tuple) else (base_type,)
    if not all(isinstance(kind, type) for kind in kinds):
        raise TypeError("base_type must be a type or a tuple of types.")
    if not callable(conversion_func):
        raise TypeError("conversion_func must be callable.")
    conversion.register(kinds, conversion_func, priority)


@export("is_tensor")
def is_tensor(x: Any) -> bool:
    """Whether `x` is a tensor, sparse tensor, `IndexedSlices` or variable."""
    return isinstance(x, Symbolic)


@export("convert_to_tensor_or_indexed_slices")
def convert_to_tensor_or_indexed_slices(
    value: Any, dtype: Any = None, name: str | None = None
) -> Tensor | IndexedSlices:
    """`IndexedSlices` as they are, everything else as a tensor.

    Raises:
        ValueError: `IndexedSlices` of another dtype than asked for.
    """
    if not isinstance(value, IndexedSlices):
        return convert_to_tensor(value, dtype, name)
    if dtype is not None and not as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(
            f"Tensor conversion requested dtype {as_dtype(dtype).name} for Tensor with dtype "
            f"{value.dtype.name}: {value}"
        )
    return value


@export("convert_to_tensor_or_sparse_tensor")
def convert_to_tensor_or_sparse_tensor(
    value: Any, dtype: Any = None, name: str | None = None
) -> Tensor | SparseTensor:
    """Sparse tensors (or their values) as a `SparseTensor`, everything else as a tensor.

    Raises:
        RuntimeError: A sparse tensor of another dtype than asked for.
    """
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        return convert_to_tensor(value, dtype, name)
    if dtype is not None and not as_dtype(dtype).is_compatible_with(value.dtype):
        raise RuntimeError(
            f"Sparse dtype mismatch: requested = {as_dtype(dtype).name}, "
            f"actual = {value.dtype.name}"
        )
    return value


@export("make_tensor_proto")
def make_tensor_proto(
    values: Any,
    dtype: Any = None,
    shape: Sequence[int] | None = None,
    verify_shape: bool = False,
    allow_broadcast: bool = False,
) -> tensor_pb2.TensorProto:
    """A message that holds a tensor.

    Args:
        values: A number, text, array or nested lists of those.
        dtype: Its element type; as `tf.constant` chooses when None.
        shape: Its shape; the last element is repeated where `values` has too few.
        verify_shape: Refuse values of another shape.
        allow_broadcast: Accept one value for a whole shape.

    Raises:
        TypeError: The shape is not that of the values while it is verified, or wrong values.
        ValueError: More values than the shape has elements.
    """
    if isinstance(values, tensor_pb2.TensorProto):
        return values
    array = constants.constant_array(values, None if dtype is None else as_dtype(dtype))
    if shape is not None:
        asked = tuple(int(size) for size in shape)
        if verify_shape and array.shape != asked:
            raise TypeError(f"Expected Tensor's shape: {asked}, got {array.shape}.")
        array = constants.filled(array, asked)
    return tensor_proto.export_constant(array)


@export("make_ndarray")
def make_ndarray(tensor: tensor_pb2.TensorProto) -> np.ndarray[Any, Any]:
    """The array that a message holds, a copy of its own.

    Raises:
        TypeError: Its dtype is unknown.
    """
    return tensor_proto.import_tensor(tensor).copy()


@export("is_symbolic_tensor")
def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of a graph, without a value of its own."""
    return isinstance(tensor, Tensor) and not tensor.graph.is_eager
