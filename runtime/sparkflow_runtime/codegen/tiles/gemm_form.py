"""What the generators of matrix products share: runtime numbers and compile-time parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from sparkflow_runtime.codegen.machine.llvm_text import Code, Value


class Size(IntEnum):
    """The contents of `%sizes` of `body`; strides are in elements.

    Attributes:
        M, N, K: The result is m × n, the sum runs over k.
        LEFT_ROW, LEFT_DEPTH: Strides of the left factor; one of them is 1.
        RIGHT_DEPTH, RIGHT_COLUMN: Strides of the right factor; one of them is 1.
        OUT_ROW: Stride between the result's rows.
        COUNT: Number of products.
        GROUP: Number of consecutive products at a constant stride.
        LEFT_NEXT, RIGHT_NEXT, OUT_NEXT: Strides from one product of a group to the next.
        LEFT_JUMP, RIGHT_JUMP, OUT_JUMP: Strides from one group to the next.
        ADDS: 1 if the product is added to the result instead of replacing it.
        SCALES: 1 if the product is first multiplied by a number, the fourth array.
        COUNT_PARTS, ROW_PARTS, COLUMN_PARTS: Number of parts that each of the three is split into.
    """

    M = 0
    N = 1
    K = 2
    LEFT_ROW = 3
    LEFT_DEPTH = 4
    RIGHT_DEPTH = 5
    RIGHT_COLUMN = 6
    OUT_ROW = 7
    COUNT = 8
    GROUP = 9
    LEFT_NEXT = 10
    RIGHT_NEXT = 11
    OUT_NEXT = 12
    LEFT_JUMP = 13
    RIGHT_JUMP = 14
    OUT_JUMP = 15
    ADDS = 16
    SCALES = 17
    COUNT_PARTS = 18
    ROW_PARTS = 19
    COLUMN_PARTS = 20


_STEPS: Final = (
    (Size.LEFT_NEXT, Size.LEFT_JUMP),
    (Size.RIGHT_NEXT, Size.RIGHT_JUMP),
    (Size.OUT_NEXT, Size.OUT_JUMP),
)


@dataclass(frozen=True, slots=True)
class Form:
    """The compile-time parameters of a kernel.

    Attributes:
        element: `float` or `double`.
        lanes: Elements per vector register.
        rows: Rows of a tile.
        vectors: Vectors per row of a tile.
        depth: Maximum length of a block of the sum.
        left_block: Elements of the left factor that are packed at a time.
        right_block: Columns of the right factor that are packed at a time.
        right_is_packed: Whether the right factor is already packed by `packing_ir`, so that
            products need not pack it again. It has more columns than a tile.
    """

    element: str
    lanes: int
    rows: int
    vectors: int
    depth: int
    left_block: int
    right_block: int
    right_is_packed: bool = False

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes

    def packed_columns(self, columns: int) -> int:
        """Returns the number of columns of a packed factor, rounded up to whole tiles."""
        return -(-columns // self.columns) * self.columns

    @property
    def fetches_ahead(self) -> bool:
        """Whether the next block to be packed is prefetched, which takes divisions by `columns`."""
        return self.columns & (self.columns - 1) == 0


def places(
    code: Code, element: str, sizes: Sequence[Value], arrays: Sequence[str], product: str
) -> list[str]:
    """Returns the addresses of a product's left and right factor and its result.

    Args:
        code: The function being emitted.
        element: `float` or `double`.
        sizes: The runtime numbers, see `Size`.
        arrays: Left, right, out.
        product: The number of the product.
    """
    group = code.let(f"sdiv i64 {product}, {sizes[Size.GROUP]}")
    inside = code.subtract(product, code.multiply(group, sizes[Size.GROUP]))
    found = []
    for array, (step, jump) in zip(arrays, _STEPS, strict=True):
        offset = code.add(code.multiply(inside, sizes[step]), code.multiply(group, sizes[jump]))
        found.append(code.at(element, array, offset))
    return found
