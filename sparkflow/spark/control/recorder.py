"""Makes a history from what the workers' loops report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkflow.spark.control.callbacks import Update
from sparkflow.spark.control.history.training_history import MAX_ENTRIES, TrainingHistory

MAX_CHECKPOINTS = 100
"""The maximum number of checkpoints listed in a history."""


class HistoryRecorder:
    """Makes a history from what the workers' loops report. For one thread.

    Args:
        rows_per_epoch: The number of rows of the training data.
        workers: The number of workers.
        sync: Whether the workers step together.
        history: A history to continue, such as that of a checkpoint; None for a new one.
        restarts: The restarts of this fit so far; the history has those of earlier fits as well.
        max_entries: The maximum number of entries of a history, an even number.
        clock: Returns seconds.

    Attributes:
        history: The history so far.
        restarts: The restarts of this fit alone; the same list object that was passed.
    """

    def __init__(
        self,
        rows_per_epoch: int,
        workers: Sequence[int],
        sync: bool,
        history: TrainingHistory | None = None,
        restarts: list[dict[str, Any]] | None = None,
        max_entries: int = MAX_ENTRIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if history is None:
            history = TrainingHistory(rows_per_epoch=rows_per_epoch, num_workers=len(workers))
        self.history = history
        self.restarts = restarts if restarts is not None else []
        self._max_entries = max_entries
        self._clock = clock
        self._started: float | None = None
        self._rows_done = sum(history.epoch_rows)
        # In sync mode: the (weight, weighted loss) of each worker's steps not yet reported by all.
        self._open: dict[int, list[tuple[float, float]]] | None = (
            {worker: [] for worker in workers} if sync else None
        )
        self._open_waited_s = 0.0

    def start(self) -> None:
        """Starts the clock, at the time where the history ended; further calls have no effect."""
        if self._started is None:
            self._started = self._clock() - self.history.seconds

    def add(
        self,
        worker: int,
        losses: npt.NDArray[np.float32],
        weights: npt.NDArray[np.float32],
        waited_s: float,
    ) -> Update:
        """Records the steps of one worker.

        Args:
            worker: The worker.
            losses: [n] float32, the mean loss of each step's rows.
            weights: [n] float32, the rows of each step; 0 if it was a dummy step.
            waited_s: Seconds of these steps spent waiting for data.

        Returns:
            The steps that this completes: in sync mode those that all workers have now reported.
        """
        first = self.history.steps
        self.history.waited_seconds += waited_s
        self._open_waited_s += waited_s
        if self._open is None:
            rows = np.asarray(weights).astype(np.int64)
            return self._complete(first, np.asarray(losses, np.float32), rows, worker)
        self._open[worker] += [
            (float(weight), float(weight) * float(loss) if weight else 0.0)
            for loss, weight in zip(losses, weights, strict=True)
        ]
        complete = min(map(len, self._open.values()))
        means, counts = [], []
        for step in range(complete):
            parts = [steps[step] for steps in self._open.values()]
            weight = sum(weight for weight, _ in parts)
            means.append(sum(loss for _, loss in parts) / weight if weight else 0.0)
            counts.append(weight)
        for steps in self._open.values():
            del steps[:complete]
        return self._complete(
            first, np.asarray(means, np.float32), np.asarray(counts).astype(np.int64), -1
        )

    def add_untold(self, worker: int, count: int, rows: int) -> None:
        """Records steps with an unknown loss; the last known loss is used instead."""
        history = self.history
        losses = np.full(count, history.loss[-1] if history.loss else 0.0, np.float32)
        shares = np.full(count, rows // count, np.int64)
        shares[: rows % count] += 1
        history.untold_steps += count
        self._complete(history.steps, losses, shares, worker)

    def add_validation(self, metrics: Mapping[str, float]) -> None:
        """Records an evaluation: `loss` and the metrics, and the `step` if it is not the last."""
        known = {name: float(value) for name, value in metrics.items()}
        self.history.validation.append(
            {"step": float(self.history.steps), "time": self._now(), **known}
        )

    def add_checkpoint(self, step: int, path: str) -> None:
        """Records a complete checkpoint; drops old ones."""
        checkpoints = self.history.checkpoints
        checkpoints.append({"step": step, "time": self._now(), "path": path})
        del checkpoints[:-MAX_CHECKPOINTS]

    def add_restart(self, reason: str, undone_steps: int = 0) -> None:
        """Records an interruption; discards incomplete steps."""
        restart = {
            "step": self.history.steps,
            "time": self._now(),
            "reason": reason,
            "undone_steps": undone_steps,
        }
        self.restarts.append(restart)
        self.history.restarts.append(restart)
        for steps in (self._open or {}).values():
            steps.clear()

    def _now(self) -> float:
        self.start()
        assert self._started is not None
        return self._clock() - self._started

    def _complete(
        self,
        first: int,
        losses: npt.NDArray[np.float32],
        rows: npt.NDArray[np.int64],
        worker: int,
    ) -> Update:
        now = self._now()
        if not len(losses):
            return Update(first, losses, rows, worker, 0.0)
        history = self.history
        history.seconds = now
        waited_s, self._open_waited_s = self._open_waited_s, 0.0
        for loss, count in zip(losses.tolist(), rows.tolist(), strict=True):
            history.count_epoch(self._rows_done, loss, count, now, waited_s / len(losses))
            self._rows_done += count
            self._append(loss, count, worker, now)
        return Update(first, losses, rows, worker, waited_s)

    def _append(self, loss: float, rows: int, worker: int, now: float) -> None:
        history = self.history
        if history.steps % history.steps_per_entry:
            history.loss.append(loss)
            history.rows.append(rows)
            history.worker.append(worker)
            history.time.append(now)
            _merge_last_two(history)
        else:
            if len(history.loss) >= self._max_entries:
                _halve(history)
                self._append(loss, rows, worker, now)
                return
            history.loss.append(loss)
            history.rows.append(rows)
            history.worker.append(worker)
            history.time.append(now)
        history.steps += 1


def _halve(history: TrainingHistory) -> None:
    """Merges each pair of neighbouring entries."""
    pairs = range(0, len(history.loss), 2)
    merged = [_mean(history.loss[i : i + 2], history.rows[i : i + 2]) for i in pairs]
    history.worker = [_same(history.worker[i : i + 2]) for i in pairs]
    history.rows = [sum(history.rows[i : i + 2]) for i in pairs]
    history.time = [history.time[i : i + 2][-1] for i in pairs]
    history.loss = merged
    history.steps_per_entry *= 2


def _merge_last_two(history: TrainingHistory) -> None:
    history.loss[-2:] = [_mean(history.loss[-2:], history.rows[-2:])]
    history.worker[-2:] = [_same(history.worker[-2:])]
    history.rows[-2:] = [sum(history.rows[-2:])]
    history.time[-2:] = history.time[-1:]


def _mean(losses: Sequence[float], rows: Sequence[int]) -> float:
    total = sum(rows)
    if not total:
        return sum(losses) / len(losses)
    return sum(loss * count for loss, count in zip(losses, rows, strict=True) if count) / total


def _same(workers: Sequence[int]) -> int:
    return workers[0] if len(set(workers)) == 1 else -1
