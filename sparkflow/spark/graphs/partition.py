"""Division of a chain of operations into stages: the slowest as fast as memory permits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_MORE_THAN_A_SHARE: Final = 1.5
"""A stage reads up to so many times an equal share of the bytes of variables."""

_MORE_THAN_THE_LEAST: Final = 1.25
"""It may read up to so many times what the stage with most reads in the best of divisions."""

_AS_FAST: Final = 1.02
"""Divisions whose slowest stage is slower by less are as good: measurements differ by more."""


def partition(
    costs: Sequence[float], held: Sequence[float], crossing: Sequence[float], count: int
) -> list[int]:
    """Where each part but the first begins, in an order that nothing may change.

    The most expensive part costs the least that is possible where no part holds more than one and a
    half times an equal share of the memory, or a quarter more than some part must hold. Of the
    divisions that are as good (2 %), it is the one over whose cuts the fewest bytes pass, of these
    the most even one. The same figures give the same division.

    Args:
        costs: Per element what it costs.
        held: Per element the memory that it needs and no element before it does.
        crossing: Per element the bytes that pass a cut right before it.
        count: How many parts; none is empty.

    Raises:
        ValueError: There are fewer elements.
    """
    if len(costs) < count:
        raise ValueError(f"{len(costs)} elements cannot be divided into {count} parts")
    cost, memory = _sums(costs), _sums(held)
    least = _least_worst(memory, memory, np.inf, count)
    most = max(least * _MORE_THAN_THE_LEAST, memory[-1] / count * _MORE_THAN_A_SHARE)
    most *= 1 + 1e-9  # what rounding makes of sums must not decide what fits
    slowest = _least_worst(cost, memory, most, count) * _AS_FAST + 1e-12
    bytes_there = np.append(np.asarray(crossing, np.float64), 0.0)
    best: Any = np.where(np.arange(len(cost)) == 0, 0.0, np.inf)
    begins = []
    for part in range(count):
        before = best + (bytes_there if part else 0.0)
        best, begin = np.full(len(cost), np.inf), np.zeros(len(cost), np.int64)
        for end in range(1, len(cost)):
            fits = (cost[end] - cost[:end] <= slowest) & (memory[end] - memory[:end] <= most)
            # Less than a byte: the more even of divisions over whose cuts as many pass.
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
    """The least that the greatest of so many parts can have, where none holds more than `most`."""
    best: Any = np.where(np.arange(len(sums)) == 0, 0.0, np.inf)
    for _ in range(count):
        before, best = best, np.full(len(sums), np.inf)
        for end in range(1, len(sums)):
            fits = memory[end] - memory[:end] <= most
            worst = np.maximum(before[:end], sums[end] - sums[:end])
            best[end] = np.where(fits, worst, np.inf).min()
    return float(best[-1])
