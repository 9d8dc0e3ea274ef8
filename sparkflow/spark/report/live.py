"""Shows the metrics snapshots of a run on a display, at a suitable rate and without risk to it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from sparkflow.spark.control.callbacks import Callback, RunControl, Update
from sparkflow.spark.report.metrics_snapshot import MetricsSnapshot, SnapshotTracker

if TYPE_CHECKING:
    from sparkflow.spark.control.history.training_history import TrainingHistory

_log = logging.getLogger(__name__)


class Display(Protocol):
    """A display of metrics snapshots."""

    @property
    def period_s(self) -> float:
        """The minimum number of seconds between two calls of `show`."""

    def show(self, snapshot: MetricsSnapshot) -> None:
        """Shows a snapshot."""

    def close(self, snapshot: MetricsSnapshot) -> None:
        """Shows the last snapshot."""


class LiveReporter(Callback):
    """Shows a run on a display. A display that fails is not used again; training continues.

    Args:
        display: The display.
        clock: Returns seconds.
    """

    def __init__(self, display: Display, clock: Callable[[], float] = time.monotonic) -> None:
        self._display: Display | None = display
        self._clock = clock
        self._tracker = SnapshotTracker(clock)
        self._next = clock()
        self._phase = ""

    def on_waiting(self, text: str) -> None:
        """Shows what training is waiting for, each text at once."""
        self._tracker.on_waiting(text)
        self._refresh(at_once=text != self._phase)
        self._phase = text

    def on_resume(self, path: str, step: int, finished: bool) -> None:
        """Shows the checkpoint that is resumed; `on_close` does so if nothing is left to train."""
        self._tracker.on_resume(path, step, finished)
        if not finished:
            self._refresh(at_once=True)

    def on_train_begin(self, run: RunControl) -> None:
        """Shows that steps begin."""
        self._tracker.on_train_begin(run)
        self._refresh()

    def on_steps(self, update: Update) -> None:
        """Shows the steps."""
        self._tracker.on_steps(update)
        self._refresh()

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Shows the epoch."""
        self._tracker.on_epoch_end(epoch, metrics)
        self._refresh()

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """Shows the metrics."""
        self._tracker.on_validation(metrics)
        self._refresh()

    def on_restart(self, reason: str) -> None:
        """Shows the reason at once."""
        self._tracker.on_restart(reason)
        self._refresh(at_once=True)

    def on_train_end(self, history: TrainingHistory) -> None:
        """Notes that training has succeeded."""
        self._tracker.on_train_end(history)

    def on_close(self) -> None:
        """Shows how it ended."""
        self._tracker.on_close()
        self._guard(lambda display: display.close(self._tracker.snapshot()))
        self._display = None

    def _refresh(self, at_once: bool = False) -> None:
        if self._display is None or (not at_once and self._clock() < self._next):
            return
        self._guard(lambda display: display.show(self._tracker.snapshot()))
        if self._display is not None:
            self._next = self._clock() + self._display.period_s

    def _guard(self, use: Callable[[Display], None]) -> None:
        if self._display is None:
            return
        try:
            use(self._display)
        except Exception as error:  # a closed pipe, a lost kernel, another version of a library
            _log.info("%s shows no more: %r", type(self._display).__name__, error)
            self._display = None
