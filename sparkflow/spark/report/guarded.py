"""Prevents failures of reporting from ending a training."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sparkflow.spark.control.callbacks import Callback, RunControl, Update

if TYPE_CHECKING:
    from sparkflow.spark.control.history.training_history import TrainingHistory

_log = logging.getLogger(__name__)


class Guarded(Callback):
    """A callback that is disabled, except for `on_close`, after its first failure, which is logged.

    Args:
        inner: The callback, such as one that writes to a server that may become unavailable.
        what: What is lost by a failure, for the log.
    """

    def __init__(self, inner: Callback, what: str) -> None:
        self._inner = inner
        self._what = what
        self._failed = False
        self.needs_epochs = inner.needs_epochs

    def on_waiting(self, text: str) -> None:
        """Forwards the call."""
        self._guard(lambda: self._inner.on_waiting(text))

    def on_resume(self, path: str, step: int, finished: bool) -> None:
        """Forwards the call."""
        self._guard(lambda: self._inner.on_resume(path, step, finished))

    def on_train_begin(self, run: RunControl) -> None:
        """Forwards the call."""
        self._guard(lambda: self._inner.on_train_begin(run))

    def on_steps(self, update: Update) -> None:
        """Forwards the call."""
        self._guard(lambda: self._inner.on_steps(update))

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Forwards the call."""
        self._guard(lambda: self._inner.on_epoch_end(epoch, metrics))

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """Forwards the call."""
        self._guard(lambda: self._inner.on_validation(metrics))

    def on_checkpoint(self, path: str) -> None:
        """Forwards the call."""
        self._guard(lambda: self._inner.on_checkpoint(path))

    def on_restart(self, reason: str) -> None:
        """Forwards the call."""
        self._guard(lambda: self._inner.on_restart(reason))

    def on_train_end(self, history: TrainingHistory) -> None:
        """Forwards the call."""
        self._guard(lambda: self._inner.on_train_end(history))

    def on_close(self) -> None:
        """Forwards the call, even after a failure."""
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
            _log.warning("%s is disabled, training continues: %r", self._what, error)
        self._failed = True
