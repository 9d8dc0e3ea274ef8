"""The k largest elements of each row, and their positions.

A row is compared, a vector at a time, with the smallest element found so far; larger ones are
inserted in order. That is rare: for random numbers, k · log(row / k) times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import host, native, threads
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
MOST: Final = 32
"""For larger k, each insertion takes too long."""
_ELEMENTS: Final = {"f": "float", "d": "double", "i": "i32", "l": "i64"}
_SHARED_ELEMENTS: Final = 1 << 17
"""Smaller inputs are processed by a single thread."""


def largest(values: Array, count: int) -> tuple[Array, Array] | None:
    """Returns the largest of each row and their positions (int32), the first among equal ones.

    Args:
        values: [..., row], contiguous.
        count: At least 1, at most `MOST` and the length of a row.

    Returns:
        [..., count] of both, largest first; None if there is no machine code, or some value is NaN.
    """
    size = values.shape[-1]
    kind = _ELEMENTS.get(values.dtype.char)
    if kind is None or not values.dtype.isnative or not values.size or not native.available():
        return None
    if not 1 <= count <= min(MOST, size):
        return None
    rows = values.size // size
    shares = values.size >= _SHARED_ELEMENTS
    parts = min(threads.count(), rows) if shares else 1
    shape = (*values.shape[:-1], count)
    found, places = np.empty(shape, values.dtype), np.empty(shape, np.int32)
    missing = np.zeros(parts, np.int32)
    run = _bound(kind, rows, size, count, parts)
    if not run(values, found, places, missing) or missing.any():
        return None
    return found, places


def bind_largest(
    dtype: np.dtype[Any], rows: int, size: int, count: int
) -> Callable[..., bool] | None:
    """Returns a function of rows and the values, positions and int32 that it fills, see `largest`.

    The int32 becomes 0, or 1 if some value is NaN.

    Args:
        dtype: The dtype of the rows.
        rows: Number of rows.
        size: Elements per row.
        count: Number of elements to find per row.

    Returns:
        The function, for code that calls it on one thread; None if there is none.
    """
    kind = _ELEMENTS.get(dtype.char)
    if kind is None or not rows or not 1 <= count <= min(MOST, size):
        return None
    return _bound(kind, rows, size, count, 1)


@latest(256)
def _bound(kind: str, rows: int, size: int, count: int, parts: int) -> Callable[..., bool]:
    counts = (rows * size, rows * count, rows * count, parts)
    return _body(kind).bind((size, count), counts, rows, parts, rows * size >= _SHARED_ELEMENTS)


@once
def _body(kind: str) -> native.Body:
    size_bytes = {"float": 4, "double": 8, "i32": 4, "i64": 8}[kind]
    return native.written_body(text, (kind, host.host().vector_bytes // size_bytes))


def text(kind: str, lanes: int) -> str:
    """Returns the module; its loop is over rows. Sizes: elements per row, and k.

    Args:
        kind: LLVM's type of an element.
        lanes: Elements per vector.
    """
    return _Writer(kind, lanes).text()


class _Writer:
    def __init__(self, kind: str, lanes: int) -> None:
        self._code = Code()
        self._kind = kind
        self._lanes = lanes
        self._floats = kind in ("float", "double")
        self._bytes = {"float": 4, "double": 8, "i32": 4, "i64": 8}[kind]
        self._size, self._wanted = self._code.sizes(2)

    def text(self) -> str:
        code, kind, lanes = self._code, self._kind, self._lanes
        values, found, places, missing = code.arrays(4)
        vector, truth = f"<{lanes} x {kind}>", f"<{lanes} x i1>"
        last = code.subtract(self._wanted, 1)
        strange = code.variable("i1", "false")
        with code.loop("%lo", "%hi") as row:
            line = code.at(kind, values, code.multiply(row, self._size))
            start = code.multiply(row, self._wanted)
            best, where = code.at(kind, found, start), code.at("i32", places, start)
            with code.loop(0, self._wanted) as column:
                value = self._load(line, column, strange)
                self._insert(best, where, value, column, column)
            blocks = code.subtract(self._size, self._wanted)
            whole = code.add(self._wanted, code.let(f"and i64 {blocks}, {-lanes}"))
            least = code.at(kind, best, last)
            with code.loop(self._wanted, whole, lanes) as column:
                many = code.load(vector, code.at(kind, line, column), self._bytes)
                bound = code.load(kind, least, self._bytes)
                one = code.let(f"insertelement {vector} poison, {kind} {bound}, i64 0")
                bounds = code.let(
                    f"shufflevector {vector} {one}, {vector} poison, "
                    f"<{lanes} x i32> zeroinitializer"
                )
                # The unordered comparison is true for NaN, so its vector is examined, too.
                larger = code.let(f"{self._compare('ugt')} {vector} {many}, {bounds}")
                bits = code.let(f"bitcast {truth} {larger} to i{lanes}")
                with code.when(code.let(f"icmp ne i{lanes} {bits}, 0")):
                    self._one_by_one(
                        line, best, where, column, code.add(column, lanes), last, strange
                    )
            self._one_by_one(line, best, where, whole, self._size, last, strange)
        flag = code.let(f"zext i1 {code.get(strange, 'i1')} to i32")
        code.store("i32", flag, code.at("i32", missing, "%part"), 4)
        return code.module()

    def _compare(self, relation: str) -> str:
        return f"fcmp {relation}" if self._floats else f"icmp s{relation[1:]}"

    def _load(self, line: str, column: Value, strange: str) -> str:
        """Loads an element; records whether it is NaN."""
        code, kind = self._code, self._kind
        value = code.load(kind, code.at(kind, line, column), self._bytes)
        if self._floats:
            missing = code.let(f"fcmp uno {kind} {value}, {value}")
            code.set(strange, code.either(missing, code.get(strange, "i1")), "i1")
        return value

    def _one_by_one(
        self,
        line: str,
        best: str,
        where: str,
        start: Value,
        stop: Value,
        last: Value,
        strange: str,
    ) -> None:
        code, kind = self._code, self._kind
        with code.loop(start, stop) as column:
            value = self._load(line, column, strange)
            bound = code.load(kind, code.at(kind, best, last), self._bytes)
            with code.when(code.let(f"{self._compare('ogt')} {kind} {value}, {bound}")):
                self._insert(best, where, value, column, last)

    def _insert(self, best: str, where: str, value: str, column: Value, held: Value) -> None:
        """Inserts a value after all of the first `held` that are not less; the last drops out."""
        code, kind = self._code, self._kind
        before = code.variable("i64", 0)
        code.set(before, 0)
        with code.loop(0, held) as number:
            other = code.load(kind, code.at(kind, best, number), self._bytes)
            is_before = code.let(f"{self._compare('oge')} {kind} {other}, {value}")
            one = code.let(f"zext i1 {is_before} to i64")
            code.set(before, code.add(code.get(before), one))
        place = code.get(before)
        with code.loop(0, code.subtract(held, place)) as number:
            to = code.subtract(held, number)
            for array, element, size in ((best, kind, self._bytes), (where, "i32", 4)):
                moved = code.load(element, code.at(element, array, code.subtract(to, 1)), size)
                code.store(element, moved, code.at(element, array, to), size)
        code.store(kind, value, code.at(kind, best, place), self._bytes)
        narrow = code.let(f"trunc i64 {column} to i32")
        code.store("i32", narrow, code.at("i32", where, place), 4)
