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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.tiles.tile import Writer

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
    CHUNK = 23
    """Channels that are worked on at once, where panel by panel."""


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
        return self._vectors.multiply(a, self._vectors.constant(factor))

    def _plus(self, factor: float, a: str, b: str) -> str:
        """`factor · a + b`."""
        return self._vectors.multiply_add(a, self._vectors.constant(factor), b)

    def _sum(self, a: str, b: str) -> str:
        return self._vectors.add(a, b)

    def _difference(self, a: str, b: str) -> str:
        return self._code.let(f"fsub {self._vectors.kind} {a}, {b}")

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
