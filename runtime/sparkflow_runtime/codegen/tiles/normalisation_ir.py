"""Machine code for batch normalisation, channels last: images are [rows, channels].

Rows are processed in chunks. Sums are computed per chunk, and then over chunks in order: they do
not depend on the number of threads, and are more precise than one long sum. The mean and the sum of
squares of a chunk are computed while it is in cache, and combined by the formula of Chan, Golub and
LeVeque (1979), which loses no precision if the mean is large.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.tile import Writer

_BLOCK: Final = 4
"""Vectors of channels that are processed together."""


class Field(IntEnum):
    """Indices into `sizes`."""

    ROWS = 0
    CHANNELS = 1
    CHUNK = 2
    """Rows per chunk; the last one may have fewer."""


@dataclass(frozen=True, slots=True)
class Form:
    """The compile-time parameters of a kernel.

    Attributes:
        element: `float` or `double`.
        lanes: Elements per vector.
    """

    element: str
    lanes: int


def moments_text(form: Form) -> str:
    """The loop is over chunks; arrays: x, sums and sums of squares, both [chunks, channels].

    Squares are of deviations from the chunk's own mean.
    """
    return _Moments(form).text()


def together_text(form: Form) -> str:
    """A single iteration; arrays: sums, sums of squares, and the results mean and variance."""
    return _Together(form).text()


def normal_text(form: Form) -> str:
    """Computes (x - mean) · factor + offset; arrays in this order, out last."""
    return _Normal(form).text()


def products_text(form: Form) -> str:
    """Σ dy and Σ dy · (x - mean) of chunks; arrays: dy, x, mean, both sums [chunks, channels]."""
    return _Products(form).text()


def slopes_text(form: Form) -> str:
    """Computes (dy - (x - mean) · slope - share) · factor; arrays in this order, out last."""
    return _Slopes(form).text()


class _Chunks(Writer):
    def __init__(self, form: Form) -> None:
        super().__init__(form.element, form.lanes, len(Field))
        self._lanes = form.lanes

    def _blocks(self) -> Iterator[tuple[Value, list[str | None]]]:
        """Yields the first channel of each block of vectors, and a mask per vector."""
        code, channels = self._code, self._size(Field.CHANNELS)
        width = _BLOCK * self._lanes
        whole = code.multiply(code.let(f"sdiv i64 {channels}, {width}"), width)
        with code.loop(0, whole, width) as channel:
            yield channel, [None] * _BLOCK
        with code.loop(whole, channels, self._lanes) as channel:
            yield channel, [self._vectors.first(code.subtract(channels, channel))]

    def _rows_of(self, chunk: Value) -> tuple[Value, Value]:
        """Returns the first row of a chunk, and its number of rows."""
        code = self._code
        first = code.multiply(chunk, self._size(Field.CHUNK))
        rest = code.subtract(self._size(Field.ROWS), first)
        return first, code.smaller(self._size(Field.CHUNK), rest)

    @contextmanager
    def _each_row(self, rows: tuple[Value, Value], channel: Value) -> Iterator[Value]:
        """Returns the address of the block's channels in a row."""
        code, channels = self._code, self._size(Field.CHANNELS)
        place = code.variable("i64", code.add(code.multiply(rows[0], channels), channel))
        with code.loop(0, rows[1]):
            now = code.get(place)
            yield now
            code.set(place, code.add(now, channels))

    def _load(self, base: str, place: Value, masks: list[str | None]) -> list[str]:
        return [
            self._vectors.load(base, code_place, mask)
            for code_place, mask in zip(self._places(place, masks), masks, strict=True)
        ]

    def _store(self, values: list[str], base: str, place: Value, masks: list[str | None]) -> None:
        for value, there, mask in zip(values, self._places(place, masks), masks, strict=True):
            self._vectors.store(value, base, there, mask)

    def _places(self, place: Value, masks: list[str | None]) -> list[Value]:
        return [self._code.add(place, v * self._lanes) for v in range(len(masks))]

    def _sums(self, masks: list[str | None]) -> list[str]:
        kind = self._vectors.kind
        return [self._code.variable(kind, "zeroinitializer") for _ in masks]

    def _totals(self, sums: list[str]) -> list[str]:
        return [self._code.get(each, self._vectors.kind) for each in sums]

    def _less(self, a: str, b: str) -> str:
        return self._code.let(f"fsub {self._vectors.kind} {a}, {b}")

    def _count(self, count: Value) -> str:
        """Broadcasts an integer to all lanes."""
        element = self._vectors.element
        return self._vectors.splat(self._code.let(f"sitofp i64 {count} to {element}"))

    def _over(self, a: str, b: str) -> str:
        return self._code.let(f"fdiv {self._vectors.kind} {a}, {b}")

    def _add_to(self, sums: list[str], values: list[str]) -> None:
        kind = self._vectors.kind
        for each, value in zip(sums, values, strict=True):
            now = self._code.get(each, kind)
            self._code.set(each, self._vectors.add(now, value), kind)

    def _add_products_to(self, sums: list[str], left: list[str], right: list[str]) -> None:
        kind = self._vectors.kind
        for each, a, b in zip(sums, left, right, strict=True):
            now = self._code.get(each, kind)
            self._code.set(each, self._vectors.multiply_add(a, b, now), kind)


