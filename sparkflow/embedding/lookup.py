"""Looks up rows of tables, whole or sharded; `sparse_lookup` combines rows per example."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.embedding.variable import EmbeddingVariable
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.dispatch import or_ragged
from sparkflow.ops.control.ordering import identity
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.reduction import reduction
from sparkflow.ops.reduction.clip import clip_by_norm
from sparkflow.ops.shape import arrays, constants
from sparkflow.variables.partitioned import PartitionedVariable
from sparkflow_runtime.dtypes import int32


@export("nn.embedding_lookup")
@or_ragged
def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Tensor:
    """Looks up the rows at `ids`: `ids.shape + params.shape[1:]`. The gradient is sparse.

    Args:
        params: A variable or tensor with a row per id; a list of shards, or a partitioned variable;
            an embedding variable, which adds rows for unseen ids.
        ids: Integers of any shape.
        partition_strategy: How ids are distributed over shards. `mod`: id i is row i // n of shard
            i % n. `div`: contiguous ranges of equal length, the first ones longer by one.
        name: Name of the scope.
        validate_indices: Ignored; accepted for compatibility with TensorFlow.
        max_norm: Rows with a larger Euclidean norm are scaled down to it.

    Raises:
        ValueError: `params` is empty, or the strategy is neither.
    """
    growing = params[0] if isinstance(params, list | tuple) and len(params) == 1 else params
    if isinstance(growing, EmbeddingVariable):
        found = growing.lookup(ids, name=name)
        return _clipped(found, growing.graph.convert(ids), max_norm)
    if isinstance(params, PartitionedVariable):
        params = list(params)
    tables = list(params) if isinstance(params, list | tuple) else [params]
    if not tables or any(each is None for each in tables):
        raise ValueError("Need at least one param")
    graph = graph_of((*tables, ids))
    with graph.as_default(), graph.name_scope(name or "embedding_lookup") as scope:
        indices = graph.convert(ids, None, "ids")
        tables = [
            t if isinstance(t, Symbolic) else graph.convert(t, None, "params") for t in tables
        ]
        if len(tables) == 1:
            # On the table's device: only the rows are transferred.
            with graph.colocate_with(tables[0]):
                rows = _clipped(arrays.gather(tables[0], indices, name=scope), indices, max_norm)
            result: Tensor = identity(rows)
            return result
        return _from_shards(tables, indices, partition_strategy, max_norm)


def _clipped(rows: Tensor, ids: Tensor, max_norm: float | None) -> Tensor:
    """Rows scaled down to `max_norm`."""
    if max_norm is None:
        return rows
    if ids._shape is not None and rows._shape is not None:
        axes: Any = list(range(len(ids._shape), len(rows._shape)))
    else:
        axes = constants.range(arrays.rank(ids), arrays.rank(rows))
    clipped: Tensor = clip_by_norm(rows, max_norm, axes)
    return clipped


def _from_shards(tables: list[Any], ids: Tensor, strategy: str, max_norm: float | None) -> Tensor:
    count = len(tables)
    flat = arrays.reshape(ids, [-1])
    positions = constants.range(arrays.size(flat))
    if strategy == "mod":
        shards, places = flat % count, flat // count
    elif strategy == "div":
        shards, places = _runs(tables, flat)
    else:
        raise ValueError(f"Unrecognized partition strategy: {strategy}")
    shards = elementwise.cast(shards, int32)
    gathered = apply_op("DynamicPartition", places, shards, num_partitions=count)
    scattered = apply_op("DynamicPartition", positions, shards, num_partitions=count)
    rows = []
    for table, each in zip(tables, gathered, strict=True):
        with table.graph.colocate_with(table):
            rows.append(_clipped(arrays.gather(table, each), each, max_norm))
    merged = apply_op("DynamicStitch", list(scattered), rows)
    element = rows[0].shape[1:]
    for each in rows[1:]:
        element = element.merge_with(each.shape[1:])
    if element.is_fully_defined() and ids.shape.is_fully_defined():
        shape: Any = [*ids.shape.as_list(), *element.as_list()]
    else:
        shape = arrays.concat([arrays.shape(ids), arrays.shape(merged)[1:]], 0)
    result = arrays.reshape(merged, shape)
    if ids._shape is not None:
        result.set_shape(ids.shape.concatenate(element))
    return result


def _runs(tables: list[Any], flat: Tensor) -> tuple[Tensor, Tensor]:
    """Shard and row of each id if shards hold contiguous ranges, the first ones longer by one."""
    count = len(tables)
    kind = flat.dtype.base
    sizes = [table.get_shape()[0].value for table in tables]
    if None not in sizes:
        total: Any = constants.constant(sum(sizes), kind)
    else:
        rows = [arrays.shape(table)[0] for table in tables]
        total = elementwise.cast(reduction.reduce_sum(arrays.stack(rows)), kind)
    each, extra = total // count, total % count
    count_of = np.array(count).astype(kind.as_numpy_dtype)
    shards = elementwise.maximum(flat // (each + 1), (flat - extra) // each)
    long = elementwise.cast(shards < extra, kind)
    places = long * (flat % (each + 1)) + (1 - long) * ((flat - extra) % each)
    return elementwise.minimum(shards, count_of - 1), places
