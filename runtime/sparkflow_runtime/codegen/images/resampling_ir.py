"""Machine code that resamples rows and columns of images, for resizing and its gradients.

Each row of the result is a weighted sum of rows of the image, its taps; the same holds for columns.
For each row of the result, its taps are first summed to one line as wide as the image, which stays
in cache, and then the columns' taps are summed within that line.

Arrays: the images [batch, height, width, channels]; for the rows, the first tap of each (int64, one
more than rows), the source row of each tap (int64) and its weight; the same for the columns; a line
for each part; the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import WRITTEN_OUT, Code, Value, Vectors

_BLOCK: Final = 4
"""Vectors of a line that are summed at once."""


class Field(IntEnum):
    """Indices into `sizes`."""

    HEIGHT = 0
    LINE = 1
    """Elements of a row of an image."""
    ROW_COUNT = 2
    """Height of the result; the next is its width."""
    COLUMN_COUNT = 3


@dataclass(frozen=True, slots=True)
class Form:
    """The compile-time parameters of a kernel.

    Attributes:
        element: `float` or `double`.
        lanes: Elements per vector.
        channels: Channels per pixel.
        rows: Taps per row; 0 if it varies.
        columns: Taps per column; 0 if it varies.
    """

    element: str
    lanes: int
    channels: int
    rows: int
    columns: int

    @property
    def pixel_lanes(self) -> int:
        """Elements per vector within a pixel."""
        return min(self.lanes, 1 << (self.channels - 1).bit_length())


def text(form: Form) -> str:
    """Returns the module; its loop is over the rows of all images of the result."""
    return _Writer(form).text()


class _Writer:
    def __init__(self, form: Form) -> None:
        self._form = form
        self._code = Code()
        self._vectors = Vectors(self._code, form.element, form.lanes)
        self._pixels = Vectors(self._code, form.element, form.pixel_lanes)
        self._size = self._code.sizes(len(Field))

    def text(self) -> str:
        code, size, element = self._code, self._size, self._form.element
        images, *tables, lines, result = code.arrays(9)
        rows, columns = tables[:3], tables[3:]
        own = code.at(element, lines, code.multiply("%part", size[Field.LINE]))
        wide = code.multiply(size[Field.COLUMN_COUNT], self._form.channels)
        image_size = code.multiply(size[Field.HEIGHT], size[Field.LINE])
        with code.loop("%lo", "%hi") as unit:
            number = code.let(f"sdiv i64 {unit}, {size[Field.ROW_COUNT]}")
            row = code.subtract(unit, code.multiply(number, size[Field.ROW_COUNT]))
            image = code.at(element, images, code.multiply(number, image_size))
            first, last = self._taps(rows[0], row, self._form.rows)
            self._add_up_rows(image, own, rows, first, last)
            target = code.at(element, result, code.multiply(unit, wide))
            with code.loop(0, size[Field.COLUMN_COUNT]) as column:
                first, last = self._taps(columns[0], column, self._form.columns)
                place = code.at(element, target, code.multiply(column, self._form.channels))
                self._add_up_pixels(own, place, columns, first, last)
        return code.module()

    def _taps(self, starts: str, number: Value, count: int) -> tuple[Value, Value]:
        """Returns the range of taps of a result."""
        code = self._code
        first = code.load("i64", code.at("i64", starts, number))
        if count:
            return first, code.add(first, count)
        return first, code.load("i64", code.at("i64", starts, code.add(number, 1)))

    @contextmanager
    def _each_tap(
        self, tables: list[str], first: Value, last: Value, count: int, unit: Value
    ) -> Iterator[list[tuple[Value, str]]]:
        """Yields (address, weight) of each tap: unrolled if the number is known, else in a loop."""
        code, element = self._code, self._form.element

        def tap(number: Value) -> tuple[Value, str]:
            source = code.load("i64", code.at("i64", tables[1], number))
            weight = code.load(
                element, code.at(element, tables[2], number), self._vectors.size_bytes
            )
            return code.multiply(source, unit), weight

        if count:
            yield [tap(code.add(first, n)) for n in range(count)]
            return
        with code.loop(first, last) as number:
            yield [tap(number)]

    def _add_up(
        self,
        vectors: Vectors,
        taps: Callable[[], AbstractContextManager[list[tuple[Value, str]]]],
        places: Sequence[Value],
        masks: Sequence[str | None],
        source: str,
        target: str,
    ) -> None:
        """Sums the taps for some vectors."""
        code, kind = self._code, vectors.kind
        sums = [code.variable(kind, "zeroinitializer") for _ in places]
        with taps() as found:
            for offset, weight in found:
                factor = vectors.splat(weight)
                for total, place, mask in zip(sums, places, masks, strict=True):
                    value = vectors.load(source, code.add(offset, place), mask)
                    now = code.get(total, kind)
                    code.set(total, vectors.multiply_add(value, factor, now), kind)
        for total, place, mask in zip(sums, places, masks, strict=True):
            vectors.store(code.get(total, kind), target, place, mask)

    def _add_up_rows(
        self, image: str, line: str, tables: list[str], first: Value, last: Value
    ) -> None:
        code, vectors, lanes = self._code, self._vectors, self._form.lanes
        width = self._size[Field.LINE]

        def taps() -> AbstractContextManager[list[tuple[Value, str]]]:
            return self._each_tap(tables, first, last, self._form.rows, width)

        blocks = code.multiply(code.let(f"sdiv i64 {width}, {_BLOCK * lanes}"), _BLOCK * lanes)
        whole = code.let(f"and i64 {width}, {-lanes}")
        with code.loop(0, blocks, _BLOCK * lanes) as at:
            places = [code.add(at, n * lanes) for n in range(_BLOCK)]
            self._add_up(vectors, taps, places, [None] * _BLOCK, image, line)
        with code.loop(blocks, whole, lanes) as at:
            self._add_up(vectors, taps, [at], [None], image, line)
        rest = code.subtract(width, whole)
        with code.when(code.compare("sgt", rest, 0)):
            self._add_up(vectors, taps, [whole], [vectors.first(rest)], image, line)

    def _add_up_pixels(
        self, line: str, target: str, tables: list[str], first: Value, last: Value
    ) -> None:
        code, vectors = self._code, self._pixels
        channels, lanes = self._form.channels, self._form.pixel_lanes

        def taps() -> AbstractContextManager[list[tuple[Value, str]]]:
            return self._each_tap(tables, first, last, self._form.columns, channels)

        whole, rest = channels // lanes, channels % lanes
        tail = [vectors.first(rest)] if rest else []
        if whole + bool(rest) <= WRITTEN_OUT:
            places: list[Value] = [n * lanes for n in range(whole + bool(rest))]
            self._add_up(vectors, taps, places, [*[None] * whole, *tail], line, target)
            return
        with code.loop(0, whole * lanes, lanes) as at:
            self._add_up(vectors, taps, [at], [None], line, target)
        if rest:
            self._add_up(vectors, taps, [whole * lanes], tail, line, target)
