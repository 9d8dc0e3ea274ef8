"""Reordering, reshaping, concatenating, splitting, filling and serializing sparse tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value, constant_value_as_shape
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.graph.values.sparse_tensor import SparseTensor, as_sparse
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.reduction import reduction
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays
from sparkflow.ops.shape.constants import placeholder, placeholder_with_default
from sparkflow_runtime.dtypes import DType, as_dtype, bool_, int64, string


@export("sparse_placeholder", "sparse.placeholder")
def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """Creates a placeholder for a sparse tensor, which must be fed.

    Args:
        dtype: Its element type.
        shape: The dense shape, unknown sizes as None; None for any.
        name: Prefix of the placeholders' names.
    """
    prefix = "" if name is None else f"{name}/"

    def part(suffix: str) -> str | None:
        return f"{prefix}{suffix}" if prefix else None

    rank: int | None = None
    known: TensorShape | None = None
    if shape is None:
        sizes = placeholder(int64, [None], part("shape"))
    elif isinstance(shape, Symbolic):
        sizes = convert_to_tensor(shape)
        rank = sizes.shape.as_list()[0]
    else:
        given = shape.as_list() if isinstance(shape, TensorShape) else shape
        known = TensorShape([None if size in (None, -1) else int(size) for size in given])
        rank = known.ndims
        array = np.array([-1 if size is None else size for size in known.as_list()], np.int64)
        if known.is_fully_defined():
            sizes = convert_to_tensor(array, name=part("shape"))
        else:
            sizes = placeholder_with_default(array, [rank], part("shape"))
    values = placeholder(dtype, [None], part("values"))
    indices = placeholder(int64, [None, rank], part("indices"))
    sparse = SparseTensor(indices, values, sizes)
    if known is not None:
        sparse.set_shape(known)
    return sparse


@export("sparse_reorder", "sparse.reorder")
def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Returns the elements in row-major order of their coordinates."""
    sparse = as_sparse(sp_input)
    parts = (sparse.indices, sparse.values, sparse.dense_shape)
    indices, values = apply_op("SparseReorder", *parts, name=name)
    shape = sparse.dense_shape
    return SparseTensor(indices, values, shape)


@export("sparse_reshape", "sparse.reshape")
def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """Reshapes a sparse tensor; one size may be -1.

    Raises:
        ValueError: The number of elements differs, or two sizes are unknown.
    """
    sparse = as_sparse(sp_input)
    target = convert_to_tensor(shape, int64)
    old, new = constant_value(sparse.dense_shape), constant_value(target)
    if old is not None and new is not None and (old >= 0).all():
        _check_reshape([int(i) for i in old], [int(i) for i in new])
    indices, sizes = apply_op(
        "SparseReshape", sparse.indices, sparse.dense_shape, target, name=name
    )
    if new is not None and -1 not in new:
        sizes = target
    result = SparseTensor(indices, apply_op("Identity", sparse.values), sizes)
    result.set_shape(_reshaped(sparse.shape, TensorShape(constant_value_as_shape(target))))
    return result


