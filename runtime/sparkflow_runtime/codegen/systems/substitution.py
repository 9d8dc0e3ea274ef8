"""Triangular systems of equations by substitution, in machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value, Vectors
from sparkflow_runtime.codegen.tiles.convolution_tasks import ELEMENTS
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
MOST_ROWS: Final = 256
"""Larger matrices do not fit in a core's cache: libraries solve them block by block."""
_BLOCK: Final = 4
"""Vectors of a row that are solved at once."""
_SHARED_PRODUCTS: Final = 1 << 18
"""Smaller inputs are processed by a single thread."""


def solve(matrices: Array, sides: Array, lower: bool, transposed: bool) -> Array | None:
    """Returns the x with `matrix x = side`, or with the transposed matrix.

    Args:
        matrices: [count, rows, rows], contiguous; only one triangle is read.
        sides: [count, rows, columns], contiguous.
        lower: Whether to use the lower triangle, before transposition.
        transposed: Whether the matrices are transposed.

    Returns:
        A new array like `sides`; None if there is no machine code.
    """
    kind, (count, rows, columns) = sides.dtype, sides.shape
    if kind.char not in ELEMENTS or kind != matrices.dtype or not kind.isnative:
        return None
    if not sides.size or rows > MOST_ROWS or not native.available():
        return None
    shares = sides.size * rows >= _SHARED_PRODUCTS
    parts = min(threads.count(), count) if shares else 1
    out = np.empty(sides.shape, kind)
    run = _bound(kind.char, count, rows, columns, lower, transposed, parts)
    return out if run(matrices, sides, out) else None


@latest(256)
def _bound(
    kind: str, count: int, rows: int, columns: int, lower: bool, transposed: bool, parts: int
) -> Callable[..., bool]:
    # Element (i, j) of the triangle, with rows numbered in the order of solving.
    first, step = (0, 1) if lower != transposed else (rows - 1, -1)
    by_row, by_column = (1, rows) if transposed else (rows, 1)
    sizes = (rows, columns, first, step, by_row, by_column)
    whole = count * rows * columns
    is_large = whole * rows >= _SHARED_PRODUCTS
    return _body(kind).bind(sizes, (count * rows * rows, whole, whole), count, parts, is_large)


@once
def _body(kind: str) -> native.Body:
    return native.written_body(_text, (kind,))


def _text(kind: str) -> str:
    return _Writer(kind).text()


class _Writer:
    def __init__(self, kind: str) -> None:
        self._code = code = Code()
        self._element = ELEMENTS[kind]
        self._vectors = Vectors.whole(code, self._element)
        self._rows, self._columns, self._first, self._step, self._by_row, self._by_column = (
            code.sizes(6)
        )

    def text(self) -> str:
        code, lanes = self._code, self._vectors.lanes
        matrices, sides, results = code.arrays(3)
        wide = _BLOCK * lanes
        with code.loop("%lo", "%hi") as number:
            square = code.multiply(number, code.multiply(self._rows, self._rows))
            matrix = code.at(self._element, matrices, square)
            start = code.multiply(number, code.multiply(self._rows, self._columns))
            side, result = (code.at(self._element, each, start) for each in (sides, results))
            blocks = code.multiply(code.let(f"sdiv i64 {self._columns}, {wide}"), wide)
            whole = code.let(f"and i64 {self._columns}, {-lanes}")
            with code.loop(0, blocks, wide) as column:
                places = [code.add(column, n * lanes) for n in range(_BLOCK)]
                self._columns_of(matrix, side, result, places, None)
            with code.loop(blocks, whole, lanes) as column:
                self._columns_of(matrix, side, result, [column], None)
            rest = code.subtract(self._columns, whole)
            with code.when(code.compare("sgt", rest, 0)):
                mask = self._vectors.first(rest)
                self._columns_of(matrix, side, result, [whole], mask)
        return code.module()

    def _columns_of(
        self, matrix: str, side: str, result: str, places: list[Value], mask: str | None
    ) -> None:
        """Solves all rows of some columns."""
        code, vectors, kind = self._code, self._vectors, self._vectors.kind
        totals = [code.variable(kind) for _ in places]
        with code.loop(0, self._rows) as turn:
            row = self._at(turn)
            line = code.multiply(row, self._columns)
            for total, place in zip(totals, places, strict=True):
                code.set(total, vectors.load(side, code.add(line, place), mask), kind)
            across = code.multiply(row, self._by_row)
            with code.loop(0, turn) as before:
                other = self._at(before)
                factor = self._factor(matrix, across, other)
                minus = code.let(f"fneg {kind} {vectors.splat(factor)}")
                source = code.multiply(other, self._columns)
                for total, place in zip(totals, places, strict=True):
                    value = vectors.load(result, code.add(source, place), mask)
                    now = code.get(total, kind)
                    code.set(total, vectors.multiply_add(value, minus, now), kind)
            divisor = vectors.splat(self._factor(matrix, across, row))
            for total, place in zip(totals, places, strict=True):
                quotient = code.let(f"fdiv {kind} {code.get(total, kind)}, {divisor}")
                vectors.store(quotient, result, code.add(line, place), mask)

    def _at(self, turn: Value) -> Value:
        return self._code.add(self._first, self._code.multiply(self._step, turn))

    def _factor(self, matrix: str, across: Value, column: Value) -> str:
        code = self._code
        place = code.add(across, code.multiply(column, self._by_column))
        return code.load(
            self._element, code.at(self._element, matrix, place), self._vectors.size_bytes
        )
