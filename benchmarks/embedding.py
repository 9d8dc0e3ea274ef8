"""The table that `executor.py` trains: 4,096 of 1,000,000 rows of 64 numbers per step, by Adagrad.

The rows move towards targets. Every step uses different rows, so that caches do not help.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

ROWS, WIDTH = 1_000_000, 64
IDS = 4096
SETS = 64
"""Number of sets of ids that alternate."""
LEARNING_RATE = 0.1
INITIAL_ACCUMULATOR = 0.1

Array = npt.NDArray[Any]


def table() -> Array:
    """Returns the rows before training, [1000000, 64] float32."""
    return np.random.default_rng(0).random((ROWS, WIDTH), np.float32)


def id_sets(seed: int = 1) -> Array:
    """Returns the ids of each step, [64, 4096] int64; some occur twice in a set."""
    return np.random.default_rng(seed).integers(0, ROWS, (SETS, IDS))


def targets() -> Array:
    """Returns the targets of the rows of a step, [4096, 64] float32."""
    return np.random.default_rng(2).random((IDS, WIDTH), np.float32)


def loss(tf: Any, rows: Any, wanted: Any) -> Any:
    """Returns the mean squared distance as a tensor of the framework `tf`."""
    return tf.reduce_mean(tf.reduce_sum(tf.square(rows - wanted), 1))


def numpy_step(values: Array) -> Callable[[Array, Array], float]:
    """A hand-written training step: updates `values` and returns the loss before the update."""
    sums = np.full_like(values, INITIAL_ACCUMULATOR)
    rate = np.float32(LEARNING_RATE)

    def step(ids: Array, wanted: Array) -> float:
        difference = values[ids] - wanted
        mean_loss = float(np.square(difference).sum(1).mean())
        difference *= np.float32(2 / len(ids))
        order = np.argsort(ids, kind="stable")
        found = ids[order]
        starts = np.flatnonzero(np.concatenate(([True], found[1:] != found[:-1])))
        gradient = np.add.reduceat(difference[order], starts)
        unique = found[starts]
        total = sums[unique] + gradient * gradient
        sums[unique] = total
        values[unique] -= rate * gradient / np.sqrt(total)
        return mean_loss

    return step
