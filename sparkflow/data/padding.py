"""The shapes and values for padding batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.data import nest, structure
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.dtypes import int64


def padded_shapes(element: Any, wanted: Any, batch: int | None) -> tuple[list[Tensor], Any]:
    """Returns the shape of each component in a batch as a tensor, and the structure of batches.

    Raises:
        ValueError: A shape is incompatible with its component, or is required but missing.
        TypeError: A component is sparse.
    """
    flat = nest.flatten(element)
    if wanted is None:
        for component in flat:
            if component.shape is None:
                raise ValueError(
                    "You must provide `padded_shapes` argument because component has unknown rank."
                )
        given = [TensorShape(component.shape) for component in flat]
    else:
        given = nest.flatten_up_to(element, wanted)
    tensors, components = [], []
    for component, each in zip(flat, given, strict=True):
        if component.kind != "tensor":
            raise TypeError("Batching of padded sparse tensors is not currently supported")
        tensor = _shape_tensor(each)
        value = constant_value(tensor)
        if value is None:
            rank = tensor._shape[0] if tensor._shape else None
            known: Any = None if rank is None else (None,) * rank
        else:
            known = tuple(None if size < 0 else int(size) for size in value.tolist())
        if not _is_large_enough(component.shape, known):
            raise ValueError(
                f"The padded shape {TensorShape(known)} is not compatible with the "
                f"corresponding input component shape {TensorShape(component.shape)}."
            )
        tensors.append(tensor)
        components.append(component.with_shape(shapes.concatenate((batch,), known)))
    return tensors, nest.pack_as(element, components)


def _shape_tensor(shape: Any) -> Tensor:
    if isinstance(shape, Symbolic):
        given = convert_to_tensor(shape)
        if given._shape is not None and len(given._shape) != 1:
            raise ValueError(
                f"Padded shape {given} must be a 1-D tensor of tf.int64 values, but its shape was "
                f"{given.shape}."
            )
        if given.dtype is not int64:
            raise TypeError(
                f"Padded shape {given} must be a 1-D tensor of tf.int64 values, but its element "
                f"type was {given.dtype.name}."
            )
        return given
    if isinstance(shape, list | tuple):
        shape = [None if isinstance(size, int) and size == -1 else size for size in shape]
    sizes = [-1 if size is None else size for size in TensorShape(shape).as_list()]
    return convert_to_tensor(np.array(sizes, np.int64))


def _is_large_enough(shape: shapes.Shape, padded: shapes.Shape) -> bool:
    if shape is None or padded is None:
        return True
    if len(shape) != len(padded):
        return False
    pairs = zip(shape, padded, strict=True)
    return all(size is None or most is None or size <= most for size, most in pairs)


def padding_values(element: Any, wanted: Any) -> list[Tensor]:
    """Returns the padding value of each component.

    Raises:
        TypeError: A value has another dtype.
        ValueError: A value is not a scalar.
    """
    flat = nest.flatten(element)
    if wanted is None:
        return [_default(component) for component in flat]
    given = (
        [wanted] * len(flat) if not nest.is_nested(wanted) else nest.flatten_up_to(element, wanted)
    )
    pairs = zip(flat, given, strict=True)
    return [
        _default(component) if value is None else _value(component, value)
        for component, value in pairs
    ]


def _default(component: structure.Component) -> Tensor:
    if component.dtype is dtypes.string:
        return convert_to_tensor(b"")
    return convert_to_tensor(np.zeros((), component.dtype.as_numpy_dtype))


def _value(component: structure.Component, value: Any) -> Tensor:
    tensor = convert_to_tensor(value, name="padding_value")
    if tensor._shape not in ((), None):
        raise ValueError(f"Padding value should be a scalar, but is not: shape {tensor.shape}")
    if tensor.dtype.base is not component.dtype:
        raise TypeError(
            f"Padding value tensor ({tensor}) does not match output type: {component.dtype.name}"
        )
    return tensor
