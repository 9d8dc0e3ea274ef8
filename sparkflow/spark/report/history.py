"""What training was like: losses and rows per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class TrainingHistory:
    """Losses in the order in which the driver learnt of them.

    In async mode there is one entry per step of each worker; in sync mode one per step of all
    workers, its loss averaged over their rows.

    Attributes:
        loss: Per entry the mean loss over its rows.
        rows: Per entry the number of rows.
        worker: Per entry the worker; -1 in sync mode.
        rows_per_epoch: Rows of the training data.
        seconds: From the first step to the last.
        waited_seconds: Of these, what workers spent waiting for data and for each other, summed
            over the workers.
    """

    loss: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    worker: list[int] = field(default_factory=list)
    rows_per_epoch: int = 0
    seconds: float = 0.0
    waited_seconds: float = 0.0

    @property
    def steps(self) -> int:
        """The number of entries."""
        return len(self.loss)

    @property
    def epoch_loss(self) -> list[float]:
        """The mean loss over each epoch's rows, epochs counted by rows."""
        if not self.loss:
            return []
        rows = np.asarray(self.rows, np.float64)
        epoch = np.minimum(
            (np.cumsum(rows) - rows) // max(self.rows_per_epoch, 1),
            max(np.ceil(rows.sum() / max(self.rows_per_epoch, 1)) - 1, 0),
        ).astype(int)
        sums = np.bincount(epoch, np.asarray(self.loss) * rows)
        counts = np.bincount(epoch, rows)
        return [float(value) for value in sums / np.maximum(counts, 1)]

    def to_dict(self) -> dict[str, Any]:
        """All attributes as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingHistory:
        """What `to_dict` returned."""
        return cls(**values)


class HistoryRecorder:
    """Makes a history from what the workers' loops report.

    Args:
        rows_per_epoch: Rows of the training data.
        workers: The workers that train.
        sync: Whether the workers' steps belong together.
    """

    def __init__(self, rows_per_epoch: int, workers: Sequence[int], sync: bool) -> None:
        self.history = TrainingHistory(rows_per_epoch=rows_per_epoch)
        # In sync mode: per worker the (weight, weighted loss) of steps not reported by all yet.
        self._open: dict[int, list[tuple[float, float]]] | None = (
            {worker: [] for worker in workers} if sync else None
        )

    def add(
        self,
        worker: int,
        losses: npt.NDArray[np.float32],
        weights: npt.NDArray[np.float32],
        waited_s: float,
    ) -> int:
        """Takes the steps of one worker and returns how many entries were completed."""
        history = self.history
        history.waited_seconds += waited_s
        if self._open is None:
            history.loss += [float(loss) for loss in losses]
            history.rows += [int(weight) for weight in weights]
            history.worker += [worker] * len(losses)
            return len(losses)
        self._open[worker] += [
            (float(weight), float(weight) * float(loss) if weight else 0.0)
            for loss, weight in zip(losses, weights, strict=True)
        ]
        complete = min(map(len, self._open.values()))
        for step in range(complete):
            parts = [steps[step] for steps in self._open.values()]
            rows = sum(weight for weight, _ in parts)
            history.loss.append(sum(loss for _, loss in parts) / rows if rows else 0.0)
            history.rows.append(int(rows))
            history.worker.append(-1)
        for steps in self._open.values():
            del steps[:complete]
        return complete
