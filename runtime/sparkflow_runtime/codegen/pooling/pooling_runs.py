"""Machine code for runs: windows of a row that are inside the image, pooled one after another.

Each vector of channels goes along the whole row. What a window shares with the next one stays in
registers: the maxima or sums of columns, for gradients the pixels and what has been added to their
gradients so far. So each pixel is read, and its gradient written, once per row of windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Value, Vectors
from sparkflow_runtime.codegen.pooling.pooling_form import Form, Task

LOWEST: Final = "0xFFF0000000000000"
"""Minus infinity, for both element types."""
_ZERO: Final = "zeroinitializer"
_Column = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A run of windows.

    Attributes:
        at: Where the first window begins in each array, with the first channel of the vector.
        count: The number of windows, at least one.
        mask: The channels of the vector; None for all.
    """

    at: dict[str, str]
    count: Value
    mask: str | None


class RunWriter:
    """Emits the code of runs.

    Args:
        vectors: How vectors are read and written.
        form: The kernel's parameters; windows have one plane, and `step` is 1 to `columns`.
        line: The elements of an image row.
        pixel: The elements of a pixel.
    """

    def __init__(self, vectors: Vectors, form: Form, line: Value, pixel: Value) -> None:
        self._vectors = vectors
        self._code = vectors.code
        self._form = form
        self._line = line
        self._pixel = pixel
        self._shared = form.columns - form.step
        self._new = range(self._shared, form.columns)

    def write(self, run: Run) -> None:
        """Emits one vector of channels of a run."""
        write = {
            Task.MAXIMUM: self._maxima,
            Task.AVERAGE: self._means,
            Task.MAXIMUM_GRADIENT: self._gradients_of_maxima,
            Task.AVERAGE_GRADIENT: self._gradients_of_means,
        }[self._form.task]
        write(run)

    def _maxima(self, run: Run) -> None:
        code, vectors = self._code, self._vectors
        kind, truth = vectors.kind, vectors.truth

        def larger(a: _Column, b: _Column) -> _Column:
            stays = code.let(f"fcmp ogt {kind} {a[0]}, {b[0]}")
            return vectors.select(stays, a[0], b[0]), code.let(f"or {truth} {a[1]}, {b[1]}")

        def column(values: Sequence[str]) -> _Column:
            nans = [code.let(f"fcmp uno {kind} {each}, {each}") for each in values]
            return reduce(larger, zip(values, nans, strict=True))

        def pooled(columns: Sequence[_Column]) -> str:
            # NaN is larger than all, as in numpy's maximum.
            best, has_nan = reduce(larger, columns)
            return vectors.select(has_nan, vectors.constant(math.nan), best)

        self._pool(run, (kind, truth), column, pooled)

    def _means(self, run: Run) -> None:
        code, vectors, form = self._code, self._vectors, self._form
        divisor = vectors.constant(form.rows * form.columns)

        def column(values: Sequence[str]) -> _Column:
            return (reduce(vectors.add, values),)

        def pooled(columns: Sequence[_Column]) -> str:
            total = reduce(vectors.add, [each for (each,) in columns])
            return code.let(f"fdiv {vectors.kind} {total}, {divisor}")

        self._pool(run, (vectors.kind,), column, pooled)

    def _pool(
        self,
        run: Run,
        kinds: Sequence[str],
        column: Callable[[Sequence[str]], _Column],
        pooled: Callable[[Sequence[_Column]], str],
    ) -> None:
        """Emits windows whose value is computed from values of their columns.

        Args:
            run: The run.
            kinds: The kinds of a column's values.
            column: Computes a column from its pixels.
            pooled: Computes a window from its columns.
        """
        code = self._code
        carried = _Carried(self._vectors, kinds, self._shared)
        for number in range(self._shared):
            carried.set(number, column(self._pixels(run.at["image"], number, run.mask)))
        with code.loop(0, run.count) as turn:
            base = self._moved(run.at["image"], turn, self._form.step)
            columns = [carried.get(number) for number in range(self._shared)]
            columns += [column(self._pixels(base, number, run.mask)) for number in self._new]
            self._vectors.store(
                pooled(columns), self._moved(run.at["pooled"], turn, 1), 0, run.mask
            )
            for number in range(self._shared):
                carried.set(number, columns[number + self._form.step])

    def _gradients_of_maxima(self, run: Run) -> None:
        code, vectors, form = self._code, self._vectors, self._form
        kind, truth, rows = vectors.kind, vectors.truth, form.rows
        pixels = _Carried(vectors, (kind,) * rows, self._shared)
        sums = _Carried(vectors, (kind,) * rows, self._shared)
        for number in range(self._shared):
            pixels.set(number, self._pixels(run.at["image"], number, run.mask))
            sums.set(number, (_ZERO,) * rows)
        with code.loop(0, run.count) as turn:
            base = self._moved(run.at["image"], turn, form.step)
            values = [pixels.get(number) for number in range(self._shared)]
            values += [self._pixels(base, number, run.mask) for number in self._new]
            pooled = vectors.load(self._moved(run.at["pooled"], turn, 1), 0, run.mask)
            given = vectors.load(self._moved(run.at["given"], turn, 1), 0, run.mask)
            totals = [list(sums.get(number)) for number in range(self._shared)]
            totals += [[_ZERO] * rows for _ in range(form.step)]
            free = all_true(vectors.lanes)
            for row in range(rows):
                for number in range(form.columns):
                    equal = code.let(f"fcmp oeq {kind} {values[number][row]}, {pooled}")
                    is_first = code.let(f"and {truth} {equal}, {free}")
                    other = code.let(f"xor {truth} {equal}, {all_true(vectors.lanes)}")
                    free = code.let(f"and {truth} {other}, {free}")
                    before = totals[number][row]
                    total = given if before is _ZERO else vectors.add(before, given)
                    totals[number][row] = vectors.select(is_first, total, before)
            target = self._moved(run.at["result"], turn, form.step)
            for number in range(form.step):
                self._give(totals[number], target, number, run.mask)
            for number in range(self._shared):
                pixels.set(number, values[number + form.step])
                sums.set(number, totals[number + form.step])
        self._give_rest(run, sums.get)

    def _gradients_of_means(self, run: Run) -> None:
        code, vectors, form = self._code, self._vectors, self._form
        divisor = vectors.constant(form.rows * form.columns)
        sums = _Carried(vectors, (vectors.kind,), self._shared)
        for number in range(self._shared):
            sums.set(number, (_ZERO,))
        with code.loop(0, run.count) as turn:
            given = vectors.load(self._moved(run.at["given"], turn, 1), 0, run.mask)
            share = code.let(f"fdiv {vectors.kind} {given}, {divisor}")
            totals = [vectors.add(sums.get(number)[0], share) for number in range(self._shared)]
            totals += [share] * form.step
            target = self._moved(run.at["result"], turn, form.step)
            for number in range(form.step):
                self._give([totals[number]] * form.rows, target, number, run.mask)
            for number in range(self._shared):
                sums.set(number, (totals[number + form.step],))
        self._give_rest(run, lambda number: sums.get(number) * form.rows)

    def _give_rest(self, run: Run, sums: Callable[[int], Sequence[str]]) -> None:
        """Adds the sums of the columns that follow the last window's step."""
        target = self._moved(run.at["result"], run.count, self._form.step)
        for number in range(self._shared):
            self._give(sums(number), target, number, run.mask)

    def _give(self, sums: Sequence[str], base: str, number: int, mask: str | None) -> None:
        """Adds sums to a column of the gradient."""
        for row, total in enumerate(sums):
            place = self._place(base, row, number)
            if not self._form.disjoint:
                total = self._vectors.add(self._vectors.load(place, 0, mask), total)
            self._vectors.store(total, place, 0, mask)

    def _pixels(self, base: str, number: int, mask: str | None) -> _Column:
        """Loads a column of the window that begins at `base`."""
        rows = range(self._form.rows)
        return tuple([self._vectors.load(self._place(base, row, number), 0, mask) for row in rows])

    def _place(self, base: str, row: int, column: int) -> str:
        code = self._code
        offset = code.add(code.multiply(row, self._line), code.multiply(column, self._pixel))
        return code.at(self._vectors.element, base, offset)

    def _moved(self, base: str, turn: Value, step: int) -> str:
        """Returns the place of a window in an array in which windows are `step` pixels apart."""
        code = self._code
        offset = code.multiply(code.multiply(turn, step), self._pixel)
        return code.at(self._vectors.element, base, offset)


class _Carried:
    """Values of columns that the next window reads.

    Args:
        vectors: How vectors are read and written.
        kinds: The kinds of a column's values.
        count: The number of columns.
    """

    def __init__(self, vectors: Vectors, kinds: Sequence[str], count: int) -> None:
        self._code = vectors.code
        self._kinds = kinds
        self._columns = [[self._code.variable(kind) for kind in kinds] for _ in range(count)]

    def get(self, number: int) -> _Column:
        """Returns the values of a column."""
        pairs = zip(self._columns[number], self._kinds, strict=True)
        return tuple([self._code.get(each, kind) for each, kind in pairs])

    def set(self, number: int, values: Sequence[str]) -> None:
        """Replaces the values of a column."""
        for each, kind, value in zip(self._columns[number], self._kinds, values, strict=True):
            self._code.set(each, value, kind)


def all_true(lanes: int) -> str:
    """Returns the mask of all lanes, as an operand."""
    return f"<{', '.join(['i1 true'] * lanes)}>"
