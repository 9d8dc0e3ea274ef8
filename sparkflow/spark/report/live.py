"""Brings the figures of a run to a display, as often as is good for it, and never to its harm."""

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
    """Where figures are shown."""

    @property
    def period_s(self) -> float:
        """Seconds between two calls of `show`, at least."""

    def show(self, snapshot: MetricsSnapshot) -> None:
        """Shows the figures."""

    def close(self, snapshot: MetricsSnapshot) -> None:
        """Shows them for the last time."""


class LiveReporter(Callback):
    """Shows a run on a display. A display that fails is not used again; training goes on.

    Args:
        display: Where.
        clock: Returns seconds.
    """

    def __init__(self, display: Display, clock: Callable[[], float] = time.monotonic) -> None:
        self._display: Display | None = display
        self._clock = clock
        self._tracker = SnapshotTracker(clock)
        self._next = clock()
        self._phase = ""

    def on_waiting(self, text: str) -> None:
        """Shows what is waited for, each text at once."""
        self._tracker.on_waiting(text)
        self._refresh(at_once=text != self._phase)
        self._phase = text

    def on_resume(self, path: str, step: int, finished: bool) -> None:
        """Shows what is gone on from; `on_close` does where that is all."""
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
        """Remembers that it went well."""
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
