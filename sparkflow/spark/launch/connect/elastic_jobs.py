"""Elastic training on Spark Connect: a sequence of jobs with as many workers as there are slots.

The client sees what is free (`free_slots`) and the chief leads, so a change goes there and back:
beside the questions for news the client looks for slots, with the next one it has the chief end the
run at the end of a segment, and what that has left comes back as the job's rows. The rows are then
placed anew, the graph is built again, and another job goes on. Where the slots are just enough
there is none to ask by, and jobs end by themselves from time to time for a look.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from sparkflow.spark.cluster.failures import is_restartable
from sparkflow.spark.control.attempts.retry_loop import RetryLoop
from sparkflow.spark.control.elastic import NEW_EXECUTOR_S, SETTLE_S
from sparkflow.spark.launch.connect.job import ConnectJob
from sparkflow.spark.launch.connect.live import Replay
from sparkflow.spark.launch.connect.outcome import Outcome, Paused
from sparkflow.spark.launch.connect.pausing import BEGAN
from sparkflow.spark.launch.training import Training

_log = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 60.0
"""How long a job runs that cannot be told of slots; twice as long each time that there are none."""
_LONGEST_PAUSE_S: Final = 960.0
_POLL_S: Final = 1.0


class MakeJob(Protocol):
    """Makes the job of a training, see `ConnectJob`."""

    def __call__(
        self,
        training: Training,
        left: Paused | None,
        changes: tuple[dict[str, Any], ...],
        look: Callable[[], None] | None,
        pause_after_s: float | None,
    ) -> ConnectJob:
        """The job, which goes on with what was left, if anything was."""


def workers_in(slots: int, num_ps: int, least: int) -> int:
    """For how many workers there is room in so many slots.

    One is left free to ask the chief by, if the least number of workers does not need it.
    """
    rest = slots - num_ps
    return max(0, rest - 1 if rest > least else rest)


class ElasticJobs:
    """One fit. For the thread that called it; `_look` is called by another one.

    Args:
        training: For the number of workers that it begins with.
        make_job: Makes its jobs.
        replay: Tells the callbacks.
        count: For how many workers there is room, given how many slots a running job of this fit
            has: 0 where none runs.
        pause: Blocks for so many seconds.
    """

    def __init__(
        self,
        training: Training,
        make_job: MakeJob,
        replay: Replay,
        count: Callable[[int], int],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        config = training.plan.config
        self._training = training
        self._make_job = make_job
        self._replay = replay
        self._count = count
        self._least, self._most = config.min_workers, training.most_workers
        self._pause = pause
        self._left: Paused | None = None
        self._changes: tuple[dict[str, Any], ...] = ()
        self._pause_after_s = FIRST_PAUSE_S
        self._lost: list[tuple[str, int]] = []
        self._found = 0

    def run(self) -> Outcome:
        """Trains and returns what came out. Blocks. Raises what `SparkTrainer.fit` does."""
        restarts = self._training.plan.config.max_restarts
        return RetryLoop(self._attempt, restarts, is_restartable, self._on_restart).run()

    def _on_restart(self, reason: str) -> None:
        self._lost.append((reason, self._replay.steps))
        self._training.callbacks.on_restart(reason)

    def _attempt(self, number: int) -> Outcome:
        if number:
            run = self._replay.run
            known = () if run is None else tuple(dict(each) for each in run.history.resized)
            if len(known) >= len(self._changes):  # with how long the last one took
                self._changes = known
            self._go_on_with(self._after_loss())
        while True:
            may_grow = self._workers < self._most
            job = self._make_job(
                self._training,
                self._left,
                self._changes,
                self._look if may_grow else None,
                self._pause_after_s if may_grow else None,
            )
            self._found = 0
            found = job.attempt(self._lost)
            if isinstance(found, Outcome):
                return found
            self._take(found)

    def _after_loss(self) -> int:
        """How many workers go on after a loss; waits for the least that may."""
        self._pause(SETTLE_S)
        deadline = time.monotonic() + NEW_EXECUTOR_S
        while (found := self._count(0)) < self._least and time.monotonic() < deadline:
            self._pause(_POLL_S)
        return max(self._least, min(found, self._most))

    @property
    def _workers(self) -> int:
        return self._training.plan.layout.num_workers

    def _look(self) -> None:
        """Has the run come to a halt where there is room for more workers."""
        self._found = min(self._count(self._training.plan.layout.num_tasks), self._most)
        if self._found > self._workers:
            self._replay.wants_pause = True

    def _take(self, paused: Paused) -> None:
        """Goes on with the number of workers that there is room for."""
        before, began = self._workers, time.time()
        self._left = paused
        self._changes = tuple(dict(each) for each in paused.changes)
        # What was found while the job ran is as good as a look now, and costs no time.
        found = self._found or min(self._count(0), self._most)
        self._go_on_with(found if found >= self._least else before)
        if self._workers == before:
            self._pause_after_s = min(2 * self._pause_after_s, _LONGEST_PAUSE_S)
            _log.info("no other number of workers: %d go on", before)
            return
        self._pause_after_s = FIRST_PAUSE_S
        change = {"step": paused.step, "workers": self._workers, "before": before, BEGAN: began}
        self._changes = (*self._changes, change)
        _log.info("%d workers go on from step %d instead of %d", self._workers, paused.step, before)

    def _go_on_with(self, workers: int) -> None:
        if workers == self._workers:
            return
        assert self._training.resized is not None
        self._training = self._training.resized(workers)
        self._replay.plan = self._training.plan
