"""Divides a chain of operations into stages such that the slowest is as fast as memory permits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_MORE_THAN_A_SHARE: Final = 1.5
"""A stage may read up to this multiple of an equal share of the variables' bytes."""

_MORE_THAN_THE_LEAST: Final = 1.25
"""It may read up to this multiple of the most that any stage reads in the best division."""

_AS_FAST: Final = 1.02
"""Divisions whose slowest stages differ by less are equivalent: measurements differ by more."""


def partition(
    costs: Sequence[float], held: Sequence[float], crossing: Sequence[float], count: int
) -> list[int]:
    """Returns the start of each part but the first, without reordering elements.

    The most expensive part is as cheap as possible under the limit that no part holds more than one
    and a half times an equal share of the memory, or a quarter more than some part must hold. Among
    equivalent divisions (within 2 %), the one with the fewest bytes across its cuts is chosen, and
    among these the most even one. The result is deterministic.

    Args:
        costs: The cost of each element.
        held: The memory that each element needs and no earlier element does.
        crossing: The bytes that cross a cut right before each element.
        count: The number of parts; none is empty.

    Raises:
        ValueError: There are fewer elements than parts.
    """
    if len(costs) < count:
        raise ValueError(f"{len(costs)} elements cannot be divided into {count} parts")
    cost, memory = _sums(costs), _sums(held)
    least = _least_worst(memory, memory, np.inf, count)
    most = max(least * _MORE_THAN_THE_LEAST, memory[-1] / count * _MORE_THAN_A_SHARE)
    most *= 1 + 1e-9  # rounding errors of sums must not decide what fits
    slowest = _least_worst(cost, memory, most, count) * _AS_FAST + 1e-12
    bytes_there = np.append(np.asarray(crossing, np.float64), 0.0)
    best: Any = np.where(np.arange(len(cost)) == 0, 0.0, np.inf)
    begins = []
    for part in range(count):
        before = best + (bytes_there if part else 0.0)
        best, begin = np.full(len(cost), np.inf), np.zeros(len(cost), np.int64)
        for end in range(1, len(cost)):
            fits = (cost[end] - cost[:end] <= slowest) & (memory[end] - memory[:end] <= most)
            # Less than a byte: breaks ties in favour of the more even division.
            uneven = 0.5 * ((cost[end] - cost[:end]) / (cost[-1] or 1.0)) ** 2
            sums = np.where(fits, before[:end] + uneven, np.inf)
            begin[end] = np.argmin(sums)
            best[end] = sums[begin[end]]
        begins.append(begin)
    cuts = [len(costs)]
    for begin in reversed(begins):
        cuts.append(int(begin[cuts[-1]]))
    return cuts[-2:0:-1]


def _sums(values: Sequence[float]) -> Floats:
    return np.append(0.0, np.cumsum(np.asarray(values, np.float64)))


def _least_worst(sums: Floats, memory: Floats, most: float, count: int) -> float:
    """Returns the smallest possible maximum over the parts if none holds more than `most`."""
    best: Any = np.where(np.arange(len(sums)) == 0, 0.0, np.inf)
    for _ in range(count):
        before, best = best, np.full(len(sums), np.inf)
        for end in range(1, len(sums)):
            fits = memory[end] - memory[:end] <= most
            worst = np.maximum(before[:end], sums[end] - sums[:end])
            best[end] = np.where(fits, worst, np.inf).min()
    return float(best[-1])
