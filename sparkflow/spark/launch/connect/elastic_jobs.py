"""Elastic training on Spark Connect: a sequence of jobs with as many workers as there are slots.

The client counts free slots (`free_slots`) while the chief leads. Between its polls for events the
client checks for slots; if there are more, its next poll makes the chief end the run at the end of
a segment, whose state is returned as the job's rows. The training rows are then placed again, the
graph is rebuilt, and another job continues. If there is no slot left for polls, jobs end by
themselves from time to time so that the client can check.
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
"""Seconds until a job that cannot be polled ends for a check; doubles if there are no new slots."""
_LONGEST_PAUSE_S: Final = 960.0
_POLL_S: Final = 1.0


class MakeJob(Protocol):
    """Creates the job of a training, see `ConnectJob`."""

    def __call__(
        self,
        training: Training,
        left: Paused | None,
        changes: tuple[dict[str, Any], ...],
        look: Callable[[], None] | None,
        pause_after_s: float | None,
    ) -> ConnectJob:
        """Returns the job, which continues from the state that the previous one left, if any."""


def workers_in(slots: int, num_ps: int, least: int) -> int:
    """Returns the number of workers that fit into these slots.

    One slot is left free for polling the chief unless the minimum number of workers needs it.
    """
    rest = slots - num_ps
    return max(0, rest - 1 if rest > least else rest)


class ElasticJobs:
    """The jobs of one fit. For the thread that called `fit`; another one calls `_look`.

    Args:
        training: The training for the initial number of workers.
        make_job: Creates the jobs.
        replay: Calls the callbacks.
        count: Returns the number of workers that fit, given the slots of the running job of this
            fit, or 0 if none runs.
        pause: Blocks for a number of seconds.
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
        """Trains and returns the outcome. Blocks. Raises the errors of `SparkTrainer.fit`."""
        restarts = self._training.plan.config.max_restarts
        return RetryLoop(self._attempt, restarts, is_restartable, self._on_restart).run()

    def _on_restart(self, reason: str) -> None:
        self._lost.append((reason, self._replay.steps))
        self._training.callbacks.on_restart(reason)

    def _attempt(self, number: int) -> Outcome:
        if number:
            run = self._replay.run
            known = () if run is None else tuple(dict(each) for each in run.history.resized)
            if len(known) >= len(self._changes):  # including the duration of the last one
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
        """Waits for the minimum number of workers after a loss; returns the number to use."""
        self._pause(SETTLE_S)
        deadline = time.monotonic() + NEW_EXECUTOR_S
        while (found := self._count(0)) < self._least and time.monotonic() < deadline:
            self._pause(_POLL_S)
        return max(self._least, min(found, self._most))

    @property
    def _workers(self) -> int:
        return self._training.plan.layout.num_workers

    def _look(self) -> None:
        """Makes the run stop if more workers fit."""
        self._found = min(self._count(self._training.plan.layout.num_tasks), self._most)
        if self._found > self._workers:
            self._replay.wants_pause = True

    def _take(self, paused: Paused) -> None:
        """Continues with the number of workers that fit."""
        before, began = self._workers, time.time()
        self._left = paused
        self._changes = tuple(dict(each) for each in paused.changes)
        # The count from while the job ran is as good as a new one, and costs no time.
        found = self._found or min(self._count(0), self._most)
        self._go_on_with(found if found >= self._least else before)
        if self._workers == before:
            self._pause_after_s = min(2 * self._pause_after_s, _LONGEST_PAUSE_S)
            _log.info("the number of workers stays %d", before)
            return
        self._pause_after_s = FIRST_PAUSE_S
        change = {"step": paused.step, "workers": self._workers, "before": before, BEGAN: began}
        self._changes = (*self._changes, change)
        _log.info(
            "continuing from step %d with %d workers instead of %d",
            paused.step,
            self._workers,
            before,
        )

    def _go_on_with(self, workers: int) -> None:
        if workers == self._workers:
            return
        assert self._training.resized is not None
        self._training = self._training.resized(workers)
        self._replay.plan = self._training.plan
