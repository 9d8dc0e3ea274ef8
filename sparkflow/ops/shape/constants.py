"""Constants, placeholders and tensors of one value."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.shape.constants import *  # noqa: F403
from sparkflow._generated.ops.shape.constants import lin_space
from sparkflow.graph import constants as values
from sparkflow.graph.constant_value import known_value
from sparkflow.graph.conversion import constant as constant_node
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import (
    apply_op,
    convert_to_tensor,
    get_default_graph,
    graph_of,
    operand,
    output_of,
)
from sparkflow.graph.shapes.tensor_shape import TensorShape, to_shape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.dispatch import or_ragged
from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType, as_dtype, float32, int32, string

_LARGEST_CONSTANT = 1000
"""Bigger tensors of one value are made by Fill when the graph runs, not stored in the graph."""


@export("constant")
def constant(
    value: Any,
    dtype: Any = None,
    shape: Any = None,
    name: str = "Const",
    verify_shape: bool = False,
) -> Tensor:
    """A tensor with a fixed value.

    Args:
        value: A number, text, array or nested lists of those.
        dtype: Its element type; float32 for Python floats and int32 for Python ints when None.
        shape: Its shape; the last element is repeated where `value` has too few.
        name: Name of the node.
        verify_shape: Refuse a `value` of another shape instead of filling up.

    Raises:
        TypeError: `value` is not of `dtype`.
        ValueError: Too many elements for `shape`.
    """
    array = values.constant_array(value, None if dtype is None else as_dtype(dtype))
    if shape is not None:
        asked = to_shape(shape)
        if asked is None or None in asked:
            raise ValueError(f"The shape of a constant must be fully defined, got {asked}")
        if verify_shape and array.shape != asked:
            raise TypeError(f"Expected Tensor's shape: {asked}, got {array.shape}.")
        array = values.filled(array, tuple(int(size or 0) for size in asked))
    return constant_node(get_default_graph(), array, name)


@export("placeholder")
def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor that must be fed when the graph runs.

    Args:
        dtype: Its element type.
        shape: Its static shape, None for any; what is fed is checked against it.
        name: Name of the node.
    """
    attrs = {"dtype": as_dtype(dtype), "shape": to_shape(shape)}
    return output_of("Placeholder", name=name, **attrs)


def of_one_value(shape: Any, value: Any, dtype: DType, name: str) -> Tensor:
    """`value` everywhere: a constant where that is small, made by Fill when it runs otherwise."""
    graph = graph_of((shape,))
    with graph.as_default(), graph.name_scope(name) as scope:
        known = None
        if not isinstance(shape, Symbolic):
            try:
                known = to_shape(shape)
            except TypeError:  # a list with tensors in it
                known = None
        number = _number(value, dtype)
        count = None if known is None else shapes.num_elements(known)
        if known is not None and count is not None and count < _LARGEST_CONSTANT:
            array = np.full(tuple(int(d or 0) for d in known), number)
            return constant_node(graph, array.astype(dtype.as_numpy_dtype), scope)
        if known is not None:
            shape = TensorShape(known)
        kind = None if isinstance(shape, Symbolic) else int32
        sizes = graph.convert(shape, kind, "shape_as_tensor")
        if sizes._shape == ():
            sizes = graph.apply("Reshape", (sizes, np.array([-1], np.int32)), {})
        result: Tensor = graph.apply(
            "Fill", (sizes, graph.convert(number, None, "Const")), {}, scope
        )
        return result


def _number(value: Any, dtype: DType) -> Any:
    if dtype is string:
        return np.asarray(b"" if not value else b"1", np.object_)
    return np.asarray(value, dtype.as_numpy_dtype)


@export("zeros")
def zeros(shape: Any, dtype: Any = float32, name: str = "zeros") -> Tensor:
    """A tensor of zeros (False, empty texts)."""
    return of_one_value(shape, 0, as_dtype(dtype).base, name)


@export("ones")
def ones(shape: Any, dtype: Any = float32, name: str = "ones") -> Tensor:
    """A tensor of ones (True)."""
    return of_one_value(shape, 1, as_dtype(dtype).base, name)


@export("zeros_like")
@or_ragged
def zeros_like(
    tensor: Any, dtype: Any = None, name: str = "zeros_like", optimize: bool = True
) -> Tensor:
    """Zeros in the shape of `tensor`."""
    like, name = operand(tensor, "tensor", name)
    kind = like.dtype.base if dtype is None else as_dtype(dtype).base
    if optimize and like.shape.is_fully_defined():
        return zeros(like.shape, kind, name)
    if kind is not like.dtype.base:
        with graph_of((like,)).name_scope(name) as scope:
            return zeros(apply_op("Shape", like), kind, scope)
    return output_of("ZerosLike", like, name=name)


@export("ones_like")
@or_ragged
def ones_like(
    tensor: Any, dtype: Any = None, name: str = "ones_like", optimize: bool = True
) -> Tensor:
    """Ones in the shape of `tensor`."""
    like, name = operand(tensor, "tensor", name)
    kind = like.dtype.base if dtype is None else as_dtype(dtype).base
    if optimize and like.shape.is_fully_defined():
        return ones(like.shape, kind, name)
    graph = like.graph
    with graph.name_scope(name) as scope:
        sizes = graph.apply("Shape", (like,), {})
        result: Tensor = graph.apply("Fill", (sizes, graph.convert(_number(1, kind))), {}, scope)
        return result


@export("range")
def range(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range"
) -> Tensor:
    """The numbers from `start` up to but not including `limit` in steps of `delta`."""
    if limit is None:
        start, limit = 0, start
    graph = graph_of((start, limit, delta))
    with graph.as_default(), graph.name_scope(name) as scope:
        kind = None if dtype is None else as_dtype(dtype)
        parts = [
            convert_to_tensor(value, kind if not isinstance(value, Symbolic) else None, part)
            for value, part in ((start, "start"), (limit, "limit"), (delta, "delta"))
        ]
        if kind is None:
            kind = max((part.dtype.base for part in parts), key=_WIDTH.index)
        cast = [
            part if part.dtype.base is kind else apply_op("Cast", part, DstT=kind) for part in parts
        ]
        result: Tensor = graph.apply("Range", tuple(cast), {}, scope)
        return result


_WIDTH = [as_dtype(each) for each in ("int32", "int64", "float16", "float32", "float64")]


linspace = lin_space


@export("get_static_value")
def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """The value of `tensor` where the graph alone tells it, else None.

    Args:
        tensor: The tensor; None for a variable, whose value is told by runs.
        partial: Give what is known of a value, None in place of each other element.
    """
    if not isinstance(tensor, Tensor):
        return None
    found = known_value(tensor)
    if found is None or found.unknown is None or not partial:
        return None if found is None else found.whole
    known = found.array.astype(object)
    known[found.unknown] = None
    return known
