"""Looks up rows of a table by sparse ids and combines them per example."""

from __future__ import annotations

import warnings
from typing import Any

from sparkflow._api import export
from sparkflow.embedding.lookup import embedding_lookup
from sparkflow.graph.scopes import apply_op, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.dispatch import or_ragged
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.elementwise import comparison, elementwise
from sparkflow.ops.indexing import segment
from sparkflow.ops.reduction import reduction
from sparkflow.ops.shape import arrays, constants
from sparkflow.ops.sparse.sparse_layout import sparse_fill_empty_rows, sparse_reshape, sparse_retain
from sparkflow.variables.partitioned import PartitionedVariable
from sparkflow_runtime.dtypes import bfloat16, float16, float32, int32

_COMBINERS = ("mean", "sqrtn", "sum")


@export("nn.embedding_lookup_sparse")
@or_ragged
def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: float | None = None,
) -> Tensor:
    """Combines the rows of a table that each row of `sp_ids` selects.

    Args:
        params: As for `embedding_lookup`.
        sp_ids: SparseTensor [batch, ids] of integers.
        sp_weights: SparseTensor with the same indices, or None for weights of 1.
        partition_strategy: As for `embedding_lookup`.
        name: Name of the scope.
        combiner: `sum`; `mean`, divided by the sum of weights; `sqrtn`, divided by the root of the
            sum of their squares. `mean` when None.
        max_norm: As for `embedding_lookup`.

    Returns:
        [batch, ...].

    Raises:
        TypeError: Ids or weights are not sparse.
        ValueError: The combiner is something else.
    """
    combiner = "mean" if combiner is None else combiner
    if combiner not in _COMBINERS:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner!r}")
    if not isinstance(sp_ids, SparseTensor):
        raise TypeError(f"sp_ids must be SparseTensor, got {type(sp_ids).__name__}")
    if sp_weights is not None:
        if not isinstance(sp_weights, SparseTensor):
            raise TypeError(
                f"sp_weights must be either None or SparseTensor, got {type(sp_weights).__name__}"
            )
        sp_ids.values.shape.assert_is_compatible_with(sp_weights.values.shape)
        sp_ids.indices.shape.assert_is_compatible_with(sp_weights.indices.shape)
    tables = _tables(params)
    graph = graph_of((*tables, sp_ids.values))
    with graph.as_default(), graph.name_scope(name or "embedding_lookup_sparse") as scope:
        rows = elementwise.cast(sp_ids.indices[:, 0], int32)
        ids, places = apply_op("Unique", sp_ids.values)
        table = embedding_lookup(tables, ids, partition_strategy, max_norm=max_norm)
        if table.dtype.base in (float16, bfloat16):
            table = elementwise.cast(table, float32)
        if sp_weights is None:
            function: Any = {
                "sum": segment.sparse_segment_sum,
                "mean": segment.sparse_segment_mean,
                "sqrtn": segment.sparse_segment_sqrt_n,
            }[combiner]
            result: Tensor = function(table, places, rows, name=scope)
            return result
        return _weighted(arrays.gather(table, places), sp_weights.values, rows, combiner, scope)


def _weighted(found: Tensor, weights: Tensor, rows: Tensor, combiner: str, scope: str) -> Tensor:
    factors = weights
    if factors.dtype.base is not found.dtype.base:
        factors = elementwise.cast(factors, found.dtype.base)
    rank = found.shape.ndims
    if rank is not None:
        wide = arrays.reshape(factors, [-1, *(1,) * (rank - 1)])
    else:
        ones = constants.fill(arrays.expand_dims(arrays.rank(found) - 1, 0), 1)
        wide = arrays.reshape(factors, arrays.concat([arrays.shape(factors), ones], 0))
    shape = found.shape
    scaled = found * wide
    scaled.set_shape(shape)
    if combiner == "sum":
        return segment.segment_sum(scaled, rows, name=scope)
    total = segment.segment_sum(scaled, rows)
    if combiner == "mean":
        divisor = segment.segment_sum(wide, rows)
    else:
        divisor = elementwise.sqrt(segment.segment_sum(elementwise.square(wide), rows))
    return elementwise.div_no_nan(total, divisor, name=scope)  # a row without ids is zero


def _tables(params: Any) -> list[Any]:
    if isinstance(params, PartitionedVariable):
        return list(params)
    return list(params) if isinstance(params, list | tuple) else [params]


@export("nn.safe_embedding_lookup_sparse")
@or_ragged
def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str | None = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
) -> Tensor:
    """As `embedding_lookup_sparse`, but ignores ids below 0 and weights that are not positive.

    Args:
        embedding_weights: As `params` of `embedding_lookup`.
        sparse_ids: SparseTensor [..., ids] int64.
        sparse_weights: SparseTensor with the same indices, or None.
        combiner: As for `embedding_lookup_sparse`.
        default_id: The id whose row is used for empty rows; zeros when None.
        name: Name of the scope.
        partition_strategy: As for `embedding_lookup`.
        max_norm: As for `embedding_lookup`.

    Raises:
        ValueError: There is no table.
    """
    tables = _tables(embedding_weights)
    if embedding_weights is None or not tables:
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    if combiner is None:
        warnings.warn('The default value of combiner is "mean"', DeprecationWarning, stacklevel=2)
        combiner = "mean"
    graph = graph_of((*tables, sparse_ids.values))
    with graph.as_default(), graph.name_scope(name or "embedding_lookup"):
        is_matrix = sparse_ids.shape.ndims == 2
        ids = sparse_ids if is_matrix else _as_matrix(sparse_ids)
        weights = sparse_weights
        if weights is not None:
            weights = SparseTensor(ids.indices, weights.values, ids.dense_shape)
        valid = comparison.greater_equal(ids.values, 0)
        if weights is not None and combiner != "sum":
            valid = comparison.logical_and(valid, comparison.greater(weights.values, 0))
        ids = sparse_retain(ids, valid)
        if weights is not None:
            weights = sparse_retain(weights, valid)
        ids, is_empty = sparse_fill_empty_rows(ids, default_id or 0)
        if weights is not None:
            weights, _ = sparse_fill_empty_rows(weights, 1.0)
        result = embedding_lookup_sparse(
            tables,
            ids,
            weights,
            combiner=combiner,
            partition_strategy=partition_strategy,
            max_norm=max_norm,
        )
        if default_id is None:
            result = output_of("Select", is_empty, constants.zeros_like(result), result)
        inner_shape = result.shape[1:]
        if not is_matrix:
            outer = elementwise.cast(sparse_ids.dense_shape[:-1], int32)
            inner = arrays.shape(result)[1:]
            result = arrays.reshape(result, arrays.concat([outer, inner], 0))
        if sparse_ids.shape.ndims is not None:
            result.set_shape(sparse_ids.shape[:-1].concatenate(inner_shape))
        return result


def _as_matrix(sparse: SparseTensor) -> SparseTensor:
    """Returns the rows along the last dimension as those of a matrix."""
    shape = sparse.dense_shape
    return sparse_reshape(sparse, arrays.stack([reduction.reduce_prod(shape[:-1]), shape[-1]]))
