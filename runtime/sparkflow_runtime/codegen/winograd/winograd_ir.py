"""Machine code for Winograd convolutions (minimal filtering) and their gradients.

After Winograd (1980), Lavin and Gray ("Fast Algorithms for Convolutional Neural Networks", 2016).
A tile of 6 × 6 elements d and a filter g of r × r are transformed and multiplied pointwise; summed
over channels, that amounts to 36 matrix products. The sums are transformed to m × m outputs, m = 7
- r:

    out = Aᵀ [(G g Gᵀ) ∘ (Bᵀ d B)] A

For r = 3 that takes 36 products instead of 144, for r = 5 36 instead of 100. The filter gradient is
the same with m and r exchanged: tiles of 6 × 6 and "filters" that are tiles of dy yield r × r
outputs, summed over tiles (`winograd_gradient_ir`).

The points are 0, ±5/8, ±3/2 and infinity: of all pairs of eighths and sixteenths, they and their
neighbours have the smallest error, half that of the usual 0, ±1, ±2 (measured as in Barabasz et
al., "Error Analysis and Improving the Accuracy of Winograd Convolution", 2020). See ADR 0064.
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
"""Unroll factor of the innermost loop."""

_A: Final = 5 / 8
_B: Final = 3 / 2
_A2, _B2 = _A * _A, _B * _B
_AT_ZERO: Final = 1 / (_A2 * _B2)
_AT_A: Final = 1 / (2 * _A2 * (_A2 - _B2))
_AT_B: Final = 1 / (2 * _B2 * (_B2 - _A2))


class Field(IntEnum):
    """Indices into `sizes`. Strides are in elements.

    The left side is cut into tiles of 6 × 6. The other one is filters, or tiles of dy.
    """

    HEIGHT = 0
    WIDTH = 1
    CHANNELS = 2
    TOP = 3
    """Zeros before the first line; negative if the first tile starts further down."""
    LEFT = 4
    OUT_HEIGHT = 5
    OUT_WIDTH = 6
    OUTPUTS = 7
    TILE_COLUMNS = 8
    TILES = 9
    """Tiles per image."""
    FIRST = 10
    """The first tile of a filter gradient."""
    GROUP = 11
    """Tiles per group: whole tiles of rows."""
    LEFT_PITCH = 12
    """Stride between transformed tiles."""
    LEFT_PLANE = 13
    """Stride between the 36 products."""
    RIGHT_PLANE = 14
    OUT_PITCH = 15
    OUT_PLANE = 16
    PART = 17
    """Size of a part's scratch memory."""
    FILTER_TAP = 18
    """Stride between elements of the given filters."""
    FILTER_CHANNEL = 19
    FILTER_OUTPUT = 20
    ADDS = 21
    """Whether a filter gradient is added to the output."""
    PANELS = 22
    CHUNK = 23
    """Channels per chunk, if by panels."""


@dataclass(frozen=True, slots=True)
class Form:
    """The compile-time parameters of a kernel.

    Attributes:
        taps: Elements of a filter, in each of two dimensions: 2 to 5.
        lanes: Elements per vector.
        rows: Rows of the register tile.
        vectors: Vectors per row of the tile; together they form a panel.
        channels_rest: Whether the channels are not a multiple of the vector length.
        outputs_rest: Whether the outputs are not a multiple of the vector length.
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
    """Emits what all bodies share: vector transforms and tile addresses.

    Args:
        form: Compile-time parameters.
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
        """Applies a transform to columns and then to rows."""
        columns = [transform([load(i, j) for i in range(size)]) for j in range(size)]
        return [transform(line) for line in zip(*columns, strict=True)]

    def _spread(self, lines: Sequence[Sequence[str]], target: str, plane: Field) -> None:
        """Stores 6 × 6 vectors, each in the plane of its product."""
        for i, line in enumerate(lines):
            for j, value in enumerate(line):
                place = self._code.multiply(self._size(plane), i * POINTS + j)
                self._vectors.store(value, target, place)

    def _gathered(self, source: str, count: int) -> list[list[str]]:
        """Returns the outputs, `count` × `count`, of 6 × 6 sums stored in planes."""

        def load(i: int, j: int) -> str:
            plane = self._code.multiply(self._size(Field.OUT_PLANE), i * POINTS + j)
            return self._vectors.load(source, plane)

        return self._both_ways(lambda sums: self._of_sums(sums, count), POINTS, load)

    def _tile_at(self, number: Value) -> tuple[str, str, str]:
        """Returns the image of a tile, and its line and column within the image."""
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
        """Stores the addresses of a tile's pixels in `places`; `outside` beyond the image."""
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
