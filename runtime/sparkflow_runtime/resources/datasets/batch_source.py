"""Sources of batches, through which training data enter a task; `IteratorV2` finds them by name."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class BatchSource(Protocol):
    """A source of batches.

    The process that hosts a task puts one into the task's `Resources` before training, under the
    `shared_name` of the graph's IteratorV2. Implementations are safe to call from several threads;
    each batch is delivered once.
    """

    def next_batch(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Returns one array per component, such as features and labels; may block for data.

        The caller owns the arrays: the source never writes to them again.

        Raises:
            OutOfRangeError: There is no more data.
        """

    def close(self) -> None:
        """Frees the source's resources; pending and later calls of `next_batch` raise."""
