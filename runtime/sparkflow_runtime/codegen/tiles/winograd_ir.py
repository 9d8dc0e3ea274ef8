"""Machine code for small convolutions by minimal filtering (Winograd), and for their gradients.

After Winograd (1980), Lavin and Gray ("Fast Algorithms for Convolutional Neural Networks", 2016).
A tile of 6 × 6 elements d and a filter g of r × r are transformed and multiplied point by point;
added up over channels, that makes 36 products of matrices. The sums are transformed to m × m
outputs, m = 7 - r:

    out = Aᵀ [(G g Gᵀ) ∘ (Bᵀ d B)] A

For r = 3 that is 36 products where there are 144 otherwise, for r = 5 36 instead of 100. The
gradient by filters is the same with m and r exchanged: from tiles of 6 × 6 and "filters" that are
tiles of dy come r × r outputs; the sums go over tiles (`winograd_gradient_ir`).

The points are 0, ±5/8, ±3/2 and infinity: of all pairs of eighths and sixteenths, they and their
neighbours have the least error, half of that of the usual 0, ±1, ±2 (measured; Barabasz et al.,
"Error Analysis and Improving the Accuracy of Winograd Convolution", 2020, say how). See ADR 0064.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import repeat
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.tile import Tile, Writer

POINTS: Final = 6
"""Elements of a tile, in each of two dimensions."""
PRODUCTS: Final = POINTS * POINTS
UNROLLED: Final = 4
"""Steps of the innermost loop that are written out."""

_A: Final = 5 / 8
_B: Final = 3 / 2
_A2, _B2 = _A * _A, _B * _B
_AT_ZERO: Final = 1 / (_A2 * _B2)
_AT_A: Final = 1 / (2 * _A2 * (_A2 - _B2))
_AT_B: Final = 1 / (2 * _B2 * (_B2 - _A2))


class Field(IntEnum):
    """Places in `sizes`. Strides count elements.

    The left side is what is cut into tiles of 6 × 6. The other one is filters, or tiles of dy.
    """

    HEIGHT = 0
    WIDTH = 1
    CHANNELS = 2
    TOP = 3
    """Zeros before the first line; less than 0 where the first tile begins further down."""
    LEFT = 4
    OUT_HEIGHT = 5
    OUT_WIDTH = 6
    OUTPUTS = 7
    TILE_COLUMNS = 8
    TILES = 9
    """Tiles per image."""
    FIRST = 10
    """The first tile of a gradient by filters."""
    GROUP = 11
    """Tiles that are worked on at once: whole tiles of rows."""
    LEFT_PITCH = 12
    """Of transformed tiles, from one to the next."""
    LEFT_PLANE = 13
    """From one of the 36 products to the next."""
    RIGHT_PLANE = 14
    OUT_PITCH = 15
    OUT_PLANE = 16
    PART = 17
    """Scratch memory of a part."""
    FILTER_TAP = 18
    """Filters as they are given: from one element to the next."""
    FILTER_CHANNEL = 19
    FILTER_OUTPUT = 20
    ADDS = 21
    """Whether a gradient by filters is added to what is there."""
    PANELS = 22


@dataclass(frozen=True, slots=True)
class Form:
    """What is fixed when the code is made.

    Attributes:
        taps: Elements of a filter, in each of two dimensions: 2 to 5.
        lanes: Elements per vector.
        rows: Of the tile of sums.
        vectors: Per row of the tile; together they are a panel.
        channels_rest: Whether the channels are not whole vectors.
        outputs_rest: Whether the outputs are not whole vectors.
    """

    taps: int
    lanes: int
    rows: int
    vectors: int
    channels_rest: bool
    outputs_rest: bool

    @property
    def tile(self) -> int:
        """Outputs of a tile, in each of two dimensions."""
        return POINTS + 1 - self.taps

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes


def filters_text(form: Form) -> str:
    """Transforms filters; the loop is over channels, the arrays are filters, transformed ones."""
    return _Filters(form).text()


def turned_filters_text(form: Form) -> str:
    """The same for filters backwards whose outputs are the other ones' channels.

    The loop is over vectors of channels, which lie one beside the other.
    """
    return _TurnedFilters(form).text()


def convolution_text(form: Form) -> str:
    """Convolves; the loop is over tiles. Arrays are images, transformed filters, out, scratch."""
    return _Convolution(form).text()


class Transforms(Writer):
    """What all bodies write: transforms of vectors, and where tiles lie.

    Args:
        form: What is fixed.
    """

    def __init__(self, form: Form) -> None:
        super().__init__("float", form.lanes, len(Field))
        self._form = form

    # ------------------------------------------------------------------------- one dimension

    def _scaled(self, factor: float, a: str) -> str:
        return self._vectors.multiply(a, self._constant(factor))

    def _plus(self, factor: float, a: str, b: str) -> str:
        """`factor · a + b`."""
        return self._vectors.multiply_add(a, self._constant(factor), b)

    def _sum(self, a: str, b: str) -> str:
        return self._vectors.add(a, b)

    def _difference(self, a: str, b: str) -> str:
        return self._code.let(f"fsub {self._vectors.kind} {a}, {b}")

    def _constant(self, number: float) -> str:
        (rounded,) = struct.unpack("f", struct.pack("f", number))
        (bits,) = struct.unpack("<Q", struct.pack("<d", rounded))
        each = f"float 0x{bits:016X}"
        return f"<{', '.join([each] * self._form.lanes)}>"

    def _of_tile(self, d: Sequence[str]) -> list[str]:
        """Bᵀ d: six from six."""
        found = [self._plus(_A2 * _B2, d[0], self._plus(-(_A2 + _B2), d[2], d[4]))]
        for point, other in ((_A, _B2), (_B, _A2)):
            even = self._plus(-other, d[2], d[4])
            odd = self._plus(-other, d[1], d[3])
            found += [self._plus(point, odd, even), self._plus(-point, odd, even)]
        return [*found, self._plus(_A2 * _B2, d[1], self._plus(-(_A2 + _B2), d[3], d[5]))]

    def _of_filter(self, g: Sequence[str]) -> list[str]:
        """G g: six from two to five."""
        found = [self._scaled(_AT_ZERO, g[0])]
        for point, scale in ((_A, _AT_A), (_B, _AT_B)):
            even, odd = (self._scaled(scale * point**k, g[k]) for k in range(2))
            for k, each in enumerate(g[2:], 2):
                if k % 2:
                    odd = self._plus(scale * point**k, each, odd)
                else:
                    even = self._plus(scale * point**k, each, even)
            found += [self._sum(even, odd), self._difference(even, odd)]
        return [*found, g[-1]]

    def _of_sums(self, m: Sequence[str], count: int) -> list[str]:
        """Aᵀ m: two to five from six."""
        even_a, even_b = self._sum(m[1], m[2]), self._sum(m[3], m[4])
        odd_a, odd_b = self._difference(m[1], m[2]), self._difference(m[3], m[4])
        found = [self._sum(m[0], self._sum(even_a, even_b))]
        for power in range(1, count):
            a, b = (odd_a, odd_b) if power % 2 else (even_a, even_b)
            if power == count - 1:
                total = self._plus(_B**power, b, m[5])
            else:
                total = self._scaled(_B**power, b)
            found.append(self._plus(_A**power, a, total))
        return found

    # ------------------------------------------------------------------------- two dimensions

    def _both_ways(
        self,
        transform: Callable[[Sequence[str]], list[str]],
        size: int,
        load: Callable[[int, int], str],
    ) -> list[list[str]]:
        """A transform of columns and then of rows."""
        columns = [transform([load(i, j) for i in range(size)]) for j in range(size)]
        return [transform(line) for line in zip(*columns, strict=True)]

    def _spread(self, lines: Sequence[Sequence[str]], target: str, plane: Field) -> None:
        """Stores 6 × 6 vectors, each in the plane of its product."""
        for i, line in enumerate(lines):
            for j, value in enumerate(line):
                place = self._code.multiply(self._size(plane), i * POINTS + j)
                self._vectors.store(value, target, place)

    def _gathered(self, source: str, count: int) -> list[list[str]]:
        """The outputs, `count` × `count`, of 6 × 6 sums that lie in planes."""

        def load(i: int, j: int) -> str:
            plane = self._code.multiply(self._size(Field.OUT_PLANE), i * POINTS + j)
            return self._vectors.load(source, plane)

        return self._both_ways(lambda sums: self._of_sums(sums, count), POINTS, load)

    def _each_vector(self, count: Value, has_rest: bool) -> Iterator[tuple[Value, str | None]]:
        """Where vectors of channels begin, and the mask of the last one if it is not whole."""
        code, lanes = self._code, self._form.lanes
        whole = code.let(f"and i64 {count}, {-lanes}")
        with code.loop(0, whole, lanes) as place:
            yield place, None
        if has_rest:
            yield whole, self._vectors.first(code.subtract(count, whole))

    def _tile_at(self, number: Value) -> tuple[str, str, str]:
        """The image, and line and column of a tile among those of the image."""
        code = self._code
        image = code.let(f"sdiv i64 {number}, {self._size(Field.TILES)}")
        rest = code.subtract(number, code.multiply(image, self._size(Field.TILES)))
        line = code.let(f"sdiv i64 {rest}, {self._size(Field.TILE_COLUMNS)}")
        column = code.subtract(rest, code.multiply(line, self._size(Field.TILE_COLUMNS)))
        return image, line, str(column)

    def _places(
        self,
        array: str,
        tile: tuple[str, str, str],
        size: int,
        origin: tuple[Value, Value],
        shape: tuple[Value, Value, Value],
        outside: str,
        places: str,
    ) -> None:
        """Where the pixels of a tile lie; `outside` for those that the image does not have."""
        code = self._code
        height, width, channels = shape
        image, line, column = tile
        area = code.multiply(code.multiply(height, width), channels)
        start = self._at(array, code.multiply(image, area))
        top = code.subtract(code.multiply(line, self._form.tile), origin[0])
        left = code.subtract(code.multiply(column, self._form.tile), origin[1])
        columns = []
        for j in range(size):
            x = code.add(left, j)
            columns.append((code.compare("ult", x, width), code.multiply(x, channels)))
        for i in range(size):
            y = code.add(top, i)
            is_line = code.compare("ult", y, height)
            here = self._at(start, code.multiply(y, code.multiply(width, channels)))
            for j, (is_column, offset) in enumerate(columns):
                there = code.both(is_line, is_column)
                place = code.choose(there, self._at(here, offset), outside)
                code.store("ptr", place, code.at("ptr", places, i * size + j))

    def _place(self, places: str, number: int) -> str:
        return self._code.load("ptr", self._code.at("ptr", places, number))


class _Filters(Transforms):
    def _write(self) -> None:
        code, size, form = self._code, self._size, self._form
        filters, out = code.arrays(2)
        with code.loop("%lo", "%hi") as channel:
            line = self._at(filters, code.multiply(channel, size(Field.FILTER_CHANNEL)))
            for output, target in self._each_output(out):
                there = self._at(target, code.multiply(channel, form.panel))
                inside = self._vectors.first(code.subtract(size(Field.OUTPUTS), output))

                def load(i: int, j: int, output: Value = output, inside: str = inside) -> str:
                    tap = code.multiply(size(Field.FILTER_TAP), i * form.taps + j)
                    return self._vectors.load(self._at(line, tap), output, inside)

                done = self._both_ways(self._of_filter, form.taps, load)
                self._spread(done, there, Field.RIGHT_PLANE)

    def _each_output(self, out: str) -> Iterator[tuple[Value, str]]:
        """Vectors of outputs, of all panels, and where that of channel 0 goes."""
        code, form = self._code, self._form
        with code.loop(0, self._size(Field.PANELS)) as panel:
            depth = code.multiply(panel, self._size(Field.CHANNELS))
            target = self._at(out, code.multiply(depth, form.panel))
            for v in range(form.vectors):
                output = code.add(code.multiply(panel, form.panel), v * form.lanes)
                yield output, self._at(target, v * form.lanes)


class _TurnedFilters(_Filters):
    """Squares of as many channels as outputs are turned in registers, tap by tap."""

    def _write(self) -> None:
        code, size, form, vectors = self._code, self._size, self._form, self._vectors
        filters, out = code.arrays(2)
        taps, square = form.taps**2, form.lanes**2
        turned = code.variable(f"[{taps * square} x float]")
        last = code.subtract(size(Field.OUTPUTS), 1)
        with code.loop("%lo", "%hi") as block:
            channel = code.multiply(block, form.lanes)
            here = self._at(filters, channel)
            rest = code.smaller(form.lanes, code.subtract(size(Field.CHANNELS), channel))
            mask = vectors.first(rest) if form.channels_rest else None
            for output, target in self._each_output(out):
                lines = [
                    code.multiply(
                        code.smaller(code.add(output, n), last), size(Field.FILTER_OUTPUT)
                    )
                    for n in range(form.lanes)
                ]
                for tap in range(taps):
                    beside = self._at(here, code.multiply(size(Field.FILTER_TAP), taps - 1 - tap))
                    read = [vectors.load(self._at(beside, line), 0, mask) for line in lines]
                    for n, each in enumerate(self._turned(read)):
                        vectors.store(each, turned, tap * square + n * form.lanes)
                with code.loop(0, rest) as inside:
                    now = self._at(turned, code.multiply(inside, form.lanes))

                    def load(i: int, j: int, now: str = now) -> str:
                        return vectors.load(now, (i * form.taps + j) * square)

                    there = code.multiply(code.add(channel, inside), form.panel)
                    done = self._both_ways(self._of_filter, form.taps, load)
                    self._spread(done, self._at(target, there), Field.RIGHT_PLANE)


class _Convolution(Transforms):
    def __init__(self, form: Form) -> None:
        super().__init__(form)
        self._tile = Tile(self._vectors, form.rows, form.vectors)
        self._sources = self._code.variable(f"[{PRODUCTS} x ptr]")
        self._targets = self._code.variable(f"[{form.tile**2} x ptr]")

    def _write(self) -> None:
        code, size = self._code, self._size
        images, filters, out, scratch = code.arrays(4)
        zeros = self._at(scratch, code.multiply("%part", size(Field.PART)))
        code.clear(zeros, code.multiply(size(Field.LEFT_PITCH), 4))
        aside = self._at(zeros, size(Field.LEFT_PITCH))
        tiles = self._at(aside, size(Field.OUT_PITCH))
        sums = self._at(tiles, code.multiply(size(Field.LEFT_PLANE), PRODUCTS))
        with code.loop("%lo", "%hi", size(Field.GROUP)) as first:
            count = code.smaller(size(Field.GROUP), code.subtract("%hi", first))
            self._take(images, first, count, tiles, zeros)
            with code.loop(0, PRODUCTS) as product:
                left = self._at(tiles, code.multiply(product, size(Field.LEFT_PLANE)))
                right = self._at(filters, code.multiply(product, size(Field.RIGHT_PLANE)))
                target = self._at(sums, code.multiply(product, size(Field.OUT_PLANE)))
                self._multiply(left, right, target, count)
            self._give(sums, first, count, out, aside)

    def _take(self, images: str, first: str, count: str, tiles: str, zeros: str) -> None:
        """Transforms tiles; the last one is done again until there are whole tiles of rows."""
        code, size, form = self._code, self._size, self._form
        up = code.let(f"sdiv i64 {code.add(count, form.rows - 1)}, {form.rows}")
        last = code.subtract(count, 1)
        shape = size(Field.HEIGHT), size(Field.WIDTH), size(Field.CHANNELS)
        origin = size(Field.TOP), size(Field.LEFT)
        with code.loop(0, code.multiply(up, form.rows)) as number:
            tile = self._tile_at(code.add(first, code.smaller(number, last)))
            self._places(images, tile, POINTS, origin, shape, zeros, self._sources)
            target = self._at(tiles, code.multiply(number, size(Field.LEFT_PITCH)))
            for channel, mask in self._each_vector(shape[2], form.channels_rest):

                def load(i: int, j: int, channel: Value = channel, mask: str | None = mask) -> str:
                    place = self._place(self._sources, i * POINTS + j)
                    return self._vectors.load(place, channel, mask)

                done = self._both_ways(self._of_tile, POINTS, load)
                self._spread(done, self._at(target, channel), Field.LEFT_PLANE)

    def _multiply(self, left: str, right: str, out: str, count: str) -> None:
        """[tiles, channels] by [channels, outputs]."""
        code, size, form, vectors = self._code, self._size, self._form, self._vectors
        channels, pitch = size(Field.CHANNELS), size(Field.LEFT_PITCH)
        unrolled = code.let(f"and i64 {channels}, {-UNROLLED}")
        part = self._tile.part(form.rows, [None] * form.vectors)
        with code.loop(0, size(Field.PANELS)) as panel:
            depth = code.multiply(code.multiply(panel, channels), form.panel)
            factors = self._at(right, depth)
            beside = self._at(out, code.multiply(panel, form.panel))
            with code.loop(0, count, form.rows) as row:
                lefts = [
                    self._at(left, code.multiply(code.add(row, r), pitch)) for r in range(form.rows)
                ]
                part.clear()
                for start, stop, steps in ((0, unrolled, UNROLLED), (unrolled, channels, 1)):
                    with code.loop(start, stop, steps) as k:
                        for step in range(steps):
                            now = code.add(k, step)
                            b = part.load(self._at(factors, code.multiply(now, form.panel)))
                            part.add_products(
                                (repeat(vectors.broadcast(each, now)) for each in lefts), b
                            )
                below = self._at(beside, code.multiply(row, size(Field.OUT_PITCH)))
                part.store(
                    self._at(below, code.multiply(size(Field.OUT_PITCH), r))
                    for r in range(form.rows)
                )

    def _give(self, sums: str, first: str, count: str, out: str, aside: str) -> None:
        """Transforms sums into outputs; what is outside of the result goes aside."""
        code, size, form = self._code, self._size, self._form
        shape = size(Field.OUT_HEIGHT), size(Field.OUT_WIDTH), size(Field.OUTPUTS)
        with code.loop(0, count) as number:
            tile = self._tile_at(code.add(first, number))
            self._places(out, tile, form.tile, (0, 0), shape, aside, self._targets)
            source = self._at(sums, code.multiply(number, size(Field.OUT_PITCH)))
            for output, mask in self._each_vector(shape[2], form.outputs_rest):
                lines = self._gathered(self._at(source, output), form.tile)
                for i, line in enumerate(lines):
                    for j, value in enumerate(line):
                        place = self._place(self._targets, i * form.tile + j)
                        self._vectors.store(value, place, output, mask)
