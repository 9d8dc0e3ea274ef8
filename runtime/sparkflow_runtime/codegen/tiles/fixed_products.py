"""Matrix products of sizes known at compile time, for compiled loops.

`gemm` inspects three arrays in every call to set up the product. If a compiled loop multiplies the
same sizes in every iteration, that is done once here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import host, native
from sparkflow_runtime.codegen.tiles import gemm, small_product, transposition
from sparkflow_runtime.codegen.tiles.gemm_entry import PART_WORK
from sparkflow_runtime.codegen.tiles.gemm_form import Size
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.once import once

_MOST_DOTS: Final = 3
"""Rows up to which transposing a right factor of at most 64 × 64 takes longer than using it."""
_FEW_DOTS: Final = 1
"""The same for larger ones, which `gemm` transposes faster (Zen 5, November 2026)."""
DTYPES: Final = (dtypes.float32, dtypes.float64)


@dataclass(frozen=True, slots=True)
class Product:
    """A product of two matrices in C order, or of stacks of them.

    Attributes:
        dtype: float32 or float64.
        rows: Rows of the result.
        columns: Columns of the result.
        depth: Length of the sum.
        turns_left: Whether the left factor is transposed.
        turns_right: Whether the right factor is transposed.
        count: Number of products.
        left_moves: Whether each has its own left factor.
        right_moves: Whether each has its own right factor.
    """

    dtype: DType
    rows: int
    columns: int
    depth: int
    turns_left: bool = False
    turns_right: bool = False
    count: int = 1
    left_moves: bool = True
    right_moves: bool = True

    @property
    def work(self) -> int:
        """Multiplications."""
        return self.rows * self.columns * self.depth * self.count

    @property
    def packed_elements(self) -> int:
        """Elements of a packed right factor, see `bind_packing`; 0 if packing does not pay off.

        It pays off if the factor would otherwise be copied, transposed or read with a large stride,
        and is the same in many products.
        """
        if self._gains_by_turning:
            return self.depth * self.columns
        form = gemm.form(self.dtype)
        has_tiles = self.rows > form.rows and self.columns > form.columns
        if self.count > 1 or self.is_small or not has_tiles:
            return 0
        return self.depth * form.packed_columns(self.columns)

    def bind_packing(self) -> Callable[..., bool]:
        """Returns a function that packs the right factor into an array of `packed_elements`."""
        if self._gains_by_turning:
            size_bytes = np.dtype(self.dtype.as_numpy_dtype).itemsize
            return transposition.bound(size_bytes, 1, self.columns, self.depth)
        columns = gemm.form(self.dtype).packed_columns(self.columns)
        sizes = self._sizes()
        sizes[Size.OUT_ROW] = columns
        counts = (self.depth * self.columns, self.packed_elements)
        return gemm.packing_body(self.dtype).bind(sizes, counts, 0)

    def bind_packed(self, threads: int = 1) -> Callable[..., bool]:
        """As `bind`, for a packed right factor."""
        if self._gains_by_turning:
            return replace(self, turns_right=False).bind(threads)
        sizes = self._sizes()
        sizes[Size.RIGHT_DEPTH] = gemm.form(self.dtype).packed_columns(self.columns)
        sizes[Size.RIGHT_COLUMN] = 0
        parts = sizes[Size.COUNT_PARTS :] = self._packed_parts(threads)
        counts = (self.rows * self.depth, self.packed_elements, self.rows * self.columns)
        return gemm.packed_body(self.dtype).bind(sizes, counts, 0, math.prod(parts))

    @property
    def _gains_by_turning(self) -> bool:
        """Whether packing transposes the right factor, so that vectors run along columns.

        With at least as many columns as lanes it takes an eighth to half of the time (Xeon,
        November 2026); with few, sums along a row are faster.
        """
        has_lanes = self.columns >= host.host().lanes(self.dtype)
        return self.turns_right and self.is_small and has_lanes

    @property
    def is_small(self) -> bool:
        """Whether neither factor is packed first, see `small_product`."""
        if self.count > 1:
            return False
        if self._fits or self._has_dots:
            return True
        if self.work >= 2 * PART_WORK or self.turns_left:
            return False
        is_vector = self.columns == 1 and self.depth >= host.host().lanes(self.dtype)
        return is_vector or (not self.turns_right and self.rows <= gemm.form(self.dtype).rows)

    @property
    def _fits(self) -> bool:
        return max(self.rows, self.columns, self.depth) <= small_product.MOST

    @property
    def _has_dots(self) -> bool:
        """Whether rows of both factors are multiplied, so that the right one is not transposed."""
        if not self.turns_right or self.turns_left or self.work >= 2 * PART_WORK:
            return False
        is_deep = self.depth >= host.host().lanes(self.dtype)
        return is_deep and self.rows <= (_MOST_DOTS if self._fits else _FEW_DOTS)

    def _sizes(self) -> list[int]:
        """Returns the numbers of `Size`, except for the parts."""
        m, n, k = self.rows, self.columns, self.depth
        left, right = self._strides()
        sizes = [0] * len(Size)
        sizes[Size.M : Size.COUNT + 1] = (m, n, k, *left, *right, n, self.count)
        sizes[Size.GROUP] = self.count
        steps = (m * k * self.left_moves, k * n * self.right_moves, m * n)
        sizes[Size.LEFT_NEXT : Size.OUT_NEXT + 1] = steps
        return sizes

    def _strides(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Strides of the left factor along rows and depth, of the right along depth and columns."""
        left = (1, self.rows) if self.turns_left else (self.depth, 1)
        right = (1, self.depth) if self.turns_right else (self.columns, 1)
        return left, right

    def bind(self, threads: int = 1, adds: bool = False) -> Callable[..., bool]:
        """Returns a function of left, right and out without overlap; see `native.Body.bind`.

        No size may be 0.

        Args:
            threads: Maximum number of parts the product is split into.
            adds: Whether the product is added to out; it must not be small then.
        """
        m, n, k = self.rows, self.columns, self.depth
        lefts, rights = (self.count if each else 1 for each in (self.left_moves, self.right_moves))
        counts = (lefts * m * k, rights * k * n, self.count * m * n)
        if self.is_small:
            assert not adds
            if self._has_dots:
                return _dots(self.dtype).bind((n, m, k, k, 1, 1, 1), counts, 0)
            left, right = self._strides()
            return _small(self.dtype).bind((m, n, k, *left, *right), counts, 0)
        sizes = self._sizes()
        sizes[Size.ADDS] = int(adds)
        parts = sizes[Size.COUNT_PARTS :] = self._parts(threads)
        return gemm.body(self.dtype).bind(sizes, counts, 0, math.prod(parts))

    def _parts(self, threads: int) -> tuple[int, int, int]:
        """Returns the numbers of parts of products, rows and columns with the fewest copies."""
        if self.count > 1:
            return min(self._worth(threads), self.count), 1, 1
        best = min(self._ways(threads), key=lambda way: way[0] * self.columns + way[1] * self.rows)
        return 1, *best

    def _packed_parts(self, threads: int) -> tuple[int, int, int]:
        """As `_parts`, if the right factor is not copied: parts as equal as possible."""
        form = gemm.form(self.dtype)
        tiles = -(-self.rows // form.rows), -(-self.columns // form.columns)

        def most_tiles(way: tuple[int, int]) -> tuple[int, int]:
            return -(-tiles[0] // way[0]) * -(-tiles[1] // way[1]), way[1]

        return 1, *min(self._ways(threads), key=most_tiles)

    def _ways(self, threads: int) -> list[tuple[int, int]]:
        """Returns the ways to split: numbers of parts of rows and of columns."""
        parts = self._worth(threads)
        return [(rows, parts // rows) for rows in range(1, parts + 1) if parts % rows == 0]

    def _worth(self, threads: int) -> int:
        return max(1, min(threads, self.work // PART_WORK))


@once
def _dots(dtype: DType) -> native.Body:
    lanes = host.host().lanes(dtype)
    arguments = gemm.form(dtype).element, lanes
    return native.written_body(small_product.dots_text, arguments, is_tidy=True)


@once
def _small(dtype: DType) -> native.Body:
    here = host.host()
    element = gemm.form(dtype).element
    arguments = element, here.lanes(dtype), gemm.small_rows()
    return native.written_body(small_product.text, arguments, is_tidy=True)
