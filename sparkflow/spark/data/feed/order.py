"""Which rows come next: the order of an epoch, and the first epoch while rows still arrive.

Only numbers here: positions of rows in the order in which they came.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]


def shuffled(in_order: Positions, seed: int, worker: int, epoch: int) -> Positions:
    """The positions of all rows in an order drawn for the epoch.

    Args:
        in_order: Positions by the numbers of their rows, so that the order does not depend on how
            the rows arrived.
        seed: With the others what it is drawn from.
        worker: The worker's index.
        epoch: From 0.
    """
    return in_order[np.random.default_rng([seed, worker, epoch]).permutation(len(in_order))]


class Arrivals:
    """The rows of the first epoch that have arrived and were not used.

    Args:
        seed, worker: What the order is drawn from; it also depends on how the rows arrive.
    """

    def __init__(self, seed: int, worker: int) -> None:
        self._generator = np.random.default_rng([seed, worker])
        self._unused: Positions = np.zeros(0, np.int64)
        self._next = 0
        self._count = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._unused) - self._next

    def grow(self, positions: Positions) -> None:
        """All that have arrived by now; new ones are mixed with those not used yet."""
        if len(positions) == self._count:
            return
        new = positions[self._count :]
        self._count = len(positions)
        self._unused = np.concatenate([self._unused[self._next :], new])
        self._generator.shuffle(self._unused)
        self._next = 0

    def draw(self, count: int) -> Positions:
        """At most so many positions; none of them comes again."""
        drawn = self._unused[self._next : self._next + count]
        self._next += len(drawn)
        return drawn


def portion_rows(row_bytes: float, batch_size: int, portion_bytes: int) -> int:
    """How many rows are gathered at once: whole batches of about `portion_bytes`, at least one.

    Gathering has a price per call, whatever its size.
    """
    batches = int(portion_bytes / max(row_bytes * batch_size, 1))
    return batch_size * max(1, min(batches, 64))
