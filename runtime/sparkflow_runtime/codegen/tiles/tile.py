"""What the writers of matrix products, contractions and poolings share: sizes, places, and a tile.

A tile is a part of the result that stays in registers while products are added to it: rows times
vectors of sums. How the factors come to it, in which loops and from which memory, is what the
writers differ in; the tile itself, its masks and its way to memory are written here only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from sparkflow_runtime.codegen.machine.llvm_text import Code, Value, Vectors


class Writer:
    """Writes one function of vectors whose numbers are places of an enum.

    Args:
        element: `float` or `double`.
        lanes: Elements per vector.
        num_sizes: How many numbers are in `%sizes`.
    """

    def __init__(self, element: str, lanes: int, num_sizes: int) -> None:
        self._code = Code()
        self._vectors = Vectors(self._code, element, lanes)
        self._sizes: list[Value] = [*self._code.sizes(num_sizes)]

    def text(self) -> str:
        """The module."""
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
        """The transposed square: as many perfect shuffles of its lines as it has bits."""
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
    """Sums in registers.

    Args:
        vectors: How vectors are read and written.
        rows: Of the whole tile.
        width: Vectors per row.
    """

    def __init__(self, vectors: Vectors, rows: int, width: int) -> None:
        self._vectors = vectors
        self._sums = [
            [vectors.code.variable(vectors.kind) for _ in range(width)] for _ in range(rows)
        ]

    def part(self, rows: int, masks: Sequence[str | None]) -> TilePart:
        """The first rows, a vector per mask."""
        return TilePart(self._vectors, [line[: len(masks)] for line in self._sums[:rows]], masks)


class TilePart:
    """The part of a tile that there is at the edge of a result, or all of it.

    Args:
        vectors: How vectors are read and written.
        sums: Variables, row by row.
        masks: Per vector of a row its lanes that count; None for all.
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
        """As many vectors as a row has, from an address on."""
        return [self._load(base, v, is_masked) for v in range(len(self._masks))]

    def one_by_one(self, base: str) -> Iterable[str]:
        """The same, each read where it is needed."""
        return (self._load(base, v, True) for v in range(len(self._masks)))

    def add_products(self, lefts: Iterable[Iterable[str]], right: Sequence[str]) -> None:
        """Adds, in every row, the products of vectors.

        Args:
            lefts: Row by row a vector per vector of the tile; taken as they are used.
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
        """Adds what lies at the rows' places."""
        for line, place in zip(self._sums, places, strict=True):
            for v, each in enumerate(line):
                before = self._load(place, v, True)
                total = self._vectors.add(before, self._code.get(each, self._vectors.kind))
                self._code.set(each, total, self._vectors.kind)

    def multiply_and_add_what_is_at(self, factor: str, places: Sequence[str]) -> None:
        """Multiplies the sums by a vector and adds what lies at the rows' places, rounded once."""
        kind = self._vectors.kind
        for line, place in zip(self._sums, places, strict=True):
            for v, each in enumerate(line):
                now = self._code.get(each, kind)
                before = self._load(place, v, True)
                self._code.set(each, self._vectors.multiply_add(now, factor, before), kind)

    def store(self, places: Iterable[str]) -> None:
        """Writes the rows to their places."""
        vectors = self._vectors
        for line, place in zip(self._sums, places, strict=True):
            for v, (each, mask) in enumerate(zip(line, self._masks, strict=True)):
                vectors.store(self._code.get(each, vectors.kind), place, v * vectors.lanes, mask)

    def _load(self, base: str, number: int, is_masked: bool) -> str:
        mask = self._masks[number] if is_masked else None
        return self._vectors.load(base, number * self._vectors.lanes, mask)
