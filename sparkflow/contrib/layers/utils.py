"""`tf.contrib.layers.utils`, also `slim.utils`: names of results, and what shapes and sizes say."""

from __future__ import annotations

from typing import Any

from sparkflow.contrib.framework import smart_cond
from sparkflow.contrib.layers.variables import (
    append_tensor_alias,
    collect_named_outputs,
    convert_collection_to_dict,
    gather_tensors_aliases,
    get_tensor_aliases,
)

__all__ = [
    "append_tensor_alias",
    "channel_dimension",
    "collect_named_outputs",
    "convert_collection_to_dict",
    "gather_tensors_aliases",
    "get_tensor_aliases",
    "last_dimension",
    "n_positive_integers",
    "smart_cond",
    "two_element_tuple",
]


def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> int:
    """Returns the number of channels.

    Args:
        shape: A `TensorShape`.
        data_format: Begins with `NC` if channels come second; they come last otherwise.
        min_rank: What the shape must have dimensions at least.

    Raises:
        ValueError: The shape has fewer dimensions, or the number of channels is unknown.
    """
    return _dimension(shape, 1 if data_format.startswith("NC") else -1, min_rank)


def last_dimension(shape: Any, min_rank: int = 1) -> int:
    """Returns the size of the last dimension.

    Args:
        shape: A `TensorShape`.
        min_rank: What the shape must have dimensions at least.

    Raises:
        ValueError: The shape has fewer dimensions, or the size is unknown.
    """
    return _dimension(shape, -1, min_rank)


def _dimension(shape: Any, place: int, min_rank: int) -> int:
    if shape.ndims is None:
        raise ValueError("dims of shape must be known but is None")
    if shape.ndims < min_rank:
        raise ValueError(f"rank of shape must be at least {min_rank} not: {shape.ndims}")
    size: int | None = shape.as_list()[place]
    if size is None:
        raise ValueError(f"dimension {place} of shape must be known but is None")
    return size


def two_element_tuple(int_or_tuple: Any) -> tuple[int, int]:
    """Returns two sizes from one for both, or from two.

    Raises:
        ValueError: There is another number of them.
    """
    if isinstance(int_or_tuple, int):
        return int_or_tuple, int_or_tuple
    sizes = tuple(int(each) for each in getattr(int_or_tuple, "dims", None) or int_or_tuple)
    if len(sizes) != 2:
        raise ValueError(f"Must be a list with 2 elements: {int_or_tuple}")
    return sizes[0], sizes[1]


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """Returns n positive sizes from one for all, or from n.

    Raises:
        ValueError: There is another number of them, or one is not positive.
    """
    sizes = (int(value),) * n if isinstance(value, int) else tuple(int(each) for each in value)
    if len(sizes) != n:
        raise ValueError(f"Expected an integer or a sequence of {n} integers, got {value}")
    if any(size < 1 for size in sizes):
        raise ValueError(f"Expected positive integers, got {value}")
    return sizes