def _reshaped(old: TensorShape, new: TensorShape) -> TensorShape:
    """Returns the new static shape with its unknown size inferred, if possible."""
    total, sizes = old.num_elements(), new.as_list() if new.ndims is not None else []
    if total is None or sizes.count(None) != 1:
        return new
    rest = math.prod(size for size in sizes if size is not None)
    if not rest or total % rest:
        return new
    return TensorShape([total // rest if size is None else size for size in sizes])


def _check_reshape(old: list[int], new: list[int]) -> None:
    if new.count(-1) > 1:
        raise ValueError(f"At most one dimension can be inferred (-1). Found: {new}")
    total = int(np.prod(old, dtype=np.int64))
    known = int(np.prod([size for size in new if size != -1], dtype=np.int64))
    if (-1 in new and (not known or total % known)) or (-1 not in new and known != total):
        raise ValueError(f"Cannot reshape a tensor with {total} elements to shape {new}")


@export("sparse_concat", "sparse.concat")
def sparse_concat(
    axis: int,
    sp_inputs: Any,
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: int | None = None,
    expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:
    """Concatenates sparse tensors along a dimension.

    Args:
        axis: The dimension.
        sp_inputs: Sparse tensors of one rank.
        name: Name of the node.
        expand_nonconcat_dim: Allow the other sizes to differ, and use the largest.
        concat_dim: Old name of `axis`.
        expand_nonconcat_dims: Newer name of `expand_nonconcat_dim`.

    Raises:
        IndexError: The dimension does not exist.
        TypeError: An input is not a sparse tensor.
    """
    along = axis if concat_dim is None else concat_dim
    items = sp_inputs if isinstance(sp_inputs, list | tuple) else [sp_inputs]
    inputs = [as_sparse(each) for each in items]
    if len(inputs) == 1:
        return inputs[0]
    shapes = [each.dense_shape for each in inputs]
    known = inputs[0].shape.ndims
    if known is not None and not -known <= along < known:
        raise IndexError(f"The dimension {along} does not exist in sparse tensors of rank {known}")
    if expand_nonconcat_dim or expand_nonconcat_dims:
        rank = shapes[0].shape.as_list()[0]
        largest = reduction.reduce_max(arrays.stack(shapes), axis=0)
        assert rank is not None
        at = along % rank
        shapes = [
            arrays.concat([largest[:at], each[at : at + 1], largest[at + 1 :]], 0)
            for each in shapes
        ]
    parts = apply_op(
        "SparseConcat",
        [each.indices for each in inputs],
        [each.values for each in inputs],
        shapes,
        concat_dim=along,
        name=name,
    )
    result = SparseTensor(*parts)
    if not (expand_nonconcat_dim or expand_nonconcat_dims):
        result.set_shape(_joined([each.shape for each in inputs], along))
    return result


def _joined(given: Sequence[TensorShape], axis: int) -> TensorShape:
    """Returns the static shape of tensors concatenated along `axis`."""
    lengths = [each[axis].value for each in given if each.ndims is not None]
    merged = TensorShape(None)
    for each in given:
        if each.ndims is not None:
            rest = each.as_list()
            rest[axis] = None
            merged = merged.merge_with(rest)
    if merged.ndims is None or len(lengths) < len(given) or None in lengths:
        return merged
    sizes = merged.as_list()
    sizes[axis] = sum(lengths)
    return TensorShape(sizes)


@export("sparse_split", "sparse.split")
def sparse_split(
    keyword_required: Any = None,
    sp_input: Any = None,
    num_split: int | None = None,
    axis: Any = None,
    name: str | None = None,
    split_dim: Any = None,
) -> list[SparseTensor]:
    """Splits a sparse tensor into `num_split` parts along `axis`; requires keywords.

    Raises:
        ValueError: Arguments are positional or missing.
    """
    if keyword_required is not None:
        raise ValueError("Keyword arguments are required for this function.")
    if sp_input is None:
        raise ValueError("sp_input is required")
    if num_split is None:
        raise ValueError("num_split is required")
    along = either("axis", axis, "split_dim", split_dim)
    if along is None:
        raise ValueError("axis is required")
    sparse = as_sparse(sp_input)
    where = convert_to_tensor(along, int64)
    parts = (where, sparse.indices, sparse.values, sparse.dense_shape)
    found = apply_op("SparseSplit", *parts, num_split=num_split, name=name)
    count = num_split
    return [SparseTensor(found[i], found[count + i], found[2 * count + i]) for i in range(count)]


@export("sparse_slice", "sparse.slice")
def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """Returns the slice of shape `size` that begins at `start`."""
    sparse = as_sparse(sp_input)
    graph = sparse.graph
    with graph.as_default():
        begin, length = convert_to_tensor(start, int64), convert_to_tensor(size, int64)
        parts = (sparse.indices, sparse.values, sparse.dense_shape, begin, length)
        return SparseTensor(*apply_op("SparseSlice", *parts, name=name))


@export("sparse_retain", "sparse.retain")
def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """Returns the elements for which the bool vector `to_retain` is true."""
    sparse = as_sparse(sp_input)
    chosen = convert_to_tensor(to_retain)
    chosen.shape.assert_has_rank(1)
    sparse.values.shape.assert_is_compatible_with(chosen.shape)
    where = arrays.reshape(apply_op("Where", chosen), [-1])
    return SparseTensor(
        arrays.gather(sparse.indices, where),
        arrays.gather(sparse.values, where),
        apply_op("Identity", sparse.dense_shape),
    )


@export("sparse_reset_shape", "sparse.reset_shape")
def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """Returns the same elements in a larger shape, or in their bounding shape (None).

    Raises:
        ValueError: `new_shape` has another rank, or is smaller.
    """
    sparse = as_sparse(sp_input)
    indices, values = (apply_op("Identity", each) for each in (sparse.indices, sparse.values))
    if new_shape is None:
        ends = reduction.reduce_max(sparse.indices, 0) + 1
        zero = convert_to_tensor(0, int64)
        return SparseTensor(indices, values, apply_op("Maximum", zero, ends))
    target = convert_to_tensor(new_shape, int64)
    target.shape.assert_has_rank(1)
    target.shape.assert_is_compatible_with(sparse.dense_shape.shape)
    old, new = constant_value(sparse.dense_shape), constant_value(target)
    if old is not None and new is not None and (new < old).any():
        raise ValueError(f"Requested dense_shape {new.tolist()} should be >= {old.tolist()}")
    return SparseTensor(indices, values, target)


@export("sparse_fill_empty_rows", "sparse.fill_empty_rows")
def sparse_fill_empty_rows(
    sp_input: Any, default_value: Any, name: str | None = None
) -> tuple[SparseTensor, Tensor]:
    """Adds `default_value` in the first column of empty rows.

    Returns:
        The sparse tensor, and which rows were empty ([rows] bool).
    """
    sparse = as_sparse(sp_input)
    with sparse.graph.as_default(), sparse.graph.name_scope(name or "SparseFillEmptyRows"):
        value = convert_to_tensor(default_value, sparse.dtype.base)
        parts = (sparse.indices, sparse.values, sparse.dense_shape, value)
        indices, values, empty, _ = apply_op("SparseFillEmptyRows", *parts)
        return SparseTensor(indices, values, sparse.dense_shape), empty


@export("sparse_transpose", "sparse.transpose")
def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """Transposes: dimension i of the result is dimension `perm[i]`; None reverses them."""
    sparse = as_sparse(sp_input)
    with sparse.graph.as_default(), sparse.graph.name_scope(name or "SparseTranspose"):
        if perm is None:
            rank = sparse.shape.ndims
            if rank is None:
                found = arrays.size(sparse.dense_shape)
                perm = apply_op("Range", found - 1, -1, -1)
            else:
                perm = np.arange(rank - 1, -1, -1, dtype=np.int32)
        order = convert_to_tensor(perm)
        indices = arrays.gather(sparse.indices, order, axis=1)
        shape = arrays.gather(sparse.dense_shape, order)
        known, places = constant_value(sparse.dense_shape), constant_value(order)
        if known is not None and places is not None:
            shape = convert_to_tensor(known[places])
        return sparse_reorder(SparseTensor(indices, sparse.values, shape))


@export("sparse.expand_dims")
def sparse_expand_dims(sp_input: Any, axis: Any = None, name: str | None = None) -> SparseTensor:
    """Inserts a dimension of size 1 (last if `axis` is None)."""
    sparse = as_sparse(sp_input)
    rank = sparse.dense_shape.shape.as_list()[0]
    if rank is None:
        raise ValueError("sparse_expand_dims needs a sparse tensor of known rank")
    at = -1 if axis is None else int(axis)
    at = at + rank + 1 if at < 0 else at
    with sparse.graph.as_default(), sparse.graph.name_scope(name or "expand_dims"):
        count = arrays.shape(sparse.indices, out_type=int64)[:1]
        one = convert_to_tensor([1], int64)
        column = apply_op("Fill", arrays.concat([count, one], 0), convert_to_tensor(0, int64))
        indices = arrays.concat([sparse.indices[:, :at], column, sparse.indices[:, at:]], 1)
        shape = arrays.concat([sparse.dense_shape[:at], one, sparse.dense_shape[at:]], 0)
        return SparseTensor(indices, sparse.values, shape)


@export("sparse.eye")
def sparse_eye(
    num_rows: Any, num_columns: Any = None, dtype: Any = None, name: str | None = None
) -> SparseTensor:
    """Returns the identity matrix as a sparse tensor."""
    kind = as_dtype("float32" if dtype is None else dtype)
    graph = graph_of((num_rows, num_columns))
    with graph.as_default(), graph.name_scope(name or "eye"):
        rows = cast(num_rows, int64)
        columns = rows if num_columns is None else cast(num_columns, int64)
        size = apply_op("Minimum", rows, columns)
        zero, one = (convert_to_tensor(i, int64) for i in (0, 1))
        places = apply_op("Range", zero, size, one)
        values = apply_op("Fill", arrays.expand_dims(size, 0), cast(1, kind))
        return SparseTensor(
            arrays.stack([places, places], axis=1), values, arrays.stack([rows, columns])
        )


@export("sparse.from_dense")
def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """Converts a dense tensor to a sparse one, without zeros (or empty strings)."""
    graph = graph_of((tensor,))
    with graph.as_default(), graph.name_scope(name or "dense_to_sparse"):
        dense = convert_to_tensor(tensor)
        is_plain = dense.dtype.base not in (string, bool_)
        empty = apply_op("ZerosLike", dense) if is_plain else _zero(dense.dtype.base)
        indices = apply_op("Where", apply_op("NotEqual", dense, empty))
        return SparseTensor(
            indices, arrays.gather_nd(dense, indices), arrays.shape(dense, out_type=int64)
        )


@export("sparse_to_dense")
def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """Returns a dense tensor of `default_value` with the values at the coordinates.

    Args:
        sparse_indices: [n, rank], [n] or a scalar, integers.
        output_shape: [rank] of the same type.
        sparse_values: [n], or a scalar for all coordinates.
        default_value: A scalar.
        validate_indices: Reject repeated and unordered coordinates.
        name: Name of the node.
    """
    graph = graph_of((sparse_indices, output_shape, sparse_values, default_value))
    with graph.as_default():
        values = convert_to_tensor(sparse_values, name="sparse_values")
        default = convert_to_tensor(default_value, values.dtype.base, name="default_value")
        return output_of(
            "SparseToDense",
            sparse_indices,
            output_shape,
            values,
            default,
            validate_indices=validate_indices,
            name=name,
        )


@export("sparse_tensor_to_dense", "sparse.to_dense")
def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """Converts a sparse tensor to a dense one.

    Args:
        sp_input: Its coordinates in row-major order.
        default_value: The value elsewhere; 0 (or the empty string) if None.
        validate_indices: Reject repeated and unordered coordinates.
        name: Name of the node.
    """
    sparse = as_sparse(sp_input)
    if default_value is None:
        default_value = _zero(sparse.dtype.base)
    parts = (sparse.indices, sparse.dense_shape, sparse.values)
    return sparse_to_dense(*parts, default_value, validate_indices, name)


def _zero(dtype: DType) -> Any:
    return b"" if dtype is string else np.zeros((), dtype.as_numpy_dtype)


@export("sparse_to_indicator", "sparse.to_indicator")
def sparse_to_indicator(sp_input: Any, vocab_size: Any, name: str | None = None) -> Tensor:
    """Returns a bool tensor, true at the ids in each row: [..., vocab_size]."""
    sparse = as_sparse(sp_input)
    with sparse.graph.as_default(), sparse.graph.name_scope(name or "SparseToIndicator") as scope:
        ones = apply_op("Fill", arrays.shape(sparse.values), True)
        merged = sparse_merge(sparse, sparse.with_values(ones), vocab_size)
        return sparse_tensor_to_dense(merged, False, validate_indices=False, name=scope)


@export("sparse_merge", "sparse.merge")
def sparse_merge(
    sp_ids: Any,
    sp_values: Any,
    vocab_size: Any,
    name: str | None = None,
    already_sorted: bool = False,
) -> SparseTensor:
    """Returns the values with the ids as their last coordinate.

    Args:
        sp_ids: Sparse integers, or a list of them for several dimensions.
        sp_values: Values at the same coordinates.
        vocab_size: The new size, or a list of sizes.
        name: Name of the scope.
        already_sorted: Skip the reordering.
    """
    several = isinstance(sp_ids, list | tuple) and not hasattr(sp_ids, "indices")
    ids = sp_ids if several else [sp_ids]
    sizes = vocab_size if isinstance(vocab_size, list | tuple) else [vocab_size]
    if len(ids) != len(sizes):
        raise ValueError("sp_ids and vocab_size have to have equal lengths.")
    sparse_ids = [as_sparse(each) for each in ids]
    values = as_sparse(sp_values)
    with values.graph.as_default(), values.graph.name_scope(name or "SparseMerge"):
        columns = [arrays.expand_dims(cast(each.values, int64), 1) for each in sparse_ids]
        lead = sparse_ids[0].indices[:, :-1]
        indices = arrays.concat([lead, *columns], 1)
        ends = [arrays.reshape(cast(convert_to_tensor(each), int64), [1]) for each in sizes]
        shape = arrays.concat([sparse_ids[0].dense_shape[:-1], *ends], 0)
        result = SparseTensor(indices, values.values, shape)
        return result if already_sorted else sparse_reorder(result)


@export("sparse_mask", "sparse.mask")
def sparse_mask(a: IndexedSlices, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """Returns the slices of `a` whose indices are not among `mask_indices`."""
    with a.graph.as_default(), a.graph.name_scope(name or "sparse_mask"):
        kept, places = apply_op("ListDiff", a.indices, mask_indices)
        return IndexedSlices(arrays.gather(a.values, places), kept, a.dense_shape)


@export("serialize_sparse", "io.serialize_sparse")
def serialize_sparse(sp_input: Any, name: str | None = None, out_type: Any = string) -> Tensor:
    """Serializes a sparse tensor as [3] strings."""
    sparse = as_sparse(sp_input)
    parts = (sparse.indices, sparse.values, sparse.dense_shape)
    return output_of("SerializeSparse", *parts, out_type=as_dtype(out_type), name=name)


@export("serialize_many_sparse", "io.serialize_many_sparse")
def serialize_many_sparse(sp_input: Any, name: str | None = None, out_type: Any = string) -> Tensor:
    """Serializes the slices of a sparse tensor along its first dimension as [n, 3] strings."""
    sparse = as_sparse(sp_input)
    parts = (sparse.indices, sparse.values, sparse.dense_shape)
    kind = as_dtype(out_type)
    return output_of("SerializeManySparse", *parts, out_type=kind, name=name)


@export("deserialize_many_sparse", "io.deserialize_many_sparse")
def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """The inverse of `serialize_many_sparse`."""
    found = apply_op("DeserializeManySparse", serialized_sparse, dtype=as_dtype(dtype), name=name)
    indices, values, shape = found
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


def deserialize_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """The inverse of `serialize_sparse`, also for stacks of its results."""
    found = apply_op("DeserializeSparse", serialized_sparse, dtype=as_dtype(dtype), name=name)
    indices, values, shape = found
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)
