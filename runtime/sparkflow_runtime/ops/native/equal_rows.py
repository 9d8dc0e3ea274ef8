"""Sums of rows of equal index, in machine code if it supports the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.ops.kernels.combining import combine_at, elements_of_rows
from sparkflow_runtime.ops.native import row_kernels
from sparkflow_runtime.ops.op import Array


def sum_by_segment(
    xp: Any, data: Array, ids: Array, count: int, sources: Array | None = None
) -> Array:
    """Row s of the result is the sum of the rows of `data` whose id is s.

    Without machine code `np.add.at` on flat positions beats sorting with `reduceat` and `bincount`
    per column: 4096 rows of 64 float32 into 10,000 segments take 0.6 ms against 2.1 and 8.6 ms
    (numpy 2.4, 2026-11-21).

    Args:
        xp: numpy or cupy.
        data: [rows, ...].
        ids: [rows] integers in [0, count).
        count: The number of segments.
        sources: [rows] the row numbers of `data` to use, instead of all in order.
    """
    if xp is np and (found := row_kernels.sum_rows(data, ids, count, sources)) is not None:
        return found
    if sources is not None:
        data = data[sources]
    sums = xp.zeros((count, *data.shape[1:]), data.dtype)
    if data.size:
        where = elements_of_rows(xp, ids, sums[:1].size)
        if data.dtype == np.bool_:
            sums.reshape(-1)[where[data.reshape(-1)]] = True
        else:
            combine_at(xp, "add", sums.reshape(-1), where, data.reshape(-1))
    return sums


def numbered(xp: Any, indices: Array) -> tuple[Array, Array]:
    """The distinct ones of [n] integers, and the index of each among them.

    They are in order of appearance if machine code finds them, else ascending.
    """
    if xp is np and (found := row_kernels.distinct(indices)) is not None:
        first, number = found
        return indices[first], number
    distinct, number = xp.unique(indices, return_inverse=True)
    return distinct, number


def sum_duplicates(xp: Any, indices: Array, values: Array) -> tuple[Array, Array]:
    """Distinct indices and, for each, the sum of its rows of `values`.

    Args:
        xp: numpy or cupy.
        indices: [n] integers.
        values: [n, ...].

    Returns:
        Both in the order of `numbered`; the arguments unchanged if no index is repeated.
    """
    distinct, number = numbered(xp, indices)
    if distinct.size == indices.size:
        return indices, values
    return distinct, sum_by_segment(xp, values, number, distinct.size)


def sum_equal(indices: Array, values: Array) -> tuple[Array, Array, Array]:
    """As `sum_duplicates` in numpy, but always into new arrays.

    Returns:
        The distinct indices, the sums, and the number of each index among the distinct ones.
    """
    distinct, number = numbered(np, indices)
    return distinct, sum_by_segment(np, values, number, distinct.size), number