class _Moments(_Chunks):
    def _write(self) -> None:
        code = self._code
        x, totals, squares = code.arrays(3)
        with code.loop("%lo", "%hi") as chunk:
            rows = self._rows_of(chunk)
            count = self._count(rows[1])
            line = code.multiply(chunk, self._size(Field.CHANNELS))
            for channel, masks in self._blocks():
                there = code.add(line, channel)
                sums = self._sums(masks)
                with self._each_row(rows, channel) as place:
                    self._add_to(sums, self._load(x, place, masks))
                found = self._totals(sums)
                self._store(found, totals, there, masks)
                means = [self._over(each, count) for each in found]
                sums = self._sums(masks)
                with self._each_row(rows, channel) as place:
                    values = self._load(x, place, masks)
                    apart = [self._less(a, b) for a, b in zip(values, means, strict=True)]
                    self._add_products_to(sums, apart, apart)
                self._store(self._totals(sums), squares, there, masks)


class _Together(_Chunks):
    def _write(self) -> None:
        code, size = self._code, self._size
        totals, squares, mean, variance = code.arrays(4)
        chunks = code.add(size(Field.ROWS), code.subtract(size(Field.CHUNK), 1))
        chunks = code.let(f"sdiv i64 {chunks}, {size(Field.CHUNK)}")
        rows = self._count(size(Field.ROWS))
        for channel, masks in self._blocks():
            sums = self._sums(masks)
            with self._each_row((0, chunks), channel) as place:
                self._add_to(sums, self._load(totals, place, masks))
            means = [self._over(each, rows) for each in self._totals(sums)]
            self._store(means, mean, channel, masks)
            sums = self._sums(masks)
            with code.loop(0, chunks) as chunk:
                place = code.add(code.multiply(chunk, size(Field.CHANNELS)), channel)
                count = self._count(self._rows_of(chunk)[1])
                self._add_to(sums, self._load(squares, place, masks))
                for each, own, total in zip(
                    sums, means, self._load(totals, place, masks), strict=True
                ):
                    apart = self._less(self._over(total, count), own)
                    weighted = self._vectors.multiply(apart, count)
                    self._add_products_to([each], [apart], [weighted])
            found = [self._over(each, rows) for each in self._totals(sums)]
            self._store(found, variance, channel, masks)


class _Normal(_Chunks):
    def _write(self) -> None:
        code = self._code
        x, mean, factor, offset, y = code.arrays(5)
        with code.loop("%lo", "%hi") as chunk:
            rows = self._rows_of(chunk)
            for channel, masks in self._blocks():
                vectors = [self._load(each, channel, masks) for each in (mean, factor, offset)]
                with self._each_row(rows, channel) as place:
                    found = [
                        self._vectors.multiply_add(self._less(value, m), f, o)
                        for value, m, f, o in zip(
                            self._load(x, place, masks), *vectors, strict=True
                        )
                    ]
                    self._store(found, y, place, masks)


class _Products(_Chunks):
    def _write(self) -> None:
        code = self._code
        dy, x, mean, totals, products = code.arrays(5)
        with code.loop("%lo", "%hi") as chunk:
            rows = self._rows_of(chunk)
            line = code.multiply(chunk, self._size(Field.CHANNELS))
            for channel, masks in self._blocks():
                there = code.add(line, channel)
                means = self._load(mean, channel, masks)
                sums, more = self._sums(masks), self._sums(masks)
                with self._each_row(rows, channel) as place:
                    slopes = self._load(dy, place, masks)
                    self._add_to(sums, slopes)
                    values = self._load(x, place, masks)
                    apart = [self._less(a, b) for a, b in zip(values, means, strict=True)]
                    self._add_products_to(more, apart, slopes)
                self._store(self._totals(sums), totals, there, masks)
                self._store(self._totals(more), products, there, masks)


class _Slopes(_Chunks):
    def _write(self) -> None:
        code = self._code
        dy, x, mean, slope, share, factor, dx = code.arrays(7)
        with code.loop("%lo", "%hi") as chunk:
            rows = self._rows_of(chunk)
            for channel, masks in self._blocks():
                vectors = [
                    self._load(each, channel, masks) for each in (mean, slope, share, factor)
                ]
                with self._each_row(rows, channel) as place:
                    found = []
                    values = self._load(x, place, masks)
                    for value, given, m, s, h, f in zip(
                        values, self._load(dy, place, masks), *vectors, strict=True
                    ):
                        along = self._vectors.multiply(self._less(value, m), s)
                        rest = self._less(self._less(given, along), h)
                        found.append(self._vectors.multiply(rest, f))
                    self._store(found, dx, place, masks)
