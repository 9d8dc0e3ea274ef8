"""Memory that runs of a loop write to."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any, Final

import numpy as np


class Memory:
    """Arrays that runs of a loop write to, used again when nobody has them any more.

    New ones would be given by the system page after page, which takes longer than many a turn.
    """

    def __init__(self) -> None:
        self._arrays: dict[tuple[tuple[int, ...], np.dtype[Any]], list[np.ndarray[Any, Any]]] = {}
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


def _references() -> int:
    arrays = [np.empty(0)]
    return sys.getrefcount(arrays[0])


_ONLY_HERE: Final = _references()
"""What is counted for an array that only a list has."""
