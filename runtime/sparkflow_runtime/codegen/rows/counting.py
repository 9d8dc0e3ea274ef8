"""Machine code that counts numbers, and values in bins of equal width.

Several tables are counted into in turn: adding to a counter that has just been stored takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.llvm_text import INDEX_KINDS, Code, Value
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_ELEMENTS: Final = {"f": "float", "d": "double", "i": "i32", "l": "i64"}
_BYTES: Final = {"float": 4, "double": 8, "i32": 4, "i64": 8}
_LANES: Final = 8
_TABLES: Final = 4
_LARGE_TABLE: Final = 1 << 12
"""From this number of counters on there is one table: the same one is rarely met again so soon."""
_LONG_ELEMENTS: Final = 4096
"""Larger inputs are processed without holding the GIL."""


def counted(numbers: Array, count: int) -> Array | None:
    """Returns how often each of 0 ... count - 1 occurs; larger numbers are ignored.

    Args:
        numbers: [n] int32 or int64.
        count: The number of counters.

    Returns:
        [count] int64; None if there is no machine code, or a number is negative.
    """
    kind = INDEX_KINDS.get(numbers.dtype)
    if kind is None or not numbers.size or not count or not native.available():
        return None
    return _run(("counts", kind), numbers, np.empty(2), count)


def histogram(values: Array, low: float, high: float, count: int) -> Array | None:
    """Returns how many values are in each of `count` bins; others are counted in the end bins.

    Args:
        values: [n] float32, float64, int32 or int64.
        low: The start of the first bin.
        high: The end of the last one.
        count: The number of bins.

    Returns:
        [count] int64; None if there is no machine code, or a value is NaN.
    """
    kind = _ELEMENTS.get(values.dtype.char)
    if kind is None or not values.dtype.isnative or not values.size or not native.available():
        return None
    return _run(("bins", kind), values, np.array([low, (high - low) / count]), count)


def _run(way: tuple[str, str], values: Array, scale: Array, count: int) -> Array | None:
    tables = 1 if count >= _LARGE_TABLE else _TABLES
    counts, state = np.empty((tables, count), np.int64), np.empty(1, np.int64)
    run = _bound((*way, tables), values.size, count)
    if not run(values, scale, counts, state) or state[0]:
        return None
    total: Array = counts[0] if tables == 1 else counts.sum(axis=0)
    return total


@latest(256)
def _bound(way: tuple[str, str, int], size: int, count: int) -> Callable[..., bool]:
    counts = (size, 2, way[-1] * count, 1)
    return _body(*way).bind((size, count), counts, 1, 1, size >= _LONG_ELEMENTS)


@once
def _body(*way: Any) -> native.Body:
    return native.written_body(text, way)


def text(what: str, kind: str, tables: int) -> str:
    """Returns the module.

    Sizes: values, and counters per table. Arrays: the values; the start and the width of bins; the
    tables; and whether a value is not allowed.

    Args:
        what: `counts` of numbers, or `bins`.
        kind: LLVM's type of a value.
        tables: How many there are.
    """
    code = Code()
    size, count = code.sizes(2)
    values, scale, counts, state = code.arrays(4)
    code.clear(counts, code.multiply(count, 8 * tables))
    starts = [code.at("i64", counts, code.multiply(count, number)) for number in range(tables)]
    wrong = code.variable(f"<{_LANES} x i1>", "zeroinitializer")
    whole = code.let(f"and i64 {size}, {-_LANES}")

    def count_some(first: Value, lanes: int) -> None:
        vector = f"<{_LANES} x {kind}>"
        here = code.at(kind, values, first)
        if lanes == _LANES:
            some = code.load(vector, here, _BYTES[kind])
        else:
            one = code.load(kind, here, _BYTES[kind])
            some = code.let(f"insertelement {vector} zeroinitializer, {kind} {one}, i64 0")
        places, bad = (_bins if what == "bins" else _numbers)(code, kind, some, scale, count)
        known = code.get(wrong, f"<{_LANES} x i1>")
        code.set(wrong, code.let(f"or <{_LANES} x i1> {known}, {bad}"), f"<{_LANES} x i1>")
        for lane in range(lanes):
            place = code.let(f"extractelement <{_LANES} x i64> {places}, i64 {lane}")
            with code.when(code.compare("ult", place, count)):
                counter = code.at("i64", starts[lane % tables], place)
                code.store("i64", code.add(code.load("i64", counter), 1), counter)

    with code.loop(0, whole, _LANES) as first:
        count_some(first, _LANES)
    with code.loop(whole, size) as first:
        count_some(first, 1)
    flags = code.get(wrong, f"<{_LANES} x i1>")
    bits = code.let(f"bitcast <{_LANES} x i1> {flags} to i{_LANES}")
    code.store("i64", code.let(f"zext i{_LANES} {bits} to i64"), state)
    return code.module()


def _numbers(code: Code, kind: str, some: str, _: str, __: str) -> tuple[str, str]:
    """The counters of numbers, and which numbers are negative."""
    wide = f"<{_LANES} x i64>"
    places = some if kind == "i64" else code.let(f"sext <{_LANES} x {kind}> {some} to {wide}")
    return places, code.let(f"icmp slt {wide} {places}, zeroinitializer")


def _bins(code: Code, kind: str, some: str, scale: str, count: str) -> tuple[str, str]:
    """The bins of values, and which values are NaN."""
    vector, wide = f"<{_LANES} x {kind}>", f"<{_LANES} x double>"

    def spread(value: str) -> str:
        first = code.let(f"insertelement {wide} poison, double {value}, i64 0")
        zeros = f"<{_LANES} x i32> zeroinitializer"
        return code.let(f"shufflevector {wide} {first}, {wide} poison, {zeros}")

    if kind != "double":
        name = "fpext" if kind == "float" else "sitofp"
        some = code.let(f"{name} {vector} {some} to {wide}")
    low, width = (spread(code.load("double", code.at("double", scale, n))) for n in range(2))
    last = spread(code.let(f"sitofp i64 {code.subtract(count, 1)} to double"))
    some = code.let(f"fsub {wide} {some}, {low}")
    some = code.let(f"fdiv {wide} {some}, {width}")
    is_missing = code.let(f"fcmp uno {wide} {some}, {some}")
    some = code.call(wide, f"llvm.floor.v{_LANES}f64", (wide, some))
    for relation, bound in (("ogt", "zeroinitializer"), ("olt", last)):
        keeps = code.let(f"fcmp {relation} {wide} {some}, {bound}")
        some = code.let(f"select <{_LANES} x i1> {keeps}, {wide} {some}, {wide} {bound}")
    return code.let(f"fptosi {wide} {some} to <{_LANES} x i64>"), is_missing
