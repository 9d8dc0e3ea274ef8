"""Machine code that combines the rows of each segment: sums, means, extremes and products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final, Literal

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.llvm_text import INDEX_KINDS, Code, Value, constant
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
Finish = Literal["", "mean", "zero"]
"""What happens to the combined rows: nothing; sums become means; absent segments become zero."""
_ELEMENTS: Final = {"f": "float", "d": "double", "i": "i32", "l": "i64"}
_BYTES: Final = {"float": 4, "double": 8, "i32": 4, "i64": 8}
_LANES: Final = 16
_STRIPS: Final = ((_LANES, 4), (_LANES, 1), (4, 1), (1, 1))
"""Lanes and vectors of the strips of columns in which ordered rows are combined."""
_LONG_ELEMENTS: Final = 4096
"""Larger inputs are processed without holding the GIL."""
_SHARED_BYTES: Final = 1 << 20
"""Smaller inputs are processed by a single thread."""
_SHARED_COLUMNS: Final = 2 * _LANES
"""Shorter rows are not split among threads."""
_LARGE_BYTES: Final = 1 << 20
"""Rows of larger results are prefetched, and the memory of sums comes zeroed from the system."""
_AHEAD: Final = 8
"""How many rows ahead."""
_FUNCTIONS: Final = frozenset({"add", "maximum", "minimum", "multiply"})


def combined(
    function: str,
    rows: Array,
    ids: Array,
    count: int,
    is_ordered: bool = False,
    finish: Finish = "",
) -> Array | None:
    """Row s of the result combines the rows whose id is s, one after the other.

    Those of absent segments are what the function starts with: 0 for sums, 1 for products, the
    lowest or highest finite number for extremes. NaN is propagated.

    Args:
        function: `add`, `maximum`, `minimum` or `multiply`, as in numpy.
        rows: [n, ...].
        ids: [n] integers; rows of negative ids are dropped.
        count: The number of segments.
        is_ordered: Whether ids must neither be negative nor decrease.
        finish: `mean` is for floating-point numbers only.

    Returns:
        [count, ...]; None if there is no machine code for it, or an id is not allowed.
    """
    kind = _ELEMENTS.get(rows.dtype.char)
    if kind is None or function not in _FUNCTIONS or not rows.dtype.isnative:
        return None
    if not rows.size or not count or ids.shape != rows.shape[:1] or not native.available():
        return None
    if ids.dtype not in INDEX_KINDS:
        ids = ids.astype(np.int64)
    shape = (len(rows), count, prod(rows.shape[1:]))
    parts = 1
    if shape[2] >= _SHARED_COLUMNS and rows.nbytes >= _SHARED_BYTES:
        parts = min(threads.count(), -(-shape[2] // _LANES))
    is_large = count * shape[2] * rows.itemsize > _LARGE_BYTES
    make = np.zeros if is_large and function == "add" else np.empty
    found = make((count, *rows.shape[1:]), rows.dtype)
    counts = np.empty((parts, count if finish else 0), np.int64)
    state = np.empty(parts, np.int64)
    way = (kind, INDEX_KINDS[ids.dtype], function, is_ordered, finish)
    run = _bound(way, shape, parts, is_large)
    return found if run(rows, ids, found, counts, state) and not state.any() else None


@latest(256)
def _bound(
    way: tuple[str, str, str, bool, Finish],
    shape: tuple[int, int, int],
    parts: int,
    is_large: bool,
) -> Callable[..., bool]:
    count, segments, size = shape
    counts = (count * size, count, segments * size, parts * segments if way[-1] else 0, parts)
    blocks = -(-size // _LANES)
    body = _body(*way, size == 1, is_large)
    return body.bind(shape, counts, blocks, parts, count * size >= _LONG_ELEMENTS)


@once
def _body(*way: Any) -> native.Body:
    return native.written_body(text, way)


def text(
    kind: str,
    index: str,
    function: str,
    is_ordered: bool,
    finish: Finish,
    is_single: bool,
    is_large: bool,
) -> str:
    """Returns the module, whose loop is over blocks of columns.

    Sizes: rows, segments, elements per row. Arrays: rows, ids, the result; the number of rows of
    each segment, per part, for some finish; and a flag per part: whether an id is not allowed.

    Args:
        kind: LLVM's type of an element.
        index: LLVM's type of an id.
        function: See `combined`.
        is_ordered: See `combined`.
        finish: See `combined`.
        is_single: Whether rows have one element.
        is_large: Whether the result is large, see `_LARGE_BYTES`.
    """
    code = Code()
    count, segments, size = code.sizes(3)
    rows, ids, out, counts, state = code.arrays(5)
    start: Value = 0 if is_single else code.multiply("%lo", _LANES)
    stop: Value = 1 if is_single else code.smaller(code.multiply("%hi", _LANES), size)
    width: Value = 1 if is_single else size
    counts = code.at("i64", counts, code.multiply("%part", segments))
    wrong = _has_wrong(code, index, ids, count, segments, is_ordered)
    code.store("i64", code.let(f"zext i1 {wrong} to i64"), code.at("i64", state, "%part"))
    with code.unless(wrong):
        if not is_large or function != "add":
            with code.loop(0, segments) as segment:
                place = code.at(kind, out, code.multiply(segment, width))
                _spread(code, kind, place, start, stop, _initial(kind, function))
        if finish:
            code.clear(counts, code.multiply(segments, 8))
        if is_ordered:
            arrays, sizes = (rows, ids, out, counts if finish else ""), (count, width)
            _combine_ordered(code, (kind, index, function), arrays, sizes, (start, stop))
        else:
            with code.loop(0, count) as row:
                if is_large:
                    later = code.smaller(code.add(row, _AHEAD), code.subtract(count, 1))
                    there = code.multiply(code.load_index(index, ids, later), width)
                    code.prefetch(code.at(kind, out, code.add(there, start)), writes=True)
                segment = code.load_index(index, ids, row)
                with code.when(code.compare("ult", segment, segments)):
                    if finish:
                        known = code.at("i64", counts, segment)
                        code.store("i64", code.add(code.load("i64", known), 1), known)
                    source = code.at(kind, rows, code.multiply(row, width))
                    target = code.at(kind, out, code.multiply(segment, width))
                    for lanes, at in _vectors(code, start, stop):
                        places = code.at(kind, source, at), code.at(kind, target, at)
                        _combine(code, kind, lanes, function, *places)
        if finish:
            _finish(code, kind, finish, out, counts, (segments, width), (start, stop))
    return code.module()


def _combine_ordered(
    code: Code,
    way: tuple[str, str, str],
    arrays: tuple[str, str, str, str],
    sizes: tuple[Value, Value],
    columns: tuple[Value, Value],
) -> None:
    """Combines the rows of one segment after the other in registers, strip by strip of columns.

    Args:
        code: The code.
        way: As for `text`: the types of elements and ids, and the function.
        arrays: As there: rows, ids, the result, and the numbers of rows, "" if they are not needed.
        sizes: The number of rows, and the elements of each.
        columns: The first, and one past the last.
    """
    for lanes, vectors, at in _strips(code, *columns):
        _combine_strip(code, way, arrays, sizes, (lanes, vectors, at))


def _combine_strip(
    code: Code,
    way: tuple[str, str, str],
    arrays: tuple[str, str, str, str],
    sizes: tuple[Value, Value],
    strip: tuple[int, int, Value],
) -> None:
    (kind, index, function), (rows, ids, out, counts), (count, width) = way, arrays, sizes
    lanes, vectors, at = strip
    vector, initial = _type(kind, lanes), _spread_text(kind, lanes, _initial(kind, function))
    running = [code.variable(vector, initial) for _ in range(vectors)]
    held, begin = code.variable("i64", 0), code.variable("i64", 0)

    def store(end: Value) -> None:
        segment = code.get(held)
        place = code.at(kind, out, code.add(code.multiply(segment, width), at))
        for number, each in enumerate(running):
            target = code.at(kind, place, number * lanes)
            code.store(vector, code.get(each, vector), target, _BYTES[kind])
            code.set(each, initial, vector)
        if counts:
            number_here = code.subtract(end, code.get(begin))
            code.store("i64", number_here, code.at("i64", counts, segment))

    with code.loop(0, count) as row:
        segment = code.load_index(index, ids, row)
        with code.when(code.compare("ne", segment, code.get(held))):
            store(row)
            code.set(held, segment)
            code.set(begin, row)
        source = code.at(kind, rows, code.add(code.multiply(row, width), at))
        for number, each in enumerate(running):
            here = code.at(kind, source, number * lanes)
            _combine(code, kind, lanes, function, here, each)
    store(count)


def _strips(code: Code, start: Value, stop: Value) -> Iterator[tuple[int, int, Value]]:
    """Yields lanes, vectors and places of strips of columns, from wide to narrow ones."""
    if stop == 1:
        yield 1, 1, 0
        return
    length = code.subtract(stop, start)
    first = start
    for lanes, vectors in _STRIPS:
        end = code.add(start, code.let(f"and i64 {length}, {-lanes * vectors}"))
        with code.loop(first, end, lanes * vectors) as at:
            yield lanes, vectors, at
        first = end


def _has_wrong(
    code: Code, index: str, ids: str, count: Value, segments: Value, is_ordered: bool
) -> str:
    """Whether an id is too large or, if they are to be ordered, negative or less than the last."""
    limit = code.smaller(segments, (1 << int(index[1:]) - 1) - 1)
    if index != "i64":
        limit = code.let(f"trunc i64 {limit} to {index}")
    flags = {}
    for lanes in (_LANES, 1):
        flags[lanes] = code.variable(_type("i1", lanes), _spread_text("i1", lanes, "false"))
    first: Value = 0
    if is_ordered:  # the others are compared with the one before
        bad = code.compare("slt", code.load_index(index, ids, 0), 0)
        code.set(flags[1], bad, "i1")
        bad = code.compare("sge", code.load_index(index, ids, 0), segments)
        code.set(flags[1], code.either(bad, code.get(flags[1], "i1")), "i1")
        first = 1
    for lanes, at in _vectors(code, first, count):
        vector, truth = _type(index, lanes), _type("i1", lanes)
        here = code.load(vector, code.at(index, ids, at), _BYTES[index])
        bad = code.let(f"icmp sge {vector} {here}, {_splat(code, index, lanes, limit)}")
        if is_ordered:
            there = code.at(index, ids, code.subtract(at, 1))
            falls = f"icmp slt {vector} {here}, {code.load(vector, there, _BYTES[index])}"
            bad = code.let(f"or {truth} {bad}, {code.let(falls)}")
        known = code.get(flags[lanes], truth)
        code.set(flags[lanes], code.let(f"or {truth} {known}, {bad}"), truth)
    many = code.get(flags[_LANES], _type("i1", _LANES))
    bits = code.let(f"bitcast {_type('i1', _LANES)} {many} to i{_LANES}")
    return code.either(code.let(f"icmp ne i{_LANES} {bits}, 0"), code.get(flags[1], "i1"))


def _vectors(code: Code, start: Value, stop: Value) -> Iterator[tuple[int, Value]]:
    """Yields the numbers of lanes and the places of vectors, then of single elements."""
    if stop == 1:
        yield 1, 0
        return
    length = code.subtract(stop, start)
    whole = code.add(start, code.let(f"and i64 {length}, {-_LANES}"))
    with code.loop(start, whole, _LANES) as at:
        yield _LANES, at
    with code.loop(whole, stop) as at:
        yield 1, at


def _type(kind: str, lanes: int) -> str:
    return kind if lanes == 1 else f"<{lanes} x {kind}>"


def _initial(kind: str, function: str) -> str:
    """What the function starts with, as an operand."""
    if function in ("add", "multiply"):
        value: Any = int(function == "multiply")
    else:
        dtype = {"float": np.float32, "double": np.float64, "i32": np.int32, "i64": np.int64}[kind]
        limits: Any = np.iinfo(dtype) if kind.startswith("i") else np.finfo(dtype)
        value = limits.min if function == "maximum" else limits.max
    return str(int(value)) if kind.startswith("i") else constant(float(value), kind)


def _spread_text(kind: str, lanes: int, value: str) -> str:
    """A constant in all lanes, as an operand."""
    return value if lanes == 1 else f"<{', '.join([f'{kind} {value}'] * lanes)}>"


def _spread(code: Code, kind: str, place: str, start: Value, stop: Value, value: str) -> None:
    """Stores a value to some columns of a row."""
    for lanes, at in _vectors(code, start, stop):
        code.store(
            _type(kind, lanes),
            _spread_text(kind, lanes, value),
            code.at(kind, place, at),
            _BYTES[kind],
        )


def _finish(
    code: Code,
    kind: str,
    finish: Finish,
    out: str,
    counts: str,
    shape: tuple[Value, Value],
    columns: tuple[Value, Value],
) -> None:
    segments, width = shape
    with code.loop(0, segments) as segment:
        place = code.at(kind, out, code.multiply(segment, width))
        number = code.load_index("i64", counts, segment)
        if finish == "zero":
            with code.when(code.compare("eq", number, 0)):
                _spread(code, kind, place, *columns, _initial(kind, "add"))
        else:
            share = code.let(f"sitofp i64 {code.larger(number, 1)} to {kind}")
            for lanes, at in _vectors(code, *columns):
                vector, here = _type(kind, lanes), code.at(kind, place, at)
                total = code.load(vector, here, _BYTES[kind])
                mean = code.let(f"fdiv {vector} {total}, {_splat(code, kind, lanes, share)}")
                code.store(vector, mean, here, _BYTES[kind])


def _splat(code: Code, kind: str, lanes: int, value: str) -> str:
    if lanes == 1:
        return value
    vector = _type(kind, lanes)
    first = code.let(f"insertelement {vector} poison, {kind} {value}, i64 0")
    zeros = f"<{lanes} x i32> zeroinitializer"
    return code.let(f"shufflevector {vector} {first}, {vector} poison, {zeros}")


def _combine(code: Code, kind: str, lanes: int, function: str, source: str, target: str) -> None:
    vector = _type(kind, lanes)
    truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
    value, before = (code.load(vector, each, _BYTES[kind]) for each in (source, target))
    floats = kind in ("float", "double")
    if function in ("add", "multiply"):
        name = ("f" if floats else "") + function[:3]
        made = code.let(f"{name} {vector} {before}, {value}")
    else:
        relation = "gt" if function == "maximum" else "lt"
        compare = f"fcmp o{relation}" if floats else f"icmp s{relation}"
        takes = code.let(f"{compare} {vector} {value}, {before}")
        made = code.let(f"select {truth} {takes}, {vector} {value}, {vector} {before}")
        if floats:
            missing = code.let(f"fcmp uno {vector} {value}, {value}")
            made = code.let(f"select {truth} {missing}, {vector} {value}, {vector} {made}")
    code.store(vector, made, target, _BYTES[kind])
