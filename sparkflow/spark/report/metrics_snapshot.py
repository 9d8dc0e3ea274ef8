"""The metrics snapshot that all displays show, and its text form."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sparkflow.spark.control.callbacks import Callback, RunControl, Update

if TYPE_CHECKING:
    from sparkflow.spark.control.history.training_history import TrainingHistory

# The weight of a new step in the moving average of the loss.
_LOSS_SHARE = 0.05
MUCH_WAITING = 0.2
"""The smallest fraction of time spent waiting for data that a line shows."""
# Rates are computed over this many seconds.
_WINDOW_S = 10.0


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """The state of a training at a moment.

    Attributes:
        phase: What training is waiting for before the first step; "" during steps.
        epoch: The current epoch, from 1; 0 before the first step.
        epochs: The total number of epochs.
        step: The number of completed steps.
        total_steps: The total number of steps.
        rows: The number of rows trained on.
        total_rows: The total number of rows to train on.
        loss: A moving average over steps; None before the first.
        rows_per_s: Recent rows per second.
        wait_share: Recent fraction of the workers' time spent waiting for data.
        elapsed_s: Seconds since the start.
        validation: The last evaluation: `loss` and the metrics.
        watched: Its metric for early stopping, see `earlyStoppingMetric`.
        restarts: The number of interruptions.
        ended: "" while it runs, else "done", "failed", or "returned" if nothing was left to do.
        reason: Why training ended early; "" if it did not.
        epoch_rows: For each completed epoch a mapping of `loss`, `val_<metric>`, ...
    """

    phase: str = ""
    epoch: int = 0
    epochs: int = 0
    step: int = 0
    total_steps: int = 0
    rows: int = 0
    total_rows: int = 0
    loss: float | None = None
    rows_per_s: float = 0.0
    wait_share: float = 0.0
    elapsed_s: float = 0.0
    validation: Mapping[str, float] = field(default_factory=dict)
    watched: str = "loss"
    restarts: int = 0
    ended: str = ""
    reason: str = ""
    epoch_rows: tuple[Mapping[str, float], ...] = ()

    @property
    def done(self) -> float:
        """The completed fraction of the rows, from 0 to 1."""
        return min(self.rows / self.total_rows, 1.0) if self.total_rows else 0.0

    @property
    def remaining_s(self) -> float | None:
        """The estimated remaining seconds at the recent rate; None without a rate."""
        if self.ended or self.rows_per_s <= 0 or not self.total_rows:
            return None
        return max(self.total_rows - self.rows, 0) / self.rows_per_s


class SnapshotTracker(Callback):
    """Collects the metrics snapshot of a run. For the thread of `fit`.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._run: RunControl | None = None
        self._phase = ""
        self._loss: float | None = None
        self._validation: dict[str, float] = {}
        self._restarts = 0
        self._ended = ""
        self._reason = ""
        self._epochs: list[Mapping[str, float]] = []
        # (seconds, rows, seconds waited) at some moments of the last _WINDOW_S.
        self._window: deque[tuple[float, int, float]] = deque()

    def snapshot(self) -> MetricsSnapshot:
        """The current snapshot."""
        run, elapsed_s = self._run, self._clock() - self._began
        if run is None:
            return MetricsSnapshot(phase=self._phase, elapsed_s=elapsed_s, ended=self._ended)
        history = run.history
        rows = sum(history.epoch_rows)
        rows_per_s, wait_share = self._rates(run)
        epochs = round(run.total_rows / run.rows_per_epoch) if run.rows_per_epoch else 0
        return MetricsSnapshot(
            phase=self._phase,
            epoch=min(int(history.epochs) + 1, max(epochs, 1)),
            epochs=epochs,
            step=history.steps,
            total_steps=run.total_steps,
            rows=rows,
            total_rows=run.total_rows,
            loss=self._loss,
            rows_per_s=rows_per_s,
            wait_share=wait_share,
            elapsed_s=elapsed_s,
            validation=dict(self._validation),
            watched=str(run.params.get("earlyStoppingMetric", "loss")).removeprefix("-"),
            restarts=self._restarts,
            ended=self._ended,
            reason=self._reason,
            epoch_rows=tuple(self._epochs),
        )

    def on_waiting(self, text: str) -> None:
        """Records what training is waiting for."""
        self._phase = text

    def on_resume(self, path: str, step: int, finished: bool) -> None:
        """Records the checkpoint that is resumed."""
        if finished:
            self._ended = "returned"
            self._phase = f"{path} is of a finished training and is returned unchanged"
        else:
            self._phase = f"continuing from step {step:,} of {path}"

    def on_train_begin(self, run: RunControl) -> None:
        """Records the run."""
        self._run = run
        self._phase = ""
        self._window.clear()
        self._mark(run)

    def on_steps(self, update: Update) -> None:
        """Records the losses."""
        self._phase = ""
        self._loss = _follow(self._loss, update.losses[update.rows > 0])
        if self._run is not None:
            self._mark(self._run)

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Records the metrics of the epoch."""
        del self._epochs[epoch:]  # what a restart repeats
        self._epochs.append({"epoch": epoch, **metrics, **self._epoch_rates(epoch)})

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """Records the metrics."""
        self._validation = {name: value for name, value in metrics.items() if name != "step"}

    def on_restart(self, reason: str) -> None:
        """Counts the restart."""
        self._restarts += 1
        self._phase = f"starting again: {reason.splitlines()[0] if reason else 'interrupted'}"

    def on_train_end(self, history: TrainingHistory) -> None:
        """Records that training has succeeded."""
        self._phase = ""
        self._ended = "done"
        self._reason = history.stopped

    def on_close(self) -> None:
        """Records the end, a success if `on_train_end` came before."""
        self._ended = self._ended or "failed"

    def _mark(self, run: RunControl) -> None:
        now = self._clock()
        if self._window and now - self._window[-1][0] < _WINDOW_S / 100:
            return
        history = run.history
        self._window.append((now, sum(history.epoch_rows), history.waited_seconds))
        while len(self._window) > 2 and now - self._window[0][0] > _WINDOW_S:
            self._window.popleft()

    def _epoch_rates(self, epoch: int) -> dict[str, float]:
        history = self._run.history if self._run is not None else None
        if history is None or epoch >= len(history.epoch_time):
            return {}
        began = history.epoch_time[epoch - 1] if epoch else 0.0
        seconds = history.epoch_time[epoch] - began
        rate = history.epoch_rows[epoch] / seconds if seconds > 0 else 0.0
        return {"rows_per_s": rate, "wait_share": history.epoch_wait_share[epoch]}

    def _rates(self, run: RunControl) -> tuple[float, float]:
        history = run.history
        if self._ended or not self._window:
            return history.rows_per_second, history.wait_share
        began, rows, waited = self._window[0]
        seconds = self._clock() - began
        if seconds <= 0:
            return 0.0, 0.0
        share = (history.waited_seconds - waited) / (seconds * max(run.num_workers, 1))
        return (sum(history.epoch_rows) - rows) / seconds, min(max(share, 0.0), 1.0)


def _follow(mean: float | None, losses: npt.NDArray[np.float32]) -> float | None:
    """Returns the moving average after some more losses."""
    if not len(losses):
        return mean
    if mean is None or not math.isfinite(mean):
        mean = float(losses[0])
        losses = losses[1:]
    kept = (1 - _LOSS_SHARE) ** np.arange(len(losses) - 1, -1, -1)
    new = _LOSS_SHARE * float(np.dot(kept, losses.astype(np.float64)))
    return mean * float((1 - _LOSS_SHARE) ** len(losses)) + new


def describe(snapshot: MetricsSnapshot) -> str:
    """Returns one line: "epoch 2/5, step 120/600, loss 0.31, val auc 0.82, 45,600 rows/s".

    It contains the metric of the last evaluation that early stopping watches, and the time spent
    waiting for data if that is significant.
    """
    if snapshot.phase:
        return snapshot.phase
    if not snapshot.step:
        return snapshot.ended or "starting"
    parts = [
        f"epoch {snapshot.epoch}/{snapshot.epochs}",
        f"step {snapshot.step:,}/{snapshot.total_steps:,}" if snapshot.total_steps else "",
        f"loss {number(snapshot.loss)}" if snapshot.loss is not None else "",
        _validated(snapshot),
        f"{snapshot.rows_per_s:,.0f} rows/s",
        f"wait {snapshot.wait_share:.0%}" if snapshot.wait_share >= MUCH_WAITING else "",
        restarts(snapshot.restarts),
        f"{snapshot.ended} ({snapshot.reason})" if snapshot.reason else snapshot.ended,
    ]
    return ", ".join(part for part in parts if part)


def _validated(snapshot: MetricsSnapshot) -> str:
    value = snapshot.validation.get(snapshot.watched)
    return f"val {snapshot.watched} {number(value)}" if value is not None else ""


def restarts(count: int) -> str:
    """Returns the number of restarts in words; empty for none."""
    return f"{count} restart{'s' if count > 1 else ''}" if count else ""


def number(value: float | None) -> str:
    """Formats a loss or metric with few digits."""
    return "" if value is None else f"{value:.4g}"


def duration(seconds: float | None) -> str:
    """Formats seconds as 0:05, 12:34 or 1:02:03; "" for None."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
