"""Shapes and their changes: reshape, transpose, concat, split, tile, pad, gather, slices.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/shape/arrays.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.dispatch import or_ragged

__all__ = [
    "broadcast_to",
    "gather_nd",
    "reshape",
    "reverse",
    "slice",
    "tile",
]


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1, which means what is left.

    Args:
        tensor: Tensor [...] of any type.
        shape: Vector of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `tensor`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("Reshape", tensor, shape, name=name)
    return result


@or_ragged
def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeats the whole `multiples[i]` times along dimension i.

    Args:
        input: Tensor of rank 2 or more of any type.
        multiples: Vector of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("Tile", input, multiples, name=name)
    return result


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Repeats dimensions of size 1 until the shape is `shape`.

    Args:
        input: Tensor [...] of any type.
        shape: Vector of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("BroadcastTo", input, shape, name=name)
    return result


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """The elements along `axis` (a list of axes) in reverse order.

    Args:
        tensor: Tensor [...] of any type.
        axis: Vector of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `tensor`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("ReverseV2", tensor, axis, name=name)
    return result


def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """The block of `size` that starts at `begin`; a size of -1 means all that is left.

    Args:
        input_: Tensor of any type.
        begin: Vector of int32 or int64.
        size: Vector of the dtype of `begin`.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `input_`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("Slice", input_, begin, size, name=name)
    return result


@or_ragged
def gather_nd(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """The elements or slices of `params` at the coordinates in the last dimension of `indices`.

    Args:
        params: Tensor of rank 1 or more of any type.
        indices: Tensor of rank 1 or more of int32, int16 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `params`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("GatherNd", params, indices, name=name)
    return result
