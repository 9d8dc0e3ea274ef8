"""Statistics of repeated measurements: medians, their spread, and ratios of rounds."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure measured in several rounds.

    Attributes:
        rounds: The figure of each round, in the order of the rounds.
    """

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """Half the interquartile range, as a fraction of the median."""
        if len(self.rounds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.rounds, n=4, method="inclusive")
        return (high - low) / 2 / self.median if self.median else 0.0

    def over(self, other: Measured) -> Measured:
        """Returns this figure divided by another, round by round.

        Rounds of competitors alternate, so anything that slows down the machine affects both: the
        ratio varies less than either figure.
        """
        return Measured(tuple(a / b for a, b in zip(self.rounds, other.rounds, strict=True)))

    def minus(self, other: Measured) -> Measured:
        """Returns this figure minus another, round by round."""
        return Measured(tuple(a - b for a, b in zip(self.rounds, other.rounds, strict=True)))


def measured(rounds: Sequence[float]) -> Measured:
    """Returns the figure of these rounds."""
    return Measured(tuple(rounds))


def seconds_per_call(
    call: Callable[[], Any], round_s: float, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Measures the mean time of a call over about `round_s` seconds, without garbage collection."""
    calls = 1
    gc.collect()
    gc.disable()
    try:
        while True:
            start = clock()
            for _ in range(calls):
                call()
            elapsed = clock() - start
            if elapsed >= round_s / 2:
                return elapsed / calls
            calls = max(calls * 2, int(calls * round_s / max(elapsed, 1e-9)))
    finally:
        gc.enable()
