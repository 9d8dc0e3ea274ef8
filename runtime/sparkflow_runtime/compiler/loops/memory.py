"""Memory that runs of a loop write to."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import scratch
from sparkflow_runtime.compiler.loops.pointers import Cell

_LINE: Final = 64
_MOST_STACKS: Final = 2
"""Of a run, and of that before it, whose tape may still be read."""


class Stacks:
    """Arrays in one block of memory, each with a row per turn.

    Args:
        cells: What a row of each is.
        rows: How many they have.

    Attributes:
        cells: The same.
        arrays: [rows, ...] each.
        addresses: Theirs, int64.
        pointers: For whoever has them to keep a table that points to them; None at first.
        version: Of what else is in the table.
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
        self.pointers: np.ndarray[Any, Any] | None = None
        self.version = 0
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


class Memory:
    """Arrays that runs of a loop write to, used again when nobody has them any more.

    New ones would be given by the system page after page, which takes longer than many a turn.
    """

    def __init__(self) -> None:
        self._arrays: dict[tuple[tuple[int, ...], np.dtype[Any]], list[np.ndarray[Any, Any]]] = {}
        self._stacks: dict[int, list[Stacks]] = {}
        self._taken: Counter[tuple[tuple[int, ...], np.dtype[Any]]] = Counter()

    def begin(self) -> None:
        """A run begins."""
        self._taken.clear()

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array with any contents that nobody else has or has a view of."""
        self._taken[shape, dtype] += 1
        arrays = self._arrays.setdefault((shape, dtype), [])
        for place in range(len(arrays)):
            if sys.getrefcount(arrays[place]) == _ONLY_HERE:
                return arrays[place]
        made = np.empty(shape, dtype)
        if len(arrays) < 2 * self._taken[shape, dtype]:  # for what is kept until the next run ends
            arrays.append(made)
        return made

    def take_stacks(self, cells: Sequence[Cell], rows: int) -> Stacks:
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
