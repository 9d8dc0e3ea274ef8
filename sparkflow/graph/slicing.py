"""Python's `tensor[...]` as a StridedSlice node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow.graph.default_stack import default_graphs
from sparkflow_runtime.dtypes import as_dtype, bool_ as boolean, int32, int64

if TYPE_CHECKING:
    from sparkflow.graph.graph import Graph
    from sparkflow.graph.tensor import Tensor

newaxis = None
"""Stands for a new dimension of size 1 in `tensor[...]`."""


def strided_slice(tensor: Tensor, key: Any) -> Tensor:
    """The part of `tensor` that `key` selects.

    Args:
        tensor: Any tensor.
        key: An integer, slice, `...`, None (a new dimension), an integer scalar tensor, or a tuple
            or list of those; or booleans, an array or a tensor, as for `tf.boolean_mask`.

    Raises:
        TypeError: Another kind of key; advanced indexing is `tf.gather`.
        ValueError: Booleans that are a scalar, or of another shape than the tensor begins with.
    """
    if _is_mask(key):
        graph = default_graphs.receiving(tensor.op.graph)
        return masked(graph, tensor, key, 0, "boolean_mask")
    begin: list[Any] = []
    end: list[Any] = []
    strides: list[Any] = []
    masks = dict.fromkeys(
        ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
    )
    for index, item in enumerate(key if isinstance(key, tuple | list) else (key,)):
        bit = 1 << index
        if isinstance(item, slice):
            begin.append(0 if item.start is None else item.start)
            end.append(0 if item.stop is None else item.stop)
            strides.append(1 if item.step is None else item.step)
            masks["begin_mask"] |= bit * (item.start is None)
            masks["end_mask"] |= bit * (item.stop is None)
            continue
        strides.append(1)
        if item is Ellipsis or item is newaxis:
            masks["ellipsis_mask" if item is Ellipsis else "new_axis_mask"] |= bit
            begin.append(0)
            end.append(0)
            continue
        _check_index(item)
        masks["shrink_axis_mask"] |= bit
        begin.append(item)
        end.append(item + 1)
    graph = tensor.op.graph
    with graph.name_scope("strided_slice") as scope:
        parts = [_vector(tensor, part, "stack") for part in (begin, end, strides)]
        if any(part.dtype is int64 for part in parts):
            parts = [
                part if part.dtype is int64 else graph.apply("Cast", [part], {"DstT": int64})
                for part in parts
            ]
        result: Tensor = graph.apply("StridedSlice", (tensor, *parts), masks, scope)
        return result


def masked(graph: Graph, tensor: Any, mask: Any, axis: Any, name: str) -> Tensor:
    """The slices along `axis` where `mask` is true, see `tf.boolean_mask`.

    Args:
        graph: Where nodes are added.
        tensor: What is sliced.
        mask: Booleans [sizes of `tensor` from `axis` on].
        axis: An integer; a scalar tensor where the graph does not tell it; the first for None.
        name: Name of the scope.

    Raises:
        ValueError: The rank of `mask` is unknown or 0, or its shape does not fit.
    """
    with graph.as_default(), graph.name_scope(name):
        values: Tensor = graph.convert(tensor, None, "tensor")
        chosen: Tensor = graph.convert(mask, None, "mask")
        axis = 0 if axis is None else axis
        if chosen._shape is None:
            raise ValueError(
                "Number of mask dimensions must be specified, even if some dimensions are None. "
                "E.g. shape=[None] is ok, but shape=None is not."
            )
        if not chosen._shape:
            raise ValueError("mask cannot be scalar.")
        depth = len(chosen._shape)
        if isinstance(axis, int):
            values.shape[axis : axis + depth].assert_is_compatible_with(chosen.shape)
        if depth > 1:
            sizes = sizes_of(graph, values)
            parts = [sizes[:axis], [-1], sizes[axis + depth :]]
            flat = graph.apply("ConcatV2", (parts, 0), {}, "concat")
            values = graph.apply("Reshape", (values, flat), {})
            chosen = graph.apply("Reshape", (chosen, [-1]), {})
        elif values.dtype.is_floating or values.dtype.is_complex:
            # As in TensorFlow, the gradient is dense: optimizers with momentum move all rows.
            static = values.shape
            values = graph.apply("Reshape", (values, sizes_of(graph, values)), {})
            values.set_shape(static)
        found = graph.apply("Where", (chosen,), {})
        positions = graph.apply("Squeeze", (found,), {"squeeze_dims": [1]})
        result: Tensor = graph.apply("GatherV2", (values, positions, axis), {})
        return result


def sizes_of(graph: Graph, values: Tensor) -> Tensor:
    """The shape of a tensor, int32: a constant where it is known."""
    if values.shape.is_fully_defined():
        return graph.convert(np.asarray(values._shape, np.int32), None, "Shape")
    sizes: Tensor = graph.apply("Shape", (values,), {"out_type": int32}, "Shape")
    return sizes


def _is_mask(key: Any) -> bool:
    dtype = getattr(key, "dtype", None)
    return isinstance(key, bool) or (dtype is not None and as_dtype(dtype).base is boolean)


def _check_index(item: Any) -> None:
    dtype = getattr(item, "dtype", None)
    is_scalar = getattr(item, "shape", ()) in ((), None)
    if isinstance(item, bool) or not (
        isinstance(item, int | np.integer) or (dtype is not None and is_scalar)
    ):
        raise TypeError(
            "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar integer "
            f"tensors are valid indices, got {item!r}; tf.gather and tf.boolean_mask take lists"
        )


def _vector(tensor: Tensor, items: list[Any], name: str) -> Tensor:
    graph = tensor.op.graph
    if all(isinstance(item, int | np.integer) for item in items):
        return graph.convert(np.asarray(items, np.int32 if _fits(items) else np.int64), None, name)
    return graph.convert(items, None, name)


def _fits(items: list[int]) -> bool:
    return all(-(2**31) <= item < 2**31 for item in items)
