"""Cholesky factorisation of batches of small matrices, in machine code.

The upper factor is computed by rows, vector by vector, and transposed at the end. LAPACK's call
overhead alone is larger than the time here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value, Vectors
from sparkflow_runtime.codegen.tiles.convolution_tasks import ELEMENTS
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
MOST_ROWS: Final = 96
"""Maximum rows of a matrix; above it, LAPACK's blocking pays off."""
_SHARED_PRODUCTS: Final = 1 << 18
"""Smaller inputs are processed by a single thread."""


def cholesky(matrices: Array) -> tuple[Array, bool] | None:
    """Returns the lower L with `L L' = matrix` for every matrix.

    Args:
        matrices: [count, rows, rows], contiguous; only the lower triangles are read.

    Returns:
        A new array like `matrices`, zero above the diagonals, and whether all matrices are positive
        definite; None if there is no machine code.
    """
    kind, (count, rows, _) = matrices.dtype, matrices.shape
    if kind.char not in ELEMENTS or not kind.isnative or not native.available():
        return None
    if not matrices.size or rows > MOST_ROWS:
        return None
    shares = matrices.size * rows >= _SHARED_PRODUCTS
    out = np.empty(matrices.shape, kind)
    failures = np.zeros(count, np.bool_)
    run = _bound(kind.char, count, rows, min(threads.count(), count) if shares else 1)
    if not run(matrices, out, failures):
        return None
    return out, not failures.any()


@latest(256)
def _bound(kind: str, count: int, rows: int, parts: int) -> Callable[..., bool]:
    whole = count * rows * rows
    is_large = whole * rows >= _SHARED_PRODUCTS
    return _body(kind).bind((rows,), (whole, whole, count), count, parts, is_large)


@once
def _body(kind: str) -> native.Body:
    return native.written_body(_text, (kind,))


def _text(kind: str) -> str:
    return _Writer(kind).text()


class _Writer:
    def __init__(self, kind: str) -> None:
        self._code = code = Code()
        self._element = ELEMENTS[kind]
        self._root = "llvm.sqrt.f32" if self._element == "float" else "llvm.sqrt.f64"
        self._vectors = Vectors.whole(code, self._element)
        (self._rows,) = code.sizes(1)

    def text(self) -> str:
        code, rows = self._code, self._rows
        matrices, results, failures = code.arrays(3)
        with code.loop("%lo", "%hi") as number:
            start = code.multiply(number, code.multiply(rows, rows))
            matrix, result = (code.at(self._element, each, start) for each in (matrices, results))
            failure = code.at("i8", failures, number)
            with code.loop(0, rows) as i, code.loop(i, rows) as j:
                self._store(self._load(matrix, j, i), result, i, j)
            with code.loop(0, rows) as k:
                self._row(result, k, failure)
            with code.loop(0, rows) as i, code.loop(code.add(i, 1), rows) as j:
                self._store(self._load(result, i, j), result, j, i)
                self._store("0.0", result, i, j)
        return code.module()

    def _row(self, result: str, k: Value, failure: str) -> None:
        """Computes a row of the factor, and updates the rows below."""
        code, kind, vectors = self._code, self._element, self._vectors
        pivot = self._load(result, k, k)
        with code.unless(code.let(f"fcmp ogt {kind} {pivot}, 0.0")):  # also NaN
            code.store("i8", 1, failure, 1)
        root = code.call(kind, self._root, (kind, pivot))
        scale = vectors.splat(code.let(f"fdiv {kind} 1.0, {root}"))
        line = code.multiply(k, self._rows)

        def scaled(j: Value, mask: str | None) -> None:
            place = code.add(line, j)
            value = vectors.load(result, place, mask)
            product = code.let(f"fmul {vectors.kind} {value}, {scale}")
            vectors.store(product, result, place, mask)

        self._across(k, scaled)
        with code.loop(code.add(k, 1), self._rows) as i:
            factor = code.let(f"fneg {kind} {self._load(result, k, i)}")
            minus, other = vectors.splat(factor), code.multiply(i, self._rows)

            def reduced(j: Value, mask: str | None, minus: str = minus, to: Value = other) -> None:
                place = code.add(to, j)
                value = vectors.load(result, code.add(line, j), mask)
                now = vectors.load(result, place, mask)
                vectors.store(vectors.multiply_add(value, minus, now), result, place, mask)

            self._across(i, reduced)

    def _across(self, start: Value, step: Callable[[Value, str | None], None]) -> None:
        """Loops over the columns from a given one on, vector by vector."""
        code, lanes = self._code, self._vectors.lanes
        length = code.let(f"and i64 {code.subtract(self._rows, start)}, {-lanes}")
        whole = code.add(start, length)
        with code.loop(start, whole, lanes) as j:
            step(j, None)
        rest = code.subtract(self._rows, whole)
        with code.when(code.compare("sgt", rest, 0)):
            step(whole, self._vectors.first(rest))

    def _at(self, base: str, i: Value, j: Value) -> str:
        place = self._code.add(self._code.multiply(i, self._rows), j)
        return self._code.at(self._element, base, place)

    def _load(self, base: str, i: Value, j: Value) -> str:
        return self._code.load(self._element, self._at(base, i, j), self._vectors.size_bytes)

    def _store(self, value: str, base: str, i: Value, j: Value) -> None:
        self._code.store(self._element, value, self._at(base, i, j), self._vectors.size_bytes)
