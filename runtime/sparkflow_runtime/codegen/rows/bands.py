"""The band of a matrix around its diagonal, with zeros elsewhere, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.llvm_text import Code
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_SHARED_BYTES: Final = 1 << 20
"""Smaller inputs are processed by a single thread."""


def fill_band(matrices: Array, lower: int, upper: int, out: Array) -> bool:
    """Writes the bands of matrices to an array of the same shape.

    Args:
        matrices: [..., rows, columns].
        lower: Diagonals below the main one; negative for all of them.
        upper: Diagonals above it, likewise.
        out: A contiguous array.

    Returns:
        False, without doing anything, if there is no machine code for them.
    """
    if matrices.dtype.hasobject or not matrices.size or not native.available():
        return False
    rows, columns = matrices.shape[-2:]
    below, above = (each if each >= 0 else rows + columns for each in (lower, upper))
    shares = matrices.nbytes >= _SHARED_BYTES
    key = (matrices.size, rows, columns, below, above, matrices.itemsize)
    return _bound(*key, threads.count() if shares else 1)(matrices, out)


@latest(256)
def _bound(
    count: int, rows: int, columns: int, lower: int, upper: int, item_bytes: int, thread_count: int
) -> Callable[..., bool]:
    sizes = (rows, columns, lower, upper, item_bytes)
    extent = count // columns
    is_large = count * item_bytes >= _SHARED_BYTES
    return _body().bind(sizes, (count, count), extent, min(thread_count, extent), is_large)


@once
def _body() -> native.Body:
    code = Code()
    rows, columns, lower, upper, item_bytes = code.sizes(5)
    source, target = code.arrays(2)
    line = code.multiply(columns, item_bytes)
    with code.loop("%lo", "%hi") as number:
        row = code.let(f"srem i64 {number}, {rows}")
        first = code.smaller(code.larger(code.subtract(row, lower), 0), columns)
        end = code.smaller(code.add(code.add(row, upper), 1), columns)
        last = code.larger(end, first)
        start = code.multiply(number, line)
        left, right = code.multiply(first, item_bytes), code.multiply(last, item_bytes)
        here, there = code.at("i8", source, start), code.at("i8", target, start)
        code.clear(there, left)
        code.copy(code.at("i8", there, left), code.at("i8", here, left), code.subtract(right, left))
        code.clear(code.at("i8", there, right), code.subtract(line, right))
    return native.body(code.module())
