"""Slices set, added or compared where vectors of coordinates point.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/indexing/scattering.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "scatter_nd",
    "tensor_scatter_add",
    "tensor_scatter_max",
    "tensor_scatter_min",
    "tensor_scatter_sub",
    "tensor_scatter_update",
]


def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Tensor:
    """Zeros of shape `shape` with the updates added where the vectors in `indices` point.

    Args:
        indices: [..., depth] integers.
        updates: indices.shape[:-1] + shape[depth:]. Any number, bool or string.
        shape: A vector of the type of `indices`.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `updates`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("ScatterNd", indices, updates, shape, name=name)
    return result


def tensor_scatter_update(
    tensor: Any, indices: Any, updates: Any, name: str | None = None
) -> Tensor:
    """A copy of `tensor` with slices replaced, arguments as for `scatter_nd`.

    Args:
        tensor: Tensor of rank 2 or more of any type.
        indices: Tensor of rank 1 or more of int32 or int64.
        updates: Tensor [...] of the dtype of `tensor`.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `tensor`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("TensorScatterUpdate", tensor, indices, updates, name=name)
    return result


def tensor_scatter_add(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """A copy of `tensor` with the updates added, arguments as for `scatter_nd`.

    Args:
        tensor: Tensor of rank 2 or more of any number.
        indices: Tensor of rank 1 or more of int32 or int64.
        updates: Tensor [...] of the dtype of `tensor`.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `tensor`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("TensorScatterAdd", tensor, indices, updates, name=name)
    return result


def tensor_scatter_sub(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """A copy of `tensor` with the updates subtracted, arguments as for `scatter_nd`.

    Args:
        tensor: Tensor of rank 2 or more of any number.
        indices: Tensor of rank 1 or more of int32 or int64.
        updates: Tensor [...] of the dtype of `tensor`.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `tensor`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("TensorScatterSub", tensor, indices, updates, name=name)
    return result


def tensor_scatter_min(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """A copy of `tensor` lowered to the updates, arguments as for `scatter_nd`.

    Args:
        tensor: Tensor of rank 2 or more of any real number.
        indices: Tensor of rank 1 or more of int32 or int64.
        updates: Tensor [...] of the dtype of `tensor`.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `tensor`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("TensorScatterMin", tensor, indices, updates, name=name)
    return result


def tensor_scatter_max(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """A copy of `tensor` raised to the updates, arguments as for `scatter_nd`.

    Args:
        tensor: Tensor of rank 2 or more of any real number.
        indices: Tensor of rank 1 or more of int32 or int64.
        updates: Tensor [...] of the dtype of `tensor`.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `tensor`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("TensorScatterMax", tensor, indices, updates, name=name)
    return result
