"""The order of the elements of rows, largest first, on a host.

Long rows are sorted by digits, see `radix`. numpy's stable sort compares elements one by one,
through their indices. Where a number and its position fit into an int64, that is sorted instead:
rows of 128 take a tenth of the time (2026-11-29, Zen 4).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.rows import radix

Array = np.ndarray[Any, Any]
LEAST_SORTED: Final = 1 << 12
"""Fewer elements are sorted as fast by numpy's stable sort."""
_POSITION_BITS: Final = 32
_POSITIONS: Final = (1 << _POSITION_BITS) - 1
_LONG: Final = 1 << 14
"""Rows from this length are searched one by one for their largest elements."""
_BLOCKS_PER_ELEMENT: Final = 8
"""With this many blocks for each element that is looked for, few others pass the threshold."""


def descending(value: Array, xp: Any = np) -> Array:
    """Returns the indices that sort each row, largest first; of equal elements the first is first.

    NaN is larger than all numbers.

    Args:
        value: [..., row] of real numbers.
        xp: Its module, numpy or cupy.

    Returns:
        Integers of the same shape.
    """
    size = value.shape[-1]
    if xp is not np:
        return _stable(value, xp)
    if value.dtype.itemsize == 2 and value.dtype.kind not in "iu":
        value = value.astype(np.float32)
    found = radix.descending(value, size)
    if found is not None:
        return found[1]
    keys = _keys(value) if value.size >= LEAST_SORTED and size <= _POSITIONS else None
    if keys is None:
        return _stable(value, np)
    keys <<= _POSITION_BITS
    keys |= np.arange(size)
    keys.sort(axis=-1)
    keys &= _POSITIONS
    return keys


def largest_of_long(row: Array, count: int) -> Array | None:
    """Returns the indices of the largest elements of a long row, in the order of `descending`.

    Args:
        row: A vector.
        count: How many.

    Returns:
        [count] indices; None for a row or a count for which another way is faster, and for NaN.
    """
    blocks = _BLOCKS_PER_ELEMENT * count
    if row.size < max(_LONG, 2 * blocks):
        return None
    length = row.size // blocks
    # Elements with a distance of `blocks` form a block: maxima of whole vectors.
    maxima = row[: blocks * length].reshape(length, blocks).max(axis=0)
    rest = row[blocks * length :]
    if np.isnan(maxima).any() or np.isnan(rest).any():
        return None
    # At least `count` elements are not less than the maximum of the block that is in this place.
    threshold = np.partition(maxima, blocks - count)[blocks - count]
    candidates = np.flatnonzero(row >= threshold)
    return candidates[descending(row[candidates])[:count]]


def _stable(value: Array, xp: Any) -> Array:
    # A stable ascending sort of the reversed row, read backwards.
    last = value.shape[-1] - 1
    order: Array = last - xp.argsort(value[..., ::-1], axis=-1, kind="stable")
    return order[..., ::-1]


def _keys(value: Array) -> Array | None:
    """The int64 whose ascending order is that of the numbers, largest first; within 32 bits.

    None for numbers that need more.
    """
    if value.dtype == np.float32:
        bits = (value + np.float32(0)).view(np.int32)  # -0 becomes 0
        # In the order of the numbers: the other bits of negative ones count backwards.
        bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)
        is_nan = np.isnan(value)
        if is_nan.any():
            bits[is_nan] = 0x7FFFFFFF
        return (~bits).astype(np.int64)
    kind, fits = value.dtype.kind, value.dtype.itemsize <= _POSITION_BITS // 8
    if kind == "i" and fits:
        return ~value.astype(np.int64)
    if kind == "u" and fits:
        return (1 << 31) - 1 - value.astype(np.int64)
    return None
