"""Elastic training: decides between segments how many workers continue."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from sparkflow.spark.control.checkpoints.snapshot import Snapshot
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.schedule import Schedule

_log = logging.getLogger(__name__)

# The time within which the driver learns, after a loss, that the slot is gone as well.
SETTLE_S: Final = 3.0
NEW_EXECUTOR_S: Final = 120.0
_POLL_S: Final = 0.5


class Resize(Exception):
    """Ends a run, without an error, because training continues with another number of workers.

    Args:
        workers: That number; 0 if another process decides it.
    """

    def __init__(self, workers: int) -> None:
        number = str(workers) if workers else "as many as there are slots for"
        super().__init__(f"training continues with another number of workers: {number}")
        self.workers = workers


class Resizing(Protocol):
    """Decides whether the number of workers changes. Called by the leading thread."""

    def between_segments(self, schedule: Schedule, snapshot: Callable[[], Snapshot]) -> None:
        """Returns if training continues with the same number of workers.

        Raises:
            Resize: It continues with another number.
        """

    def begins(self, history: TrainingHistory) -> None:
        """Called at the start of a run, with its history."""


class ElasticWorkers:
    """Adapts the number of workers to the slots. Used by the thread that called `fit`.

    Args:
        least: The minimum number of workers; training waits for these.
        most: The maximum number of workers.
        count: Returns how many workers there are slots for, including those in use.
        in_step: Whether all workers step together; if not, the number changes only when all of them
            have ended the same epoch.
        remember: Keeps the snapshot from which the next run starts.
        pause: Blocks for a number of seconds.

    Attributes:
        workers: The current number of workers.
    """

    def __init__(
        self,
        least: int,
        most: int,
        count: Callable[[], int],
        in_step: bool,
        remember: Callable[[Snapshot], None],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._least = least
        self._most = most
        self._count = count
        self._in_step = in_step
        self._remember = remember
        self._pause = pause
        self._changed: dict[str, Any] | None = None
        self._changes: list[dict[str, Any]] = []
        self.workers = 0

    def between_segments(self, schedule: Schedule, snapshot: Callable[[], Snapshot]) -> None:
        """Returns if training continues with the same number of workers.

        Raises:
            Resize: It continues with another number, from what was remembered.
        """
        if not self._in_step and not schedule.at_epoch_end:
            return
        self._remember(snapshot())
        found = self._count()
        wanted = min(found, self._most) if found >= self._least else self.workers
        if wanted != self.workers:
            self._changed = {
                "step": schedule.total,
                "workers": wanted,
                "before": self.workers,
                "began": time.monotonic(),
            }
            raise Resize(wanted)

    def begins(self, history: TrainingHistory) -> None:
        """Notes how long training was paused, if the number has changed.

        Changes noted before a loss are noted again, because the history restarts from before it.
        """
        changed, self._changed = self._changed, None
        if changed is not None:
            pause_s = time.monotonic() - changed.pop("began")
            self._changes.append({**changed, "pause_s": pause_s})
            _log.info(
                "%d workers train instead of %d from step %d on; the change took %.1f s",
                changed["workers"],
                changed["before"],
                changed["step"],
                pause_s,
            )
        history.resized += [each for each in self._changes if each not in history.resized]

    def after_loss(self) -> int:
        """Returns how many workers continue after a loss; waits for the minimum number."""
        self._changed = None
        self._pause(SETTLE_S)
        waited_s = 0.0
        while (found := self._count()) < self._least and waited_s < NEW_EXECUTOR_S:
            self._pause(_POLL_S)
            waited_s += _POLL_S
        return max(self._least, min(found, self._most))
