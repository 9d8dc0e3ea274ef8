"""Ends a run on the cluster so that its client can check for slots; used by the chief."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.spark.control.checkpoints.snapshot import Snapshot
from sparkflow.spark.control.elastic import Resize
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.schedule import Schedule

BEGAN = "began"
"""For a change in progress: when the run before it ended, in seconds since 1970."""


class Pausing:
    """A `control.elastic.Resizing` that lets the client decide the number after the run has ended.

    Args:
        wanted: Whether the client wants the run to end at the end of a segment.
        after_s: Seconds after which it ends in any case, for a client that cannot request it; None
            for never.
        in_step: Whether all workers make their steps together; if not, a run ends only when all of
            them have ended the same epoch.
        remember: Keeps the state from which the next run continues.
        changes: The changes of the number of workers so far, see `TrainingHistory.resized`; the
            last one may still be in progress.
        clock: Returns seconds.
        now: Returns seconds since 1970.
    """

    def __init__(
        self,
        wanted: Callable[[], bool],
        after_s: float | None,
        in_step: bool,
        remember: Callable[[Snapshot], None],
        changes: Sequence[Mapping[str, Any]] = (),
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._wanted = wanted
        self._after_s = after_s
        self._in_step = in_step
        self._remember = remember
        self._changes = [dict(each) for each in changes]
        self._clock = clock
        self._now = now
        self._began_s: float | None = None

    def between_segments(self, schedule: Schedule, snapshot: Callable[[], Snapshot]) -> None:
        """Ends the run if the number of workers may change.

        Raises:
            Resize: It may change; another run continues from the remembered state.
        """
        if not self._in_step and not schedule.at_epoch_end:
            return
        self._remember(snapshot())
        if self._wanted() or self._is_over():
            raise Resize(0)

    def begins(self, history: TrainingHistory) -> None:
        """Adds the changes that the history, which may be older, does not contain."""
        self._began_s = self._clock()
        for change in self._changes:
            if BEGAN in change:
                change["pause_s"] = max(0.0, self._now() - change.pop(BEGAN))
        known = [_what(each) for each in history.resized]
        history.resized += [each for each in self._changes if _what(each) not in known]

    def _is_over(self) -> bool:
        if self._after_s is None or self._began_s is None:
            return False
        return self._clock() - self._began_s >= self._after_s


def _what(change: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(change[key] for key in ("step", "before", "workers"))
