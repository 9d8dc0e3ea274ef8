"""Rows combined sequentially into other rows by maximum, minimum or product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_ELEMENTS: Final = {"f": "float", "d": "double", "i": "i32", "l": "i64"}
_FUNCTIONS: Final = frozenset({"maximum", "minimum", "multiply"})
_BYTES: Final = {"float": 4, "double": 8, "i32": 4, "i64": 8}
_LANES: Final = 16
_LONG_ELEMENTS: Final = 4096
"""Larger inputs are processed without holding the GIL."""


def combine(function: str, rows: Array, ids: Array, out: Array) -> bool:
    """Computes `out[id] = function(out[id], row)` for each row, in order.

    Args:
        function: `maximum`, `minimum` or `multiply`, as in numpy: NaN is propagated.
        rows: [n, ...], contiguous.
        ids: [n] integers, or of n elements.
        out: [count, ...], contiguous.

    Returns:
        False, without doing anything, if there is no machine code, or an id is out of bounds.
    """
    kind = _ELEMENTS.get(rows.dtype.char)
    if kind is None or function not in _FUNCTIONS or not rows.dtype.isnative:
        return False
    if not rows.size or not len(out) or not native.available():
        return False
    if int(ids.min()) < 0 or int(ids.max()) >= len(out):
        return False
    size = rows.size // ids.size
    if out.size != len(out) * size:
        return False
    numbers = np.ascontiguousarray(ids, np.int64)
    return _bound(kind, function, ids.size, size, out.size)(rows, numbers, out)


@latest(256)
def _bound(kind: str, function: str, count: int, size: int, total: int) -> Callable[..., bool]:
    counts = (count * size, count, total)
    is_large = count * size >= _LONG_ELEMENTS
    return _body(kind, function).bind((size,), counts, count, 1, is_large)


@once
def _body(kind: str, function: str) -> native.Body:
    code = Code()
    (size,) = code.sizes(1)
    rows, ids, out = code.arrays(3)
    whole = code.let(f"and i64 {size}, {-_LANES}")
    with code.loop("%lo", "%hi") as number:
        source = code.at(kind, rows, code.multiply(number, size))
        target = code.load("i64", code.at("i64", ids, number))
        place = code.at(kind, out, code.multiply(target, size))
        with code.loop(0, whole, _LANES) as at:
            _one(code, kind, _LANES, function, (source, place), at)
        with code.loop(whole, size) as at:
            _one(code, kind, 1, function, (source, place), at)
    return native.body(code.module())


def _one(
    code: Code, kind: str, lanes: int, function: str, places: tuple[str, str], at: Value
) -> None:
    vector = kind if lanes == 1 else f"<{lanes} x {kind}>"
    truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
    source, target = (code.at(kind, each, at) for each in places)
    value, before = (code.load(vector, each, _BYTES[kind]) for each in (source, target))
    floats = kind in ("float", "double")
    if function == "multiply":
        made = code.let(f"{'f' if floats else ''}mul {vector} {before}, {value}")
    else:
        relation = "gt" if function == "maximum" else "lt"
        compare = f"fcmp o{relation}" if floats else f"icmp s{relation}"
        takes = code.let(f"{compare} {vector} {value}, {before}")
        if floats:
            missing = code.let(f"fcmp uno {vector} {value}, {value}")
            takes = code.let(f"or {truth} {takes}, {missing}")
        made = code.let(f"select {truth} {takes}, {vector} {value}, {vector} {before}")
    code.store(vector, made, target, _BYTES[kind])
