"""Whether one element of each row is among the k largest, with early exit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.llvm_text import INDEX_KINDS, Code, Value, Vectors
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_LANES: Final = 64
"""Number of elements compared between checks for an early exit."""
_GIL_ELEMENTS: Final = 1 << 18
"""Smaller inputs are processed while holding the GIL."""


def in_top(rows: Array, chosen: Array, k: int) -> Array | None:
    """Whether fewer than k elements of each row are larger than the chosen one.

    False if an examined element of the row is infinite or NaN, or if the chosen one does not exist.

    Args:
        rows: [rows, columns] float32.
        chosen: [rows] int32 or int64, of any values.
        k: Any number.

    Returns:
        [rows] bool; None if there is no machine code for it.
    """
    kind = INDEX_KINDS.get(chosen.dtype)
    if kind is None or rows.dtype != np.float32 or not rows.size or not native.available():
        return None
    count, columns = rows.shape
    found = np.empty(count, np.bool_)
    return found if _bound(kind, count, columns, k)(rows, chosen, found) else None


@latest(256)
def _bound(kind: str, rows: int, columns: int, k: int) -> Callable[..., bool]:
    counts = (rows * columns, rows, rows)
    return _body(kind).bind((columns, k), counts, rows, 1, rows * columns >= _GIL_ELEMENTS)


@once
def _body(kind: str) -> native.Body:
    code = Code()
    columns, k = code.sizes(2)
    rows, chosen, found = code.arrays(3)
    whole = code.let(f"and i64 {columns}, {-_LANES}")
    with code.loop("%lo", "%hi") as number:
        place = code.load_index(kind, chosen, number)
        exists = code.compare("ult", place, columns)
        row = code.at("float", rows, code.multiply(number, columns))
        here = code.at("float", row, code.select(exists, place, 0))
        limit = code.load("float", here, 4)
        larger = code.variable("i64", 0)
        is_open = code.variable("i1", code.both(exists, code.compare("sgt", k, 0)))
        for start, stop, lanes in ((0, whole, _LANES), (whole, columns, 1)):
            with code.loop(start, stop, lanes) as column, code.when(code.get(is_open, "i1")):
                more, is_finite = _compared(Vectors(code, "float", lanes), row, column, limit)
                total = code.add(code.get(larger), more)
                code.set(larger, total)
                code.set(is_open, code.both(is_finite, code.compare("slt", total, k)), "i1")
        answer = code.let(f"zext i1 {code.get(is_open, 'i1')} to i8")
        code.store("i8", answer, code.at("i8", found, number), 1)
    return native.body(code.module())


def _compared(vectors: Vectors, row: str, column: Value, limit: str) -> tuple[Value, str]:
    """Counts a vector's lanes that are larger than a number; also whether all are finite."""
    code, kind, bits = vectors.code, vectors.kind, f"i{vectors.lanes}"
    values = vectors.load(row, column)
    larger = code.let(f"fcmp ogt {kind} {values}, {vectors.splat(limit)}")
    sizes = code.call(kind, f"llvm.fabs.{vectors.suffix}", (kind, values))
    odd = code.let(f"fcmp uge {kind} {sizes}, {vectors.constant(np.inf)}")
    flags, odds = (code.let(f"bitcast {vectors.truth} {each} to {bits}") for each in (larger, odd))
    is_finite = code.let(f"icmp eq {bits} {odds}, 0")
    if vectors.lanes == 1:
        return code.let(f"zext i1 {flags} to i64"), is_finite
    return code.call("i64", "llvm.ctpop.i64", ("i64", flags)), is_finite
