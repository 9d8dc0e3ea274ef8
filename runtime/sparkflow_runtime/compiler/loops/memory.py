"""Output memory of loop runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import scratch
from sparkflow_runtime.compiler.loops.pointers import Cell

_LINE: Final = 64
_MOST_STACKS: Final = 2
"""Stacks of a run, and of the previous one, whose tape may still be read."""
_MOST_ARRAYS: Final = 2
"""The same for lists, which may still be read."""


class Stacks:
    """Arrays in one block of memory, each with a row per iteration.

    Args:
        cells: The row type of each.
        rows: The number of rows.

    Attributes:
        cells: The same.
        arrays: [rows, ...] each.
        addresses: Their addresses, int64.
        place: Address and number of rows of the block, which determine all of the above.
    """

    def __init__(self, cells: Sequence[Cell], rows: int) -> None:
        ends = np.cumsum([-(-rows * each.size_bytes // _LINE) * _LINE for each in cells], dtype=int)
        self._block = scratch.aligned(int(ends[-1]) if len(cells) else 0)
        self.cells = cells
        self.arrays: list[np.ndarray[Any, Any]] = []
        for cell, start in zip(cells, [0, *ends], strict=False):
            part = self._block[start : start + rows * cell.size_bytes]
            self.arrays.append(part.view(cell.dtype).reshape(rows, *cell.shape))
            del part  # it would be counted otherwise
        self.addresses = np.array([each.ctypes.data for each in self.arrays], np.int64)
        self.place = self._block.ctypes.data, rows
        self._references = sys.getrefcount(self.owner)

    @property
    def owner(self) -> np.ndarray[Any, Any]:
        """The base array of all views."""
        return self._block if self._block.base is None else self._block.base

    @property
    def is_free(self) -> bool:
        """Whether there are no views of any of them."""
        return sys.getrefcount(self.owner) == self._references


NO_STACKS: Final = Stacks((), 0)
"""The stacks of a loop that records nothing."""


class Reused:
    """Output arrays of one kind for runs of a loop, reused once unreferenced.

    The system would fault in new ones page by page, which takes longer than many an iteration.
    """

    def __init__(self) -> None:
        self._kind: tuple[tuple[int, ...], np.dtype[Any]] | None = None
        self._arrays: list[np.ndarray[Any, Any]] = []

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Returns an uninitialized array to which nothing else refers."""
        if self._kind != (shape, dtype):
            self._kind, self._arrays = (shape, dtype), []
        arrays = self._arrays
        for place in range(len(arrays)):
            if sys.getrefcount(arrays[place]) == _ONLY_HERE:
                return arrays[place]
        made = np.empty(shape, dtype)
        if len(arrays) < _MOST_ARRAYS:
            arrays.append(made)
        return made


class StackMemory:
    """Output stacks for runs of a loop, reused as in `Reused`."""

    def __init__(self) -> None:
        self._stacks: dict[int, list[Stacks]] = {}

    def take(self, cells: Sequence[Cell], rows: int) -> Stacks:
        """Returns unreferenced arrays; `cells` are the same in every call."""
        kept = self._stacks.setdefault(rows, [])
        for place in range(len(kept)):
            if sys.getrefcount(kept[place]) == _ONLY_HERE and kept[place].is_free:
                return kept[place]
        made = Stacks(cells, rows)
        if len(kept) < _MOST_STACKS:
            kept.append(made)
        return made


def _references() -> int:
    arrays = [np.empty(0)]
    return sys.getrefcount(arrays[0])


_ONLY_HERE: Final = _references()
"""The reference count of an array that only a list holds."""
