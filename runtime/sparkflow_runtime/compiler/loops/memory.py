"""Memory that runs of a loop write to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import scratch
from sparkflow_runtime.compiler.loops.pointers import Cell

_LINE: Final = 64
_MOST_STACKS: Final = 2
"""Of a run, and of that before it, whose tape may still be read."""
_MOST_ARRAYS: Final = 2
"""The same of lists, which may still be read."""


class Stacks:
    """Arrays in one block of memory, each with a row per turn.

    Args:
        cells: What a row of each is.
        rows: How many they have.

    Attributes:
        cells: The same.
        arrays: [rows, ...] each.
        addresses: Theirs, int64.
        place: Where the block is and how many rows there are, which tells all of the above.
    """

    def __init__(self, cells: Sequence[Cell], rows: int) -> None:
        ends = np.cumsum([-(-rows * each.size_bytes // _LINE) * _LINE for each in cells], dtype=int)
        self._block = scratch.aligned(int(ends[-1]) if len(cells) else 0)
        self.cells = cells
        self.arrays: list[np.ndarray[Any, Any]] = []
        for cell, start in zip(cells, [0, *ends], strict=False):
            part = self._block[start : start + rows * cell.size_bytes]
            self.arrays.append(part.view(cell.dtype).reshape(rows, *cell.shape))
            del part  # or it would be counted
        self.addresses = np.array([each.ctypes.data for each in self.arrays], np.int64)
        self.place = self._block.ctypes.data, rows
        self._references = sys.getrefcount(self.owner)

    @property
    def owner(self) -> np.ndarray[Any, Any]:
        """The array that views of these are views of."""
        return self._block if self._block.base is None else self._block.base

    @property
    def is_free(self) -> bool:
        """Whether nobody has a view of one of them."""
        return sys.getrefcount(self.owner) == self._references


NO_STACKS: Final = Stacks((), 0)
"""Of a loop that records nothing."""


class Reused:
    """Arrays of one kind that runs of a loop write to, given again when nobody has them any more.

    New ones would be given by the system page after page, which takes longer than many a turn.
    """

    def __init__(self) -> None:
        self._kind: tuple[tuple[int, ...], np.dtype[Any]] | None = None
        self._arrays: list[np.ndarray[Any, Any]] = []

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array with any contents that nobody else has or has a view of."""
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
    """The stacks that runs of a loop write to, given again as `Reused` gives arrays."""

    def __init__(self) -> None:
        self._stacks: dict[int, list[Stacks]] = {}

    def take(self, cells: Sequence[Cell], rows: int) -> Stacks:
        """Arrays that nobody else has; `cells` are the same in every call."""
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
"""What is counted for an array that only a list has."""
