"""`tf.ragged.constant`, `range`, `placeholder` and others that make ragged tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow.graph.constants import constant_array
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, name_scope
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.ops.shape.constants import placeholder as dense_placeholder
from sparkflow.ragged import rows
from sparkflow.ragged.tensor import RaggedTensor
from sparkflow.ragged.value import nested_value
from sparkflow_runtime.dtypes import as_dtype, int64


def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = int64,
) -> Any:
    """A ragged tensor of nested lists.

    Args:
        pylist: Nested lists, tuples or arrays.
        dtype: That of the values; as `tf.constant` chooses when None.
        ragged_rank: How many dimensions may have rows of different lengths; all but the last when
            None.
        inner_shape: The shape of the innermost values; () when None.
        name: A name scope.
        row_splits_dtype: int32 or int64.

    Returns:
        A `RaggedTensor`; a tensor where the lists are not nested.

    Raises:
        ValueError: Lists are nested differently deep.
    """
    if not isinstance(pylist, list | tuple | np.ndarray):
        return convert_to_tensor(pylist, None if dtype is None else as_dtype(dtype), name)
    flat, splits = _flattened(pylist, dtype, ragged_rank, inner_shape, row_splits_dtype)
    with name_scope(name, "RaggedConstant", []):
        result: Any = convert_to_tensor(flat, name="flat_values")
        for each in reversed(splits):
            result = RaggedTensor(result, convert_to_tensor(each, name="row_splits"))
    return result


def constant_value(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    row_splits_dtype: Any = "int64",
) -> Any:
    """A `RaggedTensorValue` of nested lists, to be fed; arguments as for `constant`."""
    flat, splits = _flattened(pylist, dtype, ragged_rank, inner_shape, row_splits_dtype)
    if dtype is None and flat.dtype.kind in "if":  # numpy's own, as they are not tensors
        flat = flat.astype(np.int64 if flat.dtype.kind == "i" else np.float64)
    return nested_value(flat, splits)


def _flattened(
    pylist: Any, dtype: Any, ragged_rank: int | None, inner_shape: Any, splits_dtype: Any
) -> tuple[Any, list[Any]]:
    """The innermost values and the splits, outermost first."""
    inner = () if inner_shape is None else tuple(np.atleast_1d(inner_shape).tolist())
    depth = _depth(pylist)
    if ragged_rank is None:
        ragged_rank = max(0, depth - 1 - len(inner))
    splits, items = [], _listed(pylist)
    for _ in builtins.range(ragged_rank):
        if not all(isinstance(each, list | tuple | np.ndarray) for each in items):
            raise ValueError(f"All scalar values must have the same nesting depth: {pylist!r}")
        lengths = [len(each) for each in items]
        splits.append(np.cumsum([0, *lengths]).astype(as_dtype(splits_dtype).as_numpy_dtype))
        items = [part for each in items for part in _listed(each)]
    if not inner and depth - 1 == ragged_rank and any(isinstance(e, list | tuple) for e in items):
        raise ValueError(f"All scalar values must have the same nesting depth: {pylist!r}")
    flat = constant_array(items, None if dtype is None else as_dtype(dtype))
    if inner:
        flat = flat.reshape(-1, *inner)
    return flat, splits


def _listed(value: Any) -> list[Any]:
    return list(value)


def _depth(value: Any) -> int:
    if isinstance(value, np.ndarray) and value.dtype != np.object_:
        return value.ndim
    if not isinstance(value, list | tuple | np.ndarray):
        return 0
    return 1 + max([_depth(each) for each in value], default=0)


def placeholder(
    dtype: Any, ragged_rank: int, value_shape: Any = None, name: str | None = None
) -> Any:
    """A ragged tensor to be fed with a `RaggedTensorValue`.

    Args:
        dtype: That of the values.
        ragged_rank: How many dimensions may have rows of different lengths; 0 for a plain one.
        value_shape: The shape of one of the innermost values; unknown when None.
        name: A name scope.
    """
    if not ragged_rank:
        return dense_placeholder(dtype, value_shape, name)
    with name_scope(name, "RaggedPlaceholder", []):
        shape = TensorShape([None]).concatenate(value_shape)
        result: Any = dense_placeholder(dtype, shape, "flat_values")
        for place in reversed(builtins.range(ragged_rank)):
            splits = dense_placeholder(int64, [None], f"row_splits_{place}")
            result = RaggedTensor(result, splits)
    return result


def range(
    starts: Any,
    limits: Any = None,
    deltas: Any = 1,
    dtype: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = int64,
) -> RaggedTensor:
    """Row i has the numbers from `starts[i]` up to `limits[i]` in steps of `deltas[i]`.

    Args:
        starts: Scalars or vectors, as `limits` and `deltas`; limits of rows from 0 where `limits`
            is None.
        limits: See `starts`.
        deltas: See `starts`.
        dtype: That of the numbers; that of the arguments when None.
        name: A name scope.
        row_splits_dtype: int32 or int64.
    """
    if limits is None:
        starts, limits = 0, starts
    graph = graph_of((starts, limits, deltas))
    with graph.as_default(), graph.name_scope(name or "RaggedRange"):
        wanted = None if dtype is None else as_dtype(dtype)
        hint = next((e.dtype.base for e in (starts, limits, deltas) if hasattr(e, "op")), None)
        start, limit, delta = (
            convert_to_tensor(each, wanted or hint) for each in (starts, limits, deltas)
        )
        kind = limit.dtype.base
        one, zero = apply_op("OnesLike", delta), apply_op("ZerosLike", limit - start)
        if kind.is_integer:
            steps = apply_op(
                "FloorDiv", limit - start + delta - apply_op("Sign", delta) * one, delta
            )
        else:
            steps = apply_op("Ceil", (limit - start) / delta)
        lengths = apply_op(
            "Cast", apply_op("Maximum", steps, zero), DstT=as_dtype(row_splits_dtype)
        )
        lengths = apply_op("Reshape", lengths, [-1])
        splits = rows.splits_of_lengths(lengths)
        ids = rows.row_splits_to_segment_ids(splits)
        count = apply_op("Shape", lengths)
        places = apply_op("Range", 0, apply_op("Cast", splits[-1], DstT="int32"), 1)
        within = apply_op("Cast", places, DstT=splits.dtype.base) - apply_op(
            "GatherV2", splits[:-1], ids, 0
        )
        first, step = (
            apply_op(
                "GatherV2", apply_op("BroadcastTo", apply_op("Reshape", e, [-1]), count), ids, 0
            )
            for e in (start, delta)
        )
        return RaggedTensor(first + apply_op("Cast", within, DstT=kind) * step, splits)


def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a function applied to the innermost values, in the same rows.

    Args:
        op: A function of tensors, which keeps the number of values.
        args: Its arguments; ragged ones are given as their innermost values, and must have the
            same rows.
        kwargs: Likewise.
    """
    ragged = [each for each in (*args, *kwargs.values()) if isinstance(each, RaggedTensor)]
    if not ragged:
        return op(*args, **kwargs)

    def flat(value: Any) -> Any:
        return value.flat_values if isinstance(value, RaggedTensor) else value

    made = op(*[flat(each) for each in args], **{key: flat(e) for key, e in kwargs.items()})
    return ragged[0].with_flat_values(made)


def stack_dynamic_partitions(
    data: Any, partitions: Any, num_partitions: Any, name: str | None = None
) -> RaggedTensor:
    """Row i has the elements of `data` whose number in `partitions` is i, in their order."""
    with name_scope(name, "SegmentStack", [data, partitions]):
        numbers = convert_to_tensor(partitions)
        order = apply_op(
            "DynamicPartition", _places(numbers), numbers, num_partitions=int(num_partitions)
        )
        values = apply_op("GatherV2", data, apply_op("ConcatV2", [*order], 0), 0)
        lengths = rows.lengths_of_ids(numbers, num_partitions, int64)
        return RaggedTensor.from_row_lengths(values, lengths)


def _places(numbers: Any) -> Any:
    return apply_op("Range", 0, apply_op("Shape", numbers)[0], 1)
