"""Concatenating and splitting tensors along a dimension, by machine code.

Each part is a strip of every row. numpy takes 10 to 20 ns to go from row to row, which dominates
for short strips.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

from sparkflow_runtime.codegen.cpu.copies import Pieces, bind_copies
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.op import Array

_MOST_BYTES: Final = 1 << 20
"""Above this, numpy is used, which releases the GIL."""
_SHAPE: Final = operator.attrgetter("shape")


class Strips:
    """The copies of one node, bound to the shapes that it saw last.

    Args:
        is_cut: Whether it splits the whole into parts rather than concatenating.
        is_stacked: Whether the dimension is new, so that parts lack it.
    """

    def __init__(self, is_cut: bool = False, is_stacked: bool = False) -> None:
        self._is_cut = is_cut
        self._is_stacked = is_stacked
        self._known: Any = None
        self._copies: Sequence[Callable[..., bool]] | None = None

    def copy(self, parts: Sequence[Array], axis: int, whole: Array) -> bool:
        """Copies between arrays that do not overlap.

        Args:
            parts: The parts, of one dtype.
            axis: The dimension along which they are concatenated; negative ones count from the end.
            whole: The concatenated array.

        Returns:
            Whether it succeeded: False if arrays have gaps or shapes do not fit.
        """
        known = (axis, whole.shape, list(map(_SHAPE, parts)))
        if known != self._known:
            self._copies = self._bound(parts, axis, whole)
            self._known = known
        if self._copies is None:
            return False
        if not self._is_cut:
            return self._copies[0](*parts, whole)
        return all(copy(whole, part) for copy, part in zip(self._copies, parts, strict=True))

    def _bound(
        self, parts: Sequence[Array], axis: int, whole: Array
    ) -> Sequence[Callable[..., bool]] | None:
        rank, part_rank = whole.ndim, whole.ndim - self._is_stacked
        if whole.dtype.hasobject or whole.nbytes > _MOST_BYTES or not native.available():
            return None
        if not -rank <= axis < rank or any(part.ndim != part_rank for part in parts):
            return None
        axis %= rank
        around = whole.shape[:axis], whole.shape[axis + 1 :]
        after = axis + (not self._is_stacked)
        if any(
            (part.shape[:axis], part.shape[after:]) != around or part.dtype != whole.dtype
            for part in parts
        ):
            return None
        sizes = [1 if self._is_stacked else part.shape[axis] for part in parts]
        if sum(sizes) != whole.shape[axis]:
            return None
        rows, element = prod(around[0]), prod(around[1]) * whole.itemsize
        step = whole.shape[axis] * element
        starts = [0, *itertools.accumulate(sizes)]
        strips = [
            (start * element, size * element) for start, size in zip(starts, sizes, strict=False)
        ]
        if self._is_cut:
            return [
                bind_copies([Pieces(0, start, 0, size, rows, step, size)], 1, (whole.size, count))
                for (start, size), count in zip(strips, [part.size for part in parts], strict=True)
            ]
        pieces = [
            Pieces(number, 0, start, size, rows, size, step)
            for number, (start, size) in enumerate(strips)
        ]
        counts = [part.size for part in (*parts, whole)]
        return [bind_copies(pieces, len(parts), counts)]
