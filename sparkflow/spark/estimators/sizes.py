"""The default batch size and epochs of the ready-made estimators.

Few rows need many epochs: the number of updates matters. The numbers were chosen on scikit-learn's
data sets, so that test scores match those of its `MLPClassifier` and `MLPRegressor` or are better
(see `docs/spark_estimators.md`). From `MANY_ROWS` on, nothing depends on the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sparkflow.spark.control.plan import epoch_steps

MANY_ROWS: Final = 100_000
_MANY_ROWS_BATCH: Final = 128
_UPDATES: Final = 1000
_MOST_EPOCHS: Final = 200
_LEAST_BATCH: Final = 8
_BATCHES: Final = ((4_000, 32), (20_000, 64))
"""Pairs (n, batch size): below n rows, batches have this size."""

_DECAYED_ROWS: Final = 500
_MOST_DECAY: Final = 1.0


@dataclass(frozen=True, slots=True)
class Size:
    """Batch size, epochs and updates of a training.

    Attributes:
        batch_size: Rows per step of each worker.
        epochs: How often each row is trained on.
        updates: The number of steps that change the variables.
    """

    batch_size: int
    epochs: int
    updates: int


def size_of(
    worker_rows: Sequence[int],
    *,
    in_step: bool,
    least_epochs: int,
    batch_size: int = 0,
    epochs: int = 0,
    max_steps: int = 0,
    accumulation: int = 1,
) -> Size:
    """Chooses the sizes that are not given.

    Args:
        worker_rows: The number of training rows by worker.
        in_step: Whether all workers step together.
        least_epochs: The number of epochs for many rows.
        batch_size: The batch size; 0 to choose it.
        epochs: The number of epochs; 0 to choose it.
        max_steps: The maximum number of steps; 0 for no limit.
        accumulation: Batches per update.
    """
    rows = sum(worker_rows)
    batch_size = batch_size or _batch(rows)
    per_worker = epoch_steps(worker_rows, batch_size, in_step)
    per_epoch = max(per_worker) if in_step else sum(per_worker)
    if not epochs:
        wanted = -(-_UPDATES * accumulation // max(per_epoch, 1))
        epochs = max(least_epochs, min(wanted, _MOST_EPOCHS) if rows < MANY_ROWS else 0)
    steps = epochs * per_epoch
    steps = min(steps, max_steps) if max_steps else steps
    return Size(batch_size, epochs, max(steps // accumulation, 1))


def weight_decay_of(rows: int) -> float:
    """Returns the weight decay of a deep network, which is smaller for more rows."""
    return min(_MOST_DECAY, _DECAYED_ROWS / max(rows, 1))


def _batch(rows: int) -> int:
    for below, size in _BATCHES:
        if rows < below:
            # A minimum number of updates per epoch, even for very few rows.
            while size > _LEAST_BATCH and size * 8 > rows:
                size //= 2
            return size
    return _MANY_ROWS_BATCH
