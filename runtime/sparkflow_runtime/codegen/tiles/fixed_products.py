"""Products of matrices whose sizes are known before they are computed: for code that calls them.

`gemm` looks at three arrays in every call and then says what is to be computed. Where a loop in
machine code multiplies the same sizes in every turn, that is said once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import host, native
from sparkflow_runtime.codegen.tiles import gemm, gemm_ir, small_product
from sparkflow_runtime.codegen.tiles.gemm_entry import PART_WORK
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.once import once

DTYPES: Final = (dtypes.float32, dtypes.float64)


@dataclass(frozen=True, slots=True)
class Product:
    """The product of two matrices in C order, or of stacks of them.

    Attributes:
        dtype: float32 or float64.
        rows: Of the result.
        columns: Of the result.
        depth: Over so many the sum runs.
        turns_left: Whether the left factor is transposed first.
        turns_right: Whether the right one is.
        count: How many products there are.
        left_moves: Whether each has a left factor of its own.
        right_moves: Whether each has a right one.
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

    def bind(self, threads: int = 1) -> Callable[..., bool]:
        """A function of left, right and out, which overlaps with neither; see `native.Body.bind`.

        No size may be 0.
        """
        m, n, k = self.rows, self.columns, self.depth
        left = (1, m) if self.turns_left else (k, 1)
        right = (1, k) if self.turns_right else (n, 1)
        lefts, rights = (self.count if each else 1 for each in (self.left_moves, self.right_moves))
        counts = (lefts * m * k, rights * k * n, self.count * m * n)
        if self.count == 1 and max(m, n, k) <= small_product.MOST:
            return _small(self.dtype).bind((m, n, k, *left, *right), counts, 0)
        parts = self._parts(threads)
        sizes = [0] * len(gemm_ir.Size)
        sizes[gemm_ir.Size.M : gemm_ir.Size.COUNT + 1] = (m, n, k, *left, *right, n, self.count)
        sizes[gemm_ir.Size.GROUP] = self.count
        steps = (m * k * self.left_moves, k * n * self.right_moves, m * n)
        sizes[gemm_ir.Size.LEFT_NEXT : gemm_ir.Size.OUT_NEXT + 1] = steps
        sizes[gemm_ir.Size.COUNT_PARTS :] = parts
        return gemm.body(self.dtype).bind(sizes, counts, 0, math.prod(parts))

    def _parts(self, threads: int) -> tuple[int, int, int]:
        """Into how many parts products, rows and columns are split: as few copies as can be."""
        parts = max(1, min(threads, self.work // PART_WORK))
        if self.count > 1:
            return min(parts, self.count), 1, 1
        ways = [(rows, parts // rows) for rows in range(1, parts + 1) if parts % rows == 0]
        best = min(ways, key=lambda way: way[0] * self.columns + way[1] * self.rows)
        return 1, *best


@once
def _small(dtype: DType) -> native.Body:
    here = host.host()
    element = gemm.form(dtype).element
    text = small_product.text(element, here.lanes(dtype), gemm.small_rows())
    return native.body(text, is_tidy=True)
