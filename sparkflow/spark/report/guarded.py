"""Keeps what only reports from ending a training."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sparkflow.spark.control.callbacks import Callback, RunControl, Update

if TYPE_CHECKING:
    from sparkflow.spark.control.history.training_history import TrainingHistory

_log = logging.getLogger(__name__)


class Guarded(Callback):
    """A callback whose first failure is logged, and which is then left alone but for `on_close`.

    Args:
        inner: The callback, such as one that writes to a server that may go away.
        what: What is lost by that, for the log.
    """

    def __init__(self, inner: Callback, what: str) -> None:
        self._inner = inner
        self._what = what
        self._failed = False
        self.needs_epochs = inner.needs_epochs

    def on_waiting(self, text: str) -> None:
        """Passes it on."""
        self._guard(lambda: self._inner.on_waiting(text))

    def on_resume(self, path: str, step: int, finished: bool) -> None:
        """Passes it on."""
        self._guard(lambda: self._inner.on_resume(path, step, finished))

    def on_train_begin(self, run: RunControl) -> None:
        """Passes it on."""
        self._guard(lambda: self._inner.on_train_begin(run))

    def on_steps(self, update: Update) -> None:
        """Passes it on."""
        self._guard(lambda: self._inner.on_steps(update))

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Passes it on."""
        self._guard(lambda: self._inner.on_epoch_end(epoch, metrics))

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """Passes it on."""
        self._guard(lambda: self._inner.on_validation(metrics))

    def on_checkpoint(self, path: str) -> None:
        """Passes it on."""
        self._guard(lambda: self._inner.on_checkpoint(path))

    def on_restart(self, reason: str) -> None:
        """Passes it on."""
        self._guard(lambda: self._inner.on_restart(reason))

    def on_train_end(self, history: TrainingHistory) -> None:
        """Passes it on."""
        self._guard(lambda: self._inner.on_train_end(history))

    def on_close(self) -> None:
        """Passes it on, whatever failed before."""
        try:
            self._inner.on_close()
        except Exception as error:
            self._say(error)

    def _guard(self, tell: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            tell()
        except Exception as error:
            self._say(error)

    def _say(self, error: Exception) -> None:
        if not self._failed:
            _log.warning("%s: no more of it, training goes on: %r", self._what, error)
        self._failed = True
