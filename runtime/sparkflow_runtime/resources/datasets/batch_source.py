"""Where training data enter a task: sources of batches, found by name by `IteratorV2`."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class BatchSource(Protocol):
    """Gives batch after batch.

    The process that hosts a task puts one into the task's `Resources` before training, under the
    `shared_name` of the graph's IteratorV2. Implementations are safe to call from several threads;
    each batch is delivered once.
    """

    def next_batch(self) -> tuple[np.ndarray[Any, Any], ...]:
        """One array per component, for instance features and labels; may block for data.

        The arrays belong to the receiver: the source never writes to them again.

        Raises:
            OutOfRangeError: There is no more data.
        """

    def close(self) -> None:
        """Frees what the source holds; `next_batch` that blocks or is called later raises."""
