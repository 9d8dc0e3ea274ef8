"""Shapes and their changes: reshape, transpose, concat, split, tile, pad, gather, slices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.shape.arrays import *  # noqa: F403
from sparkflow._generated.ops.shape.arrays import broadcast_to, reshape
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.operators import Held, Symbolic
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, operand, output_of
from sparkflow.graph.slicing import masked
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.dispatch import or_ragged
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.renamed_arguments import either
from sparkflow_runtime.dtypes import as_dtype, int32


@export("shape")
def shape(input: Any, name: str | None = None, out_type: Any = int32) -> Tensor:
    """The shape of `input` (also a sparse tensor) when it runs: [rank] integers."""
    if isinstance(input, SparseTensor):
        return output_of("Cast", input.dense_shape, DstT=as_dtype(out_type), name=name)
    tensor, node = operand(input, None, name or "Shape")
    graph = tensor.op.graph
    kind = as_dtype(out_type)
    if tensor.shape.is_fully_defined():
        known = np.asarray(tensor._shape, kind.as_numpy_dtype)
        return graph.convert(known, None, node)
    result: Tensor = graph.apply("Shape", (tensor,), {"out_type": kind}, node)
    return result


@export("size")
@or_ragged
def size(input: Any, name: str | None = None, out_type: Any = int32) -> Tensor:
    """The number of elements when it runs: a scalar integer."""
    if isinstance(input, SparseTensor):
        return output_of("Prod", shape(input, out_type=out_type), [0], name=name)
    tensor, node = operand(input, None, name or "Size")
    graph = tensor.op.graph
    kind = as_dtype(out_type)
    count = tensor.shape.num_elements()
    if count is not None:
        return graph.convert(np.asarray(count, kind.as_numpy_dtype), None, node)
    result: Tensor = graph.apply("Size", (tensor,), {"out_type": kind}, node)
    return result


@export("rank")
@or_ragged
def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of dimensions when it runs: a scalar int32."""
    if isinstance(input, SparseTensor):
        return size(input.dense_shape, name=name)
    tensor, node = operand(input, None, name or "Rank")
    graph = tensor.op.graph
    if tensor._shape is not None:
        return graph.convert(np.asarray(len(tensor._shape), np.int32), None, node)
    result: Tensor = graph.apply("Rank", (tensor,), {}, node)
    return result


@export("transpose")
def transpose(a: Any, perm: Any = None, name: str | None = None, conjugate: bool = False) -> Tensor:
    """Dimension i of the result is dimension `perm[i]` of `a`; None reverses them."""
    graph = graph_of((a, perm))
    with graph.as_default(), graph.name_scope(name or "transpose") as scope:
        tensor = convert_to_tensor(a, name="a")
        if perm is None:
            if tensor._shape is not None:
                perm = np.arange(len(tensor._shape) - 1, -1, -1, dtype=np.int32)
            else:
                perm = apply_op("Range", apply_op("Rank", tensor) - 1, -1, -1)
        if conjugate and tensor.dtype.is_complex:
            tensor = apply_op("Conj", tensor)
        result: Tensor = graph.apply("Transpose", (tensor, perm), {}, scope)
        return result


