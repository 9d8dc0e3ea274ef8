"""Whether one element of each row is among the largest: a walk that ends where that is decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value, constant
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_KINDS: Final = {np.dtype(np.int32): "i32", np.dtype(np.int64): "i64"}
_LANES: Final = 64
"""Elements that are compared before it is asked whether that decides."""
_GIL_ELEMENTS: Final = 1 << 18
"""Fewer keep the interpreter to themselves."""


def in_top(rows: Array, chosen: Array, k: int) -> Array | None:
    """Whether fewer than k elements of each row are larger than the chosen one.

    False where one of the row that is looked at is infinite or no number, or where the chosen one
    does not exist.

    Args:
        rows: [rows, columns] float32.
        chosen: [rows] int32 or int64, of any values.
        k: Any number.

    Returns:
        [rows] bool; None where there is no machine code for it.
    """
    kind = _KINDS.get(chosen.dtype)
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
    size_bytes = int(kind[1:]) // 8
    with code.loop("%lo", "%hi") as number:
        given = code.load(kind, code.at(kind, chosen, number), size_bytes)
        place = given if kind == "i64" else code.let(f"sext {kind} {given} to i64")
        exists = code.compare("ult", place, columns)
        row = code.at("float", rows, code.multiply(number, columns))
        here = code.at("float", row, code.select(exists, place, 0))
        limit = code.load("float", here, 4)
        larger = code.variable("i64", 0)
        is_open = code.variable("i1", code.both(exists, code.compare("sgt", k, 0)))
        for start, stop, lanes in ((0, whole, _LANES), (whole, columns, 1)):
            with code.loop(start, stop, lanes) as column, code.when(code.get(is_open, "i1")):
                values = code.at("float", row, column)
                more, is_finite = _compared(code, values, limit, lanes)
                total = code.add(code.get(larger), more)
                code.set(larger, total)
                code.set(is_open, code.both(is_finite, code.compare("slt", total, k)), "i1")
        answer = code.let(f"zext i1 {code.get(is_open, 'i1')} to i8")
        code.store("i8", answer, code.at("i8", found, number), 1)
    return native.body(code.module())


def _compared(code: Code, address: str, limit: str, lanes: int) -> tuple[Value, str]:
    """How many of some numbers are larger than one, and whether all are finite."""
    vector, bits = f"<{lanes} x float>", f"i{lanes}"
    values = code.load(vector, address, 4)
    first = code.let(f"insertelement {vector} poison, float {limit}, i64 0")
    limits = code.let(
        f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer"
    )
    larger = code.let(f"fcmp ogt {vector} {values}, {limits}")
    sizes = code.call(vector, f"llvm.fabs.v{lanes}f32", (vector, values))
    infinite = f"splat (float {constant(np.inf, 'float')})"
    odd = code.let(f"fcmp uge {vector} {sizes}, {infinite}")
    flags, odds = (code.let(f"bitcast <{lanes} x i1> {each} to {bits}") for each in (larger, odd))
    is_finite = code.let(f"icmp eq {bits} {odds}, 0")
    if lanes == 1:
        return code.let(f"zext i1 {flags} to i64"), is_finite
    return code.call("i64", "llvm.ctpop.i64", ("i64", flags)), is_finite
