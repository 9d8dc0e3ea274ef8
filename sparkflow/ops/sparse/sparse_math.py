"""Arithmetic on sparse tensors: sums, products, reductions, softmax, distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.sparse.sparse_math import *  # noqa: F403
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, name_scope, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor, SparseTensorValue, added, as_sparse
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays
from sparkflow_runtime.dtypes import int32

_SPARSE = (SparseTensor, SparseTensorValue)


@export("sparse_add", "sparse.add")
def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """Returns the sum of two tensors of one shape, at least one of them sparse.

    Args:
        a: A sparse or dense tensor.
        b: A sparse or dense tensor.
        threshold: If both are sparse, sums with a smaller magnitude are dropped; 0 if None.
        thresh: Old name of `threshold`.

    Returns:
        A `SparseTensor` if both are sparse, a dense tensor otherwise.

    Raises:
        TypeError: Neither is sparse.
        ValueError: The static shapes differ.
    """
    least = either("threshold", threshold, "thresh", thresh)
    if not isinstance(a, _SPARSE) and not isinstance(b, _SPARSE):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    return added(a, b, least)


def _parts(sparse: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    return sparse.indices, sparse.values, sparse.dense_shape


@export("sparse_maximum", "sparse.maximum")
def sparse_maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Returns the larger elements of two sparse tensors of one shape; missing ones are 0."""
    return _extremum("SparseSparseMaximum", sp_a, sp_b, name)


@export("sparse_minimum", "sparse.minimum")
def sparse_minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Returns the smaller elements of two sparse tensors of one shape; missing ones are 0."""
    return _extremum("SparseSparseMinimum", sp_a, sp_b, name)


def _extremum(op_type: str, sp_a: Any, sp_b: Any, name: str | None) -> SparseTensor:
    first, second = as_sparse(sp_a), as_sparse(sp_b)
    graph = graph_of((first, second))
    indices, values = graph.apply(op_type, (*_parts(first), *_parts(second)), {}, name)
    return SparseTensor(indices, values, first.dense_shape)


@export("sparse_softmax", "sparse.softmax")
def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Computes the softmax over the elements that share all coordinates but the last."""
    sparse = as_sparse(sp_input)
    with name_scope(name, "SparseSoftmax", [sparse.values]):
        values = apply_op("SparseSoftmax", *_parts(sparse))
    return SparseTensor(sparse.indices, values, sparse.dense_shape)


@export("sparse_tensor_dense_matmul", "sparse.matmul", "sparse.sparse_dense_matmul")
def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """Returns the product of a sparse and a dense matrix, optionally adjoint.

    Args:
        sp_a: A sparse matrix; or a dense one if `b` is sparse.
        b: A dense matrix; or a sparse one.
        adjoint_a: Use the adjoint of the first.
        adjoint_b: Use the adjoint of the second.
        name: Name of the scope.
    """
    if isinstance(b, _SPARSE):  # (B' A')'
        product = sparse_tensor_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a)
        return arrays.transpose(product, conjugate=True)
    sparse = as_sparse(sp_a)
    with name_scope(name, "SparseTensorDenseMatMul", [sparse.values]):
        dense = convert_to_tensor(b, sparse.dtype.base if not hasattr(b, "dtype") else None, "b")
        return output_of(
            "SparseTensorDenseMatMul",
            *_parts(sparse),
            dense,
            adjoint_a=adjoint_a,
            adjoint_b=adjoint_b,
        )


def _axes(sparse: SparseTensor, axis: Any, reduction_axes: Any) -> Tensor:
    given = either("axis", axis, "reduction_axes", reduction_axes)
    if given is not None:
        return convert_to_tensor(given, int32)
    rank = sparse.dense_shape.shape.as_list()[0]
    if rank is not None:
        return convert_to_tensor(np.arange(rank, dtype=np.int32))
    return output_of("Range", 0, arrays.size(sparse.dense_shape), 1)


def _reduced(
    op_type: str,
    sp_input: Any,
    axis: Any,
    keepdims: bool | None,
    reduction_axes: Any,
    keep_dims: bool | None,
) -> Any:
    keep = bool(either("keepdims", keepdims, "keep_dims", keep_dims))
    sparse = as_sparse(sp_input)
    with sparse.graph.as_default():
        axes = _axes(sparse, axis, reduction_axes)
        return apply_op(op_type, *_parts(sparse), axes, keep_dims=keep)


@export("sparse_reduce_sum", "sparse.reduce_sum")
def sparse_reduce_sum(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Returns sums over `axis` (None: all) as a dense tensor."""
    given = (axis, keepdims, reduction_axes, keep_dims)
    result: Tensor = _reduced("SparseReduceSum", sp_input, *given)
    return result


@export("sparse_reduce_max", "sparse.reduce_max")
def sparse_reduce_max(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Returns maxima over `axis` (None: all) as a dense tensor, 0 if there are no elements."""
    given = (axis, keepdims, reduction_axes, keep_dims)
    result: Tensor = _reduced("SparseReduceMax", sp_input, *given)
    return result


@export("sparse_reduce_sum_sparse", "sparse.reduce_sum_sparse")
def sparse_reduce_sum_sparse(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> SparseTensor:
    """Returns sums over `axis` (None: all) as a sparse tensor."""
    given = (axis, keepdims, reduction_axes, keep_dims)
    return SparseTensor(*_reduced("SparseReduceSumSparse", sp_input, *given))


@export("sparse_reduce_max_sparse", "sparse.reduce_max_sparse")
def sparse_reduce_max_sparse(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> SparseTensor:
    """Returns maxima over `axis` (None: all) as a sparse tensor."""
    given = (axis, keepdims, reduction_axes, keep_dims)
    return SparseTensor(*_reduced("SparseReduceMaxSparse", sp_input, *given))


@export("edit_distance")
def edit_distance(
    hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance"
) -> Tensor:
    """Returns the Levenshtein distances between the rows of two sparse tensors.

    Args:
        hypothesis: A `SparseTensor` with sequences in its last dimension.
        truth: Another one of the same rank.
        normalize: Divide by the length of the truth.
        name: Name of the node.

    Raises:
        TypeError: One is not a sparse tensor.
    """
    for label, each in (("Hypothesis", hypothesis), ("Truth", truth)):
        if not isinstance(each, _SPARSE):
            raise TypeError(f"{label} must be a SparseTensor.")
    first, second = as_sparse(hypothesis), as_sparse(truth)
    parts = (*_parts(first), *_parts(second))
    return output_of("EditDistance", *parts, normalize=normalize, name=name)