@export("expand_dims")
@or_ragged
def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """Inserts a dimension of size 1 at `axis`.

    Raises:
        ValueError: No axis is given.
    """
    axis = either("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return output_of("ExpandDims", input, axis, name=name)


@export("squeeze")
def squeeze(
    input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None
) -> Tensor:
    """Drops dimensions of size 1: those in `axis`, or all.

    Raises:
        ValueError: One of the dimensions has another size.
    """
    axis = either("axis", axis, "squeeze_dims", squeeze_dims)
    dims = [] if axis is None else [int(i) for i in np.atleast_1d(np.asarray(axis))]
    return output_of("Squeeze", input, squeeze_dims=dims, name=name)


@export("concat")
@or_ragged
def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Joins tensors along an existing dimension.

    The order of arguments before TensorFlow 1.0, `concat(axis, values)`, is understood too.
    """
    if isinstance(values, int | np.integer) and isinstance(axis, list | tuple):
        values, axis = axis, values
    if not isinstance(values, list | tuple):
        values = [values]
    if len(values) == 1:
        graph = graph_of(values)
        with graph.as_default(), graph.name_scope(name):
            convert_to_tensor(axis, name="concat_dim").shape.assert_has_rank(0)
            return output_of("Identity", values[0], name="concat")
    return output_of("ConcatV2", list(values), axis, name=name)


@export("stack", "pack")
@or_ragged
def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Joins tensors of one shape along a new dimension."""
    items = list(values)
    if not axis and items and not all(isinstance(each, Symbolic) for each in items):
        return convert_to_tensor(items, name=name)
    return output_of("Pack", items, axis=axis, name=name)


@export("unstack", "unpack")
def unstack(
    value: Any, num: int | None = None, axis: int = 0, name: str = "unstack"
) -> list[Tensor]:
    """The slices along a dimension, which is dropped.

    Raises:
        ValueError: `num` is not given and cannot be told from the shape.
    """
    tensor = convert_to_tensor(value)
    if num is None:
        if tensor._shape is not None:
            rank = len(tensor._shape)
            if not -rank <= axis < rank:
                raise ValueError(f"Argument `axis` = {axis} not in range [{-rank}, {rank})")
            num = tensor._shape[axis]
        if num is None:
            raise ValueError(f"Cannot infer argument `num` from shape {tensor.shape}")
    result: list[Tensor] = apply_op("Unpack", tensor, num=num, axis=axis, name=name)
    return result


@export("split")
def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """Parts along a dimension: a number of equal ones, or of the sizes given.

    The order of arguments before TensorFlow 1.0, `split(axis, num, value)`, is understood too.

    Raises:
        ValueError: How many parts cannot be told.
    """
    if isinstance(value, int | np.integer) and _has_dimensions(axis):
        value, axis = axis, value
    if isinstance(num_or_size_splits, int | np.integer):
        parts: list[Tensor] = apply_op(
            "Split", axis, value, num_split=int(num_or_size_splits), name=name
        )
        return parts
    sizes = convert_to_tensor(num_or_size_splits)
    if num is None:
        num = None if sizes._shape is None else sizes._shape[0]
        if num is None:
            raise ValueError(f"Cannot infer argument `num` from shape {sizes.shape}")
    uneven: list[Tensor] = apply_op("SplitV", value, sizes, axis, num_split=num, name=name)
    return uneven


def _has_dimensions(value: Any) -> bool:
    if isinstance(value, Symbolic):
        shape = value._to_tensor()._shape
        return shape is None or len(shape) > 0
    return np.ndim(value) > 0


@export("pad")
def pad(
    tensor: Any,
    paddings: Any,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: Any = 0,
) -> Tensor:
    """Adds `paddings[i]` = (before, after) elements along dimension i.

    Args:
        tensor: Any tensor.
        paddings: [rank, 2] integers.
        mode: `CONSTANT`, `REFLECT` or `SYMMETRIC`.
        name: Name of the node.
        constant_values: What is added in mode `CONSTANT`.

    Raises:
        ValueError: Another mode.
    """
    mode = mode.upper()
    if mode == "CONSTANT":
        if isinstance(constant_values, int | float) and constant_values == 0:
            return output_of("Pad", tensor, paddings, name=name)
        return output_of("PadV2", tensor, paddings, constant_values, name=name)
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise ValueError(f"Unknown padding mode: {mode}")
    return output_of("MirrorPad", tensor, paddings, mode=mode, name=name)


@export("strided_slice")
def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """`input_[begin:end:strides]` per dimension; bits of the masks change single dimensions.

    With `var`, the variable whose value `input_` is, the result has a method `assign` as
    `var[begin:end]` has it.
    """
    start = convert_to_tensor(begin)
    result: Tensor = apply_op(
        "StridedSlice",
        input_,
        start,
        end,
        apply_op("OnesLike", start) if strides is None else strides,
        begin_mask=begin_mask,
        end_mask=end_mask,
        ellipsis_mask=ellipsis_mask,
        new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask,
        name=name,
    )
    if var is not None:
        result.assign = partial(var._assign_part, result.op)
    return result


@export("gather")
@or_ragged
def gather(
    params: Any,
    indices: Any,
    validate_indices: bool | None = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:
    """The slices of `params` at `indices` along `axis` (None: the first dimension).

    Args:
        params: Any tensor of rank `axis` + 1 or more.
        indices: int32 or int64 of any shape, each at least 0 and below the size of `axis`.
        validate_indices: Accepted and not used, as in TensorFlow: indices are always checked.
        name: Name of the node.
        axis: A scalar.
        batch_dims: How many leading dimensions `params` and `indices` share.

    Returns:
        `params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1:]`.

    Raises:
        InvalidArgumentError: When it runs: an index is out of range.
    """
    attrs = {"batch_dims": batch_dims} if batch_dims else {}
    where = batch_dims if axis is None else axis
    if isinstance(params, Held) and isinstance(where, int) and where == 0:
        return params.sparse_read(indices, name)
    return output_of("GatherV2", params, indices, where, name=name, **attrs)


@export("one_hot")
@or_ragged
def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Vectors of length `depth` with `on_value` (1) at the index and `off_value` (0) elsewhere.

    Args:
        indices: Integers; those outside [0, depth) give rows of `off_value`.
        depth: The length of the new dimension.
        on_value: 1 and 0 when None.
        off_value: 1 and 0 when None.
        axis: Where the new dimension goes; last when None.
        dtype: Of the result; that of the values, or float32.
        name: Name of the node.
    """
    graph = graph_of((indices, depth, on_value, off_value))
    with graph.as_default(), graph.name_scope(name or "one_hot") as scope:
        kind = None if dtype is None else as_dtype(dtype)
        if kind is None and on_value is None and off_value is None:
            kind = as_dtype("float32")
        on = convert_to_tensor(1 if on_value is None else on_value, kind, "on_value")
        off_default = 0 if off_value is None else off_value
        off = convert_to_tensor(off_default, on.dtype.base, "off_value")
        where = -1 if axis is None else axis
        values = (indices, depth, on, off)
        result: Tensor = graph.apply("OneHot", values, {"axis": where}, scope)
        return result


class Unique(NamedTuple):
    """The result of `unique`: the distinct elements, and the index of each element among them."""

    y: Tensor
    idx: Tensor


@export("unique")
def unique(x: Any, out_idx: Any = int32, name: str | None = None) -> Unique:
    """The different elements of a vector in order of appearance, and each element's position."""
    return Unique(*apply_op("Unique", x, out_idx=as_dtype(out_idx), name=name))


@export("boolean_mask")
@or_ragged
def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: Any = None) -> Tensor:
    """The slices along `axis` where the vector `mask` is true; or elements, for a mask of rank > 1.

    Raises:
        ValueError: The rank of `mask` is unknown or 0, or its shape does not fit.
    """
    graph = graph_of((tensor, mask, axis))
    if isinstance(axis, Symbolic):
        given = graph.convert(axis)
        known = constant_value(given)
        axis = given if known is None else int(known)
    elif axis is not None:
        axis = int(axis)
    return masked(graph, tensor, mask, axis, name)


@export("meshgrid")
def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> Sequence[Tensor]:
    """Coordinate grids of vectors, as in numpy.meshgrid.

    Raises:
        ValueError: Another `indexing` than `xy` and `ij`.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing must be either xy or ij, got {indexing!r}")
    graph = graph_of(args)
    with graph.as_default(), graph.name_scope(name):
        vectors = [reshape(each, [-1]) for each in args]
        count = len(vectors)
        order = list(range(count))
        if indexing == "xy" and count > 1:
            order[0], order[1] = 1, 0
        lengths = [size(vectors[i]) for i in order]
        grids = []
        for index, vector in enumerate(vectors):
            column = [1] * count
            column[order.index(index)] = -1
            grids.append(broadcast_to(reshape(vector, column), stack(lengths)))
        return grids
