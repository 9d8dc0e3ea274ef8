"""Values combined into elements of an array, several possibly into the same element."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.ops.op import Array


def elements_of_rows(xp: Any, indices: Array, row_size: int) -> Array:
    """The flat positions of all elements of these rows, row after row.

    `ufunc.at` on flat arrays runs in C without an iterator: adding 4096 rows of 64 float32 takes
    0.6 ms against 2.9 ms with row indices (numpy 2.4, 2026-11-21).
    """
    starts = indices.reshape(-1).astype(xp.int64) * row_size
    if row_size == 1:
        return starts
    return (starts[:, None] + xp.arange(row_size, dtype=xp.int64)).reshape(-1)


def combine_at(xp: Any, how: str, whole: Array, places: Array, values: Array) -> None:
    """Computes `whole[place] = how(whole[place], value)` for each value, in place.

    On a CPU values are applied to an element in order; on a GPU in any order.

    Args:
        xp: numpy or cupy.
        how: `add`, `subtract`, `maximum`, `minimum`, `multiply` or `divide`.
        whole: [n], contiguous.
        places: [m] of int64, each of [0, n).
        values: [m], or a scalar, of the same dtype.
    """
    if xp is np:
        getattr(np, how).at(whole, places, values)
        return
    from sparkflow_runtime.device import gpu_scatter

    gpu_scatter.combine_at(xp, how, whole, places, values)
