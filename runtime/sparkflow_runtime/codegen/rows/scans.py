"""Cumulative sums and products along one axis, sequentially as in numpy.

Arrays are [outer, length, inner]. If `inner` is at least a vector, each step adds a line to the one
before; if it is 1, several rows are scanned at once to hide the latency of dependent additions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_ELEMENTS: Final = {"f": "float", "d": "double", "i": "i32", "l": "i64"}
_ROWS: Final = 8
"""Rows of single elements that are scanned at once."""
_BLOCK: Final = 64
"""Elements of a line that are scanned at once: all their lines fit in cache."""
_SHARED_ELEMENTS: Final = 1 << 17
"""Smaller inputs are processed by a single thread."""


def scan(x: Array, axis: int, function: str, exclusive: bool, reverse: bool) -> Array | None:
    """Computes the cumulative values.

    Args:
        x: Any shape, contiguous.
        axis: Non-negative.
        function: `cumsum` or `cumprod`.
        exclusive: Whether each value excludes its own element.
        reverse: Whether to start at the end.

    Returns:
        A new array; None if there is no machine code.
    """
    kind = _ELEMENTS.get(x.dtype.char)
    if kind is None or not x.dtype.isnative or not x.size or not native.available():
        return None
    length = x.shape[axis]
    inner = int(np.prod(x.shape[axis + 1 :], dtype=np.int64))
    outer = x.size // (length * inner)
    units = outer * -(-inner // _BLOCK) if inner > 1 else -(-outer // _ROWS)
    parts = min(threads.count(), units) if x.size >= _SHARED_ELEMENTS else 1
    out = np.empty(x.shape, x.dtype)
    key = (kind, function == "cumsum", exclusive, reverse, outer, length, inner, units, parts)
    return out if _bound(*key)(x, out) else None


def bind_scan(
    dtype: np.dtype[Any], shape: tuple[int, int, int], adds: bool, exclusive: bool, reverse: bool
) -> Callable[..., bool] | None:
    """Returns a function of an array and the values that it fills, for single-threaded callers.

    Args:
        dtype: The dtype of the array.
        shape: Number of elements before, along and after the axis.
        adds: Whether to compute sums rather than products.
        exclusive: See `scan`.
        reverse: See `scan`.

    Returns:
        The function; None if it is not supported.
    """
    kind = _ELEMENTS.get(dtype.char)
    if kind is None or 0 in shape:
        return None
    outer, _, inner = shape
    units = outer * -(-inner // _BLOCK) if inner > 1 else -(-outer // _ROWS)
    return _bound(kind, adds, exclusive, reverse, *shape, units, 1)


@latest(256)
def _bound(
    kind: str,
    adds: bool,
    exclusive: bool,
    reverse: bool,
    outer: int,
    length: int,
    inner: int,
    units: int,
    parts: int,
) -> Callable[..., bool]:
    count = outer * length * inner
    body = _body(kind, adds, exclusive, inner > 1)
    first, step = (length - 1, -1) if reverse else (0, 1)
    sizes = (outer, length, inner, first, step)
    return body.bind(sizes, (count, count), units, parts, count >= _SHARED_ELEMENTS)


@once
def _body(kind: str, adds: bool, exclusive: bool, has_lines: bool) -> native.Body:
    return native.written_body(_text, (kind, adds, exclusive, has_lines))


def _text(kind: str, adds: bool, exclusive: bool, has_lines: bool) -> str:
    return _Writer(kind, adds, exclusive).text(has_lines)


class _Writer:
    def __init__(self, kind: str, adds: bool, exclusive: bool) -> None:
        self._code = Code()
        self._kind = kind
        floats = kind in ("float", "double")
        self._function = ("f" if floats else "") + ("add" if adds else "mul")
        self._start = {True: ("0", "1"), False: ("0.0", "1.0")}[not floats][not adds]
        self._exclusive = exclusive
        self._bytes = {"float": 4, "double": 8, "i32": 4, "i64": 8}[kind]
        self._outer, self._length, self._inner, self._first, self._step = self._code.sizes(5)

    def text(self, has_lines: bool) -> str:
        source, target = self._code.arrays(2)
        with self._code.loop("%lo", "%hi") as unit:
            if has_lines:
                self._lines(unit, source, target)
            else:
                self._rows(unit, source, target)
        return self._code.module()

    def _lines(self, unit: str, source: str, target: str) -> None:
        """Scans a block of columns of an image of [length, inner], as one vector if it is whole."""
        code, kind, inner = self._code, self._kind, self._inner
        blocks = code.let(f"sdiv i64 {code.add(inner, _BLOCK - 1)}, {_BLOCK}")
        number = code.let(f"sdiv i64 {unit}, {blocks}")
        start = code.multiply(code.subtract(unit, code.multiply(number, blocks)), _BLOCK)
        stop = code.smaller(code.add(start, _BLOCK), inner)
        image = code.multiply(number, code.multiply(self._length, inner))
        is_whole = code.compare("eq", code.subtract(stop, start), _BLOCK)
        with code.when(is_whole):
            lanes = _BLOCK
            vector = f"<{lanes} x {kind}>"
            splat = f"<{', '.join([f'{kind} {self._start}'] * lanes)}>"
            self._walk(source, target, code.add(image, start), inner, [(0, vector, splat)])
        with code.unless(is_whole), code.loop(start, stop) as column:
            self._walk(source, target, code.add(image, column), inner, [(0, kind, self._start)])

    def _rows(self, unit: str, source: str, target: str) -> None:
        code = self._code
        start = code.multiply(unit, _ROWS)
        stop = code.smaller(code.add(start, _ROWS), self._outer)
        is_whole = code.compare("eq", code.subtract(stop, start), _ROWS)
        with code.when(is_whole):
            places: list[tuple[Value, str, str]] = [
                (code.multiply(self._length, n), self._kind, self._start) for n in range(_ROWS)
            ]
            self._walk(source, target, code.multiply(start, self._length), 1, places)
        with code.unless(is_whole), code.loop(start, stop) as row:
            at = code.multiply(row, self._length)
            self._walk(source, target, at, 1, [(0, self._kind, self._start)])

    def _walk(
        self,
        source: str,
        target: str,
        start: Value,
        stride: Value,
        places: list[tuple[Value, str, str]],
    ) -> None:
        """Scans along the axis, with a running total per position."""
        code = self._code
        totals = [code.variable(kind) for _, kind, _ in places]
        for total, (_, kind, first) in zip(totals, places, strict=True):
            code.set(total, first, kind)
        with code.loop(0, self._length) as number:
            element = code.add(self._first, code.multiply(self._step, number))
            at = code.add(start, code.multiply(element, stride))
            values = [
                code.load(kind, code.at(self._kind, source, code.add(at, place)), self._bytes)
                for place, kind, _ in places
            ]
            for total, value, (place, kind, _) in zip(totals, values, places, strict=True):
                before = code.get(total, kind)
                after = code.let(f"{self._function} {kind} {before}, {value}")
                code.set(total, after, kind)
                shown = before if self._exclusive else after
                there = code.at(self._kind, target, code.add(at, place))
                code.store(kind, shown, there, self._bytes)
