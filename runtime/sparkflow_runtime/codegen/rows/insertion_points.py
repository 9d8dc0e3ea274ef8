"""Machine code that finds many values in one sorted row, a vector of them at a time.

In a short row, elements are counted; in a long one, each lane makes a binary search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.llvm_text import Code, Vectors
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_ELEMENTS: Final = {"f": "float", "d": "double"}
_LEAST: Final = 256
"""Fewer values are found as fast by numpy."""
_SHARED_VALUES: Final = 1 << 16
"""Fewer values are looked for by a single thread."""
_COUNTED: Final = 32
"""The elements of rows up to this length are counted."""
_MOST: Final = 1 << 30


def insertion_points(ordered: Array, values: Array, side: Literal["left", "right"]) -> Array:
    """Returns where values would be inserted into a sorted row, as `numpy.searchsorted`.

    Args:
        ordered: A vector in ascending order.
        values: Of any shape.
        side: "left" for the number of elements less than the value, "right" for the number of
            those not greater.

    Returns:
        int32 or int64 of the shape of the values.
    """
    kind = _ELEMENTS.get(ordered.dtype.char)
    if (
        kind is not None
        and values.dtype == ordered.dtype
        and values.size >= _LEAST
        and 0 < ordered.size <= _MOST
        and native.available()
        # numpy regards NaN as larger than all numbers.
        and not (np.isnan(ordered[-1]) or np.isnan(values).any())
    ):
        found = np.empty(values.shape, np.int32)
        thread_count = threads.count() if values.size >= _SHARED_VALUES else 1
        if _bound(kind, side, ordered.size, values.size, thread_count)(ordered, values, found):
            return found
    return np.searchsorted(ordered, values, side)


@latest(1024)
def _bound(kind: str, side: str, size: int, count: int, thread_count: int) -> Callable[..., bool]:
    vectors = Vectors.whole(Code(), kind)
    return _body(kind, side, size <= _COUNTED).bind(
        (size, (size - 1).bit_length(), count),
        (size, count, count),
        -(-count // vectors.lanes),
        thread_count,
        releases_gil=count >= _SHARED_VALUES,
    )


@once
def _body(kind: str, side: str, counts: bool) -> native.Body:
    lanes = Vectors.whole(Code(), kind).lanes
    return native.written_body(text, (kind, lanes, side, counts))


def text(kind: str, lanes: int, side: str, counts: bool) -> str:
    """Returns the module; sizes: elements, halvings of the row, values.

    Arrays: the row, the values, the results (int32). The loop is over vectors of values.

    Args:
        kind: `float` or `double`.
        lanes: Values per vector.
        side: "left" or "right".
        counts: Whether elements are counted; if not, a binary search is made.
    """
    code = Code()
    vectors = Vectors(code, kind, lanes)
    size, steps, count = code.sizes(3)
    ordered, values, target = code.arrays(3)
    numbers = Vectors(code, "i32", lanes)
    whole = numbers.kind
    relation = {"left": "olt", "right": "ole"}[side]
    found = code.variable(whole)

    def are_before(elements: str, wanted: str) -> str:
        return code.let(f"fcmp {relation} {vectors.kind} {elements}, {wanted}")

    def at(places: str) -> str:
        """Loads the elements at these places of the row."""
        pointers = code.let(f"getelementptr {kind}, ptr {ordered}, {whole} {places}")
        return code.call(
            vectors.kind,
            f"llvm.masked.gather.{vectors.suffix}.v{lanes}p0",
            (f"<{lanes} x ptr>", pointers),
            ("i32", vectors.size_bytes),
            (vectors.truth, f"<{', '.join(['i1 true'] * lanes)}>"),
            (vectors.kind, "zeroinitializer"),
        )

    def count_up(before: str) -> None:
        more = code.let(f"zext {vectors.truth} {before} to {whole}")
        code.set(found, code.let(f"add {whole} {code.get(found, whole)}, {more}"), whole)

    def look_for(wanted: str) -> None:
        code.set(found, "zeroinitializer", whole)
        if counts:
            with code.loop(0, size) as place:
                count_up(are_before(vectors.broadcast(ordered, place), wanted))
            return
        length = code.variable("i64")
        code.set(length, size)
        ones = f"<{', '.join(['i32 1'] * lanes)}>"
        with code.loop(0, steps):
            now, start = code.get(length), code.get(found, whole)
            half = code.let(f"lshr i64 {now}, 1")
            step = numbers.splat(code.let(f"trunc i64 {half} to i32"))
            middle = code.let(f"add {whole} {start}, {step}")
            before = are_before(at(code.let(f"sub {whole} {middle}, {ones}")), wanted)
            code.set(found, numbers.select(before, middle, start), whole)
            code.set(length, code.subtract(now, half))
        count_up(are_before(at(code.get(found, whole)), wanted))

    with code.loop("%lo", "%hi") as number:
        first = code.multiply(number, lanes)
        rest = code.subtract(count, first)
        is_whole = code.compare("sge", rest, lanes)
        with code.when(is_whole):
            look_for(vectors.load(values, first))
            numbers.store(code.get(found, whole), target, first)
        with code.unless(is_whole):
            mask = vectors.first(rest)
            look_for(vectors.load(values, first, mask))
            numbers.store(code.get(found, whole), target, first, mask)
    return code.module()
