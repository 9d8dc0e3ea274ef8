"""Partitioners: functions that say into how many parts a variable is cut along each axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sparkflow._api import export
from sparkflow_runtime.dtypes import as_dtype, string

Partitioner = Callable[..., list[int]]


@export("fixed_size_partitioner")
def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Cuts along `axis` into `num_shards` parts, or into one per row where there are fewer rows."""

    def partitioner(shape: Any, **_: Any) -> list[int]:
        parts = [1] * len(shape)
        parts[axis] = min(num_shards, _sizes(shape)[axis])
        return parts

    return partitioner


@export("variable_axis_size_partitioner")
def variable_axis_size_partitioner(
    max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16, max_shards: Any = None
) -> Partitioner:
    """Cuts along `axis` such that no part is larger than `max_shard_bytes`.

    Args:
        max_shard_bytes: At least 1.
        axis: The axis to cut along.
        bytes_per_string_element: The size to reckon with for a string.
        max_shards: At most so many parts; no limit when None.

    Raises:
        ValueError: A bound is less than 1.
    """
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError(
            "Both max_shard_bytes and bytes_per_string_element must be positive, got "
            f"{max_shard_bytes} and {bytes_per_string_element}."
        )
    if max_shards and max_shards < 1:
        raise ValueError(f"max_shards must be positive, got {max_shards}.")

    def partitioner(shape: Any, dtype: Any, **_: Any) -> list[int]:
        sizes = _sizes(shape)
        parts = [1] * len(sizes)
        kind = as_dtype(dtype).base
        element = bytes_per_string_element if kind is string else kind.size
        slice_bytes = element * math.prod(sizes) // max(1, sizes[axis])
        # At least a whole slice per part, although that may be more than asked for.
        per_part = max(1, max_shard_bytes // max(1, slice_bytes))
        count = math.ceil(sizes[axis] / per_part)
        if max_shards:
            count = min(max_shards, count)
        parts[axis] = count
        return parts

    return partitioner


@export("min_max_variable_partitioner")
def min_max_variable_partitioner(
    max_partitions: int = 1,
    axis: int = 0,
    min_slice_size: int = 256 << 10,
    bytes_per_string_element: int = 16,
) -> Partitioner:
    """Cuts along `axis` into as many parts of at least `min_slice_size` bytes as allowed.

    Args:
        max_partitions: At most so many parts.
        axis: The axis to cut along.
        min_slice_size: The least bytes in a part.
        bytes_per_string_element: The size to reckon with for a string.

    Raises:
        ValueError: A bound is less than 1.
    """
    if max_partitions < 1:
        raise ValueError("max_partitions must be positive")
    if min_slice_size < 1:
        raise ValueError("min_slice_size must be positive")
    if bytes_per_string_element < 1:
        raise ValueError("bytes_per_string_element must be positive")

    def partitioner(shape: Any, dtype: Any, **_: Any) -> list[int]:
        sizes = _sizes(shape)
        if axis >= len(sizes):
            raise ValueError(f"Cannot partition variable along axis {axis} when shape is {shape}")
        kind = as_dtype(dtype).base
        element = bytes_per_string_element if kind is string else kind.size
        parts = [1] * len(sizes)
        useful = math.prod(sizes) * element // min_slice_size
        parts[axis] = max(1, min(sizes[axis], max_partitions, useful))
        return parts

    return partitioner


def _sizes(shape: Any) -> list[int]:
    """The sizes of a shape that a variable has, complete.

    Raises:
        ValueError: It is not complete.
    """
    if hasattr(shape, "is_fully_defined") and not shape.is_fully_defined():
        raise ValueError(f"Shape must be fully defined to be partitioned, but is {shape}")
    return [int(size) for size in (shape.as_list() if hasattr(shape, "as_list") else shape)]
