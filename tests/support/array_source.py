"""A source of batches for tests of its users."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError, OutOfRangeError


class ArraySource:
    """Batches of arrays in memory. Thread-safe.

    `_lock` guards the iterator. The last batch of an epoch may be short; no batch spans epochs.

    Args:
        arrays: One per component, all with the same number of rows.
        batch_size: Rows per batch, at least 1.
        epochs: How often all rows are delivered; None for no end.
        seed: Shuffles the rows anew in each epoch; None keeps their order.

    Raises:
        InvalidArgumentError: The arrays have no rows or different lengths, or the batch size or
            number
            of epochs that is not positive.
    """

    def __init__(
        self,
        arrays: Sequence[np.ndarray[Any, Any]],
        batch_size: int,
        epochs: int | None = 1,
        seed: int | None = None,
    ) -> None:
        lengths = [len(array) for array in arrays]
        if not lengths or not lengths[0] or len(set(lengths)) > 1:
            raise InvalidArgumentError(
                message=f"The arrays of a source must have the same number of rows and at least "
                f"one, got {lengths}"
            )
        if batch_size < 1 or (epochs is not None and epochs < 1):
            raise InvalidArgumentError(
                message=f"batch_size and epochs must be at least 1, got {batch_size} and {epochs}"
            )
        self._lock = threading.Lock()
        self._batches = _batches([np.asarray(a) for a in arrays], batch_size, epochs, seed)

    def next_batch(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Returns copies of the next rows.

        Raises:
            OutOfRangeError: All epochs were delivered, or the source was closed.
        """
        with self._lock:
            for batch in self._batches:
                return batch
        raise OutOfRangeError(message="End of sequence")

    def close(self) -> None:
        """Ends the sequence and releases the arrays."""
        with self._lock:
            self._batches = iter(())


def _batches(
    arrays: Sequence[np.ndarray[Any, Any]], batch_size: int, epochs: int | None, seed: int | None
) -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
    rows = len(arrays[0])
    generator = None if seed is None else np.random.default_rng(seed)
    epoch = 0
    while epochs is None or epoch < epochs:
        order = np.arange(rows) if generator is None else generator.permutation(rows)
        for start in range(0, rows, batch_size):
            chosen = order[start : start + batch_size]
            yield tuple(array[chosen] for array in arrays)
        epoch += 1
