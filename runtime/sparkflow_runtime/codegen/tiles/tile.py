"""What the generators of matrix products, contractions and poolings share: sizes and a tile.

A tile is a part of the result that stays in registers while products are accumulated: rows times
vectors of sums. Generators differ in the loops and memory from which the factors come; the tile
itself, its masks, loads and stores are emitted only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Code, Value, Vectors

PARALLEL_ELEMENTS: Final = 100_000
"""Image elements from which several threads pay off."""


class Writer:
    """Emits one vector function whose runtime numbers are indexed by an enum.

    Args:
        element: `float` or `double`.
        lanes: Elements per vector.
        num_sizes: How many numbers `%sizes` has.
    """

    def __init__(self, element: str, lanes: int, num_sizes: int) -> None:
        self._code = Code()
        self._vectors = Vectors(self._code, element, lanes)
        self._sizes: list[Value] = [*self._code.sizes(num_sizes)]

    def text(self) -> str:
        """Returns the module."""
        self._write()
        return self._code.module()

    def _write(self) -> None:
        """Writes the function."""
        raise NotImplementedError

    def _size(self, field: IntEnum) -> Value:
        return self._sizes[field]

    def _at(self, base: str, index: Value) -> str:
        return self._code.at(self._vectors.element, base, index)

    def _turned(self, square: list[str]) -> list[str]:
        """Transposes a square by log2(size) rounds of perfect shuffles of its lines."""
        code, kind, lanes = self._code, self._vectors.kind, self._vectors.lanes
        masks = []
        for start in (0, lanes // 2):
            pairs = [f"i32 {start + n // 2 + n % 2 * lanes}" for n in range(lanes)]
            masks.append(f"<{lanes} x i32> <{', '.join(pairs)}>")
        for _ in range(lanes.bit_length() - 1):
            square = [
                code.let(f"shufflevector {kind} {a}, {kind} {b}, {mask}")
                for a, b in zip(square[: lanes // 2], square[lanes // 2 :], strict=True)
                for mask in masks
            ]
        return square


class Tile:
    """The register accumulators of a tile.

    Args:
        vectors: How vectors are read and written.
        rows: Rows of the full tile.
        width: Vectors per row.
    """

    def __init__(self, vectors: Vectors, rows: int, width: int) -> None:
        self._vectors = vectors
        self._sums = [
            [vectors.code.variable(vectors.kind) for _ in range(width)] for _ in range(rows)
        ]

    def part(self, rows: int, masks: Sequence[str | None]) -> TilePart:
        """Returns the first rows, with a vector per mask."""
        return TilePart(self._vectors, [line[: len(masks)] for line in self._sums[:rows]], masks)


class TilePart:
    """The valid part of a tile at the edge of a result, or all of it.

    Args:
        vectors: How vectors are read and written.
        sums: The accumulator variables, row by row.
        masks: The valid lanes of each vector of a row; None for all.
    """

    def __init__(
        self, vectors: Vectors, sums: list[list[str]], masks: Sequence[str | None]
    ) -> None:
        self._vectors = vectors
        self._code = vectors.code
        self._sums = sums
        self._masks = masks

    def clear(self) -> None:
        """Sets the sums to zero."""
        for line in self._sums:
            for each in line:
                self._code.set(each, "zeroinitializer", self._vectors.kind)

    def load(self, base: str, is_masked: bool = True) -> list[str]:
        """Loads the vectors of a row from an address."""
        return [self._load(base, v, is_masked) for v in range(len(self._masks))]

    def one_by_one(self, base: str) -> Iterable[str]:
        """Yields the same vectors, each loaded where it is needed."""
        return (self._load(base, v, True) for v in range(len(self._masks)))

    def add_products(self, lefts: Iterable[Iterable[str]], right: Sequence[str]) -> None:
        """Accumulates products of vectors in every row.

        Args:
            lefts: Per row, a vector per vector of the tile; consumed lazily.
            right: The same for all rows.
        """
        vectors = self._vectors
        for line, left in zip(self._sums, lefts, strict=True):
            for each, a, b in zip(line, left, right, strict=False):
                total = self._code.get(each, vectors.kind)
                self._code.set(each, vectors.multiply_add(a, b, total), vectors.kind)

    def multiply_by(self, factor: str) -> None:
        """Multiplies the sums by a vector."""
        kind = self._vectors.kind
        for line in self._sums:
            for each in line:
                self._code.set(
                    each, self._vectors.multiply(self._code.get(each, kind), factor), kind
                )

    def add_what_is_at(self, places: Sequence[str]) -> None:
        """Adds the values in memory at the rows' addresses."""
        for line, place in zip(self._sums, places, strict=True):
            for v, each in enumerate(line):
                before = self._load(place, v, True)
                total = self._vectors.add(before, self._code.get(each, self._vectors.kind))
                self._code.set(each, total, self._vectors.kind)

    def multiply_and_add_what_is_at(self, factor: str, places: Sequence[str]) -> None:
        """Multiplies the sums by a vector and adds the values at the rows' addresses, fused."""
        kind = self._vectors.kind
        for line, place in zip(self._sums, places, strict=True):
            for v, each in enumerate(line):
                now = self._code.get(each, kind)
                before = self._load(place, v, True)
                self._code.set(each, self._vectors.multiply_add(now, factor, before), kind)

    def store(self, places: Iterable[str]) -> None:
        """Stores the rows to their addresses."""
        vectors = self._vectors
        for line, place in zip(self._sums, places, strict=True):
            for v, (each, mask) in enumerate(zip(line, self._masks, strict=True)):
                vectors.store(self._code.get(each, vectors.kind), place, v * vectors.lanes, mask)

    def _load(self, base: str, number: int, is_masked: bool) -> str:
        mask = self._masks[number] if is_masked else None
        return self._vectors.load(base, number * self._vectors.lanes, mask)
