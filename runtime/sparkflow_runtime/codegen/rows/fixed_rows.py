"""Gather, segment sum and argmax kernels for sizes known at compile time, for compiled loops.

`sparse_rows` handles tables of any size, prefetches rows, and divides its work between threads.
These kernels are called in every iteration of a loop, for a few rows. Only indices are checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value, Vectors, constant
from sparkflow_runtime.dtypes import DType, float32, float64, int32, int64
from sparkflow_runtime.once import latest

_KINDS: Final = {float32: "float", float64: "double", int32: "i32", int64: "i64"}
INDICES: Final = (int32, int64)
NUMBERS: Final = (*INDICES, float32, float64)
FLOATS: Final = (float32, float64)
"""Element types for which several extremes are searched at once."""
_KNOWN_BYTES: Final = 64
"""Shorter rows have specialised kernels, which copy inline."""


def bind_gather(index: DType, count: int, rows: int, row_bytes: int) -> Callable[..., bool]:
    """Returns a function of table, indices and out: `out[i] = table[indices[i]]`.

    Args:
        index: int32 or int64.
        count: Number of indices.
        rows: Rows of the table. A last array, an int32, reports an index out of bounds.
        row_bytes: Size of a row.
    """
    known = row_bytes if row_bytes < _KNOWN_BYTES else 0
    return _gather(index, known).bind((count, rows, row_bytes), [entry.NOT_COUNTED] * 4, 0)


def bind_segment_sum(
    index: DType, number: DType, count: int, segments: int, row: int, adds: bool = False
) -> Callable[..., bool]:
    """Returns a function of rows, their segments and the segment sums, which it sets.

    Args:
        index: Dtype of the segment ids: int32 or int64. Rows of negative ones are dropped.
        number: Element type, one of `NUMBERS`.
        count: Number of rows.
        segments: Number of segments. A last array, an int32, reports an id beyond.
        row: Elements per row.
        adds: Whether the rows are added to existing sums instead.
    """
    sizes = (count, segments, row)
    return _segment_sum(index, number, adds).bind(sizes, [entry.NOT_COUNTED] * 4, 0)


def bind_extreme(
    number: DType, position: DType, is_least: bool, shape: tuple[int, int, int]
) -> Callable[..., bool]:
    """Returns a function of an array and the positions of first extremes that it fills.

    NaN is no extreme: the position is 0 where there is nothing else, as in TensorFlow.

    Args:
        number: Element type of the array, one of `NUMBERS`.
        position: int32 or int64.
        is_least: Whether to search for the smallest elements.
        shape: Number of elements before, along and after the axis.
    """
    make = _extreme_in_lanes if number in FLOATS else _extreme
    return make(number, position, is_least).bind(shape, [entry.NOT_COUNTED] * 2, 0)


def bind_extreme_again(
    number: DType, is_least: bool, shape: tuple[int, int]
) -> Callable[..., bool]:
    """Returns a function of an array and positions in its rows that numpy found.

    For numpy the first NaN is the extreme. Those rows are searched again, as by `bind_extreme`.

    Args:
        number: float32 or float64.
        is_least: Whether the smallest elements were searched for.
        shape: Number of rows and elements per row.
    """
    return _extreme_again(number, is_least).bind(shape, [entry.NOT_COUNTED] * 2, 0)


def _index(code: Code, index: DType, indices: str, place: Value) -> str:
    """Loads an element of an index array, as int64."""
    return code.load_index(_KINDS[index], indices, place)


@latest(64)
def _gather(index: DType, row_bytes: int) -> native.Body:
    code = Code()
    count, rows, size = code.sizes(3)
    width: Value = row_bytes or size
    table, indices, out, failure = code.arrays(4)
    code.store("i32", 0, failure, 4)
    with code.loop(0, count) as i:
        at = _index(code, index, indices, i)
        outside = code.compare("uge", at, rows)
        with code.when(outside):
            code.store("i32", 1, failure, 4)
        with code.unless(outside):
            source = code.at("i8", table, code.multiply(at, width))
            code.copy(code.at("i8", out, code.multiply(i, width)), source, width)
    return native.body(code.module())


@latest(32)
def _segment_sum(index: DType, number: DType, adds: bool) -> native.Body:
    code, kind = Code(), _KINDS[number]
    count, segments, row = code.sizes(3)
    rows, ids, sums, failure = code.arrays(4)
    code.store("i32", 0, failure, 4)
    if not adds:
        code.clear(sums, code.multiply(code.multiply(segments, row), number.size))
    add = "fadd" if number.is_floating else "add"
    with code.loop(0, count) as i:
        at = _index(code, index, ids, i)
        with code.when(code.compare("sge", at, segments)):
            code.store("i32", 1, failure, 4)
        with code.when(code.compare("ult", at, segments)):
            source = code.at(kind, rows, code.multiply(i, row))
            target = code.at(kind, sums, code.multiply(at, row))
            with code.loop(0, row) as k:
                place = code.at(kind, target, k)
                term = code.load(kind, code.at(kind, source, k), number.size)
                total = code.load(kind, place, number.size)
                code.store(kind, code.let(f"{add} {kind} {total}, {term}"), place, number.size)
    return native.body(code.module())


@latest(16)
def _extreme(number: DType, position: DType, is_least: bool) -> native.Body:
    code, kind = Code(), _KINDS[number]
    before, along, behind = code.sizes(3)
    array, out = code.arrays(2)
    best, where = code.variable(kind), code.variable("i64")
    relation = "lt" if is_least else "gt"
    with code.loop(0, before) as i, code.loop(0, behind) as j:
        first = code.at(kind, array, code.add(code.multiply(i, code.multiply(along, behind)), j))
        code.set(best, code.load(kind, first, number.size), kind)
        code.set(where, 0)
        with code.loop(1, along) as k:
            value = code.load(kind, code.at(kind, first, code.multiply(k, behind)), number.size)
            so_far = code.get(best, kind)
            is_better = code.let(f"icmp s{relation} {kind} {value}, {so_far}")
            code.set(
                best, code.let(f"select i1 {is_better}, {kind} {value}, {kind} {so_far}"), kind
            )
            code.set(where, code.select(is_better, k, code.get(where)))
        found: str = code.get(where)
        if position is int32:
            found = code.let(f"trunc i64 {found} to i32")
        into, to = _KINDS[position], code.add(code.multiply(i, behind), j)
        code.store(into, found, code.at(into, out, to), position.size)
    return native.body(code.module())


@latest(16)
def _extreme_in_lanes(number: DType, position: DType, is_least: bool) -> native.Body:
    """Each lane walks along one line of the array of floats, with any strides."""
    code, kind = Code(), _KINDS[number]
    vectors = Vectors.whole(code, kind)
    lanes, wide = vectors.lanes, f"<{vectors.lanes} x i64>"
    before, along, behind = code.sizes(3)
    array, out = code.arrays(2)
    best, where = code.variable(vectors.kind), code.variable(wide)
    relation = "olt" if is_least else "ogt"  # false for NaN
    worst = vectors.constant(math.inf if is_least else -math.inf)
    numbers = f"<{', '.join(f'i64 {n}' for n in range(lanes))}>"

    def splat(value: Value) -> str:
        first = code.let(f"insertelement {wide} poison, i64 {value}, i64 0")
        lanes_of = f"<{lanes} x i32> zeroinitializer"
        return code.let(f"shufflevector {wide} {first}, {wide} poison, {lanes_of}")

    def walk(count: Value, target: str, load: Callable[[Value, str], str]) -> None:
        """Searches one line per lane; `load` returns element k of each."""
        mask = vectors.first(count)
        first = load(0, mask)
        is_number = code.let(f"fcmp ord {vectors.kind} {first}, {first}")
        code.set(best, vectors.select(is_number, first, worst), vectors.kind)
        code.set(where, "zeroinitializer", wide)
        with code.loop(1, along) as k:
            value, so_far = load(k, mask), code.get(best, vectors.kind)
            is_better = code.let(f"fcmp {relation} {vectors.kind} {value}, {so_far}")
            code.set(best, vectors.select(is_better, value, so_far), vectors.kind)
            place = code.get(where, wide)
            place = code.let(
                f"select {vectors.truth} {is_better}, {wide} {splat(k)}, {wide} {place}"
            )
            code.set(where, place, wide)
        found, into = code.get(where, wide), f"<{lanes} x {_KINDS[position]}>"
        if position is int32:
            found = code.let(f"trunc {wide} {found} to {into}")
        code.invoke(
            f"llvm.masked.store.v{lanes}{_KINDS[position]}.p0",
            *((into, found), ("ptr", target), ("i32", position.size), (vectors.truth, mask)),
        )

    in_order = code.compare("sge", code.multiply(behind, 2), lanes)
    with code.when(in_order), code.loop(0, before) as i, code.loop(0, behind, lanes) as j:
        start = code.add(code.multiply(i, code.multiply(along, behind)), j)
        line = code.at(kind, array, start)
        target = code.at(_KINDS[position], out, code.add(code.multiply(i, behind), j))
        walk(
            code.subtract(behind, j),
            target,
            lambda k, mask: vectors.load(line, code.multiply(k, behind), mask),
        )
    total = code.multiply(before, behind)
    with code.unless(in_order), code.loop(0, total, lanes) as n:
        line_numbers = code.let(f"add {wide} {splat(n)}, {numbers}")
        behinds = splat(behind)
        outer = code.let(f"udiv {wide} {line_numbers}, {behinds}")
        inner = code.let(f"urem {wide} {line_numbers}, {behinds}")
        outer = code.let(f"mul {wide} {outer}, {splat(code.multiply(along, behind))}")
        starts = code.let(f"add {wide} {outer}, {inner}")

        def gathered(k: Value, mask: str) -> str:
            line = code.at(kind, array, code.multiply(k, behind))
            places = code.let(f"getelementptr {kind}, ptr {line}, {wide} {starts}")
            return code.call(
                vectors.kind,
                f"llvm.masked.gather.{vectors.suffix}.v{lanes}p0",
                (f"<{lanes} x ptr>", places),
                ("i32", number.size),
                (vectors.truth, mask),
                (vectors.kind, "zeroinitializer"),
            )

        walk(code.subtract(total, n), code.at(_KINDS[position], out, n), gathered)
    return native.body(code.module())


@latest(4)
def _extreme_again(number: DType, is_least: bool) -> native.Body:
    code, kind = Code(), _KINDS[number]
    rows, along = code.sizes(2)
    array, positions = code.arrays(2)
    best, where = code.variable(kind), code.variable("i64")
    relation = "olt" if is_least else "ogt"  # false for NaN
    worst = constant(math.inf if is_least else -math.inf, kind)
    with code.loop(0, rows) as i:
        line = code.at(kind, array, code.multiply(i, along))
        position = code.at("i64", positions, i)
        found = code.load(kind, code.at(kind, line, code.load("i64", position, 8)), number.size)
        with code.when(code.let(f"fcmp uno {kind} {found}, {found}")):
            code.set(best, worst, kind)
            code.set(where, 0)
            with code.loop(0, along) as k:
                value, so_far = (
                    code.load(kind, code.at(kind, line, k), number.size),
                    code.get(best, kind),
                )
                is_better = code.let(f"fcmp {relation} {kind} {value}, {so_far}")
                code.set(
                    best, code.let(f"select i1 {is_better}, {kind} {value}, {kind} {so_far}"), kind
                )
                code.set(where, code.select(is_better, k, code.get(where)))
            code.store("i64", code.get(where), position, 8)
    return native.body(code.module())
