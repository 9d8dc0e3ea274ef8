"""The time before the first step: tasks register, rows arrive."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import Final, Protocol

from sparkflow.spark.cluster.events import RowsReady, TaskEntered, TaskLeft, TaskRegistered
from sparkflow.spark.cluster.failures import not_started
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.control.event_queue import Message
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.errors import SparkTrainingError

_log = logging.getLogger(__name__)

POLL_S: Final = 0.5


class Job(Protocol):
    """The tasks' Spark job, see `cluster.barrier_job`."""

    def start(self) -> None:
        """Submits it, if it does not run yet."""

    def has_active_tasks(self, beside: int = 0) -> bool:
        """Returns whether Spark runs more than `beside` tasks of it or of preceding stages."""

    def describe_slots(self) -> tuple[str, str]:
        """Returns a short text on Spark's slots, and what to do if they are too few."""


class Gathering:
    """The tasks and rows that are still missing. For one thread.

    Args:
        plan: What is trained.
        say: Called repeatedly with a text on what is awaited.

    Attributes:
        missing_rows: The tasks without all their rows, with the expected numbers of rows.
    """

    def __init__(self, plan: TrainingPlan, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        shares = plan.layout.per_task(plan.worker_rows, 0)
        self.missing_rows = dict(zip(plan.layout.tasks, shares, strict=True))

    def wait_for_tasks(self, job: Job, hear: Callable[[float], Message | None]) -> None:
        """Blocks until all tasks have registered.

        Args:
            job: Their job.
            hear: Returns the next message, None if none arrives within a number of seconds.

        Raises:
            SparkTrainingError: They have not registered within `startTimeout`.
        """
        plan = self._plan
        started = time.monotonic()
        missing, waiting = set(plan.layout.tasks), set(plan.layout.tasks)
        deadline = started + plan.config.start_timeout
        while missing:
            there, too_few = job.describe_slots()
            if waiting:
                text = f"waiting for {len(waiting)} of {plan.layout.num_tasks} tasks"
                self._say(f"{text}; {there}" if there else text)
            else:
                self._say(f"waiting for {len(missing)} of {plan.layout.num_tasks} processes")
            message = hear(POLL_S)
            match message:
                case TaskEntered(task):
                    waiting.discard(task)
                case TaskLeft(task):
                    waiting.add(task)
                case TaskRegistered(task):
                    missing.discard(task)
                    waiting.discard(task)
                case None if self._is_before(waiting) and job.has_active_tasks(
                    plan.layout.num_tasks - len(waiting)
                ):
                    # Spark is still running earlier stages, which have no time limit.
                    deadline = time.monotonic() + plan.config.start_timeout
            if time.monotonic() > deadline:
                raise not_started(waiting or missing, plan.config.start_timeout, too_few)
        _log.info("%d tasks after %.1f s", plan.layout.num_tasks, time.monotonic() - started)

    def _is_before(self, waiting: Collection[TaskName]) -> bool:
        """Whether the stage whose tasks receive rows may not have started."""
        layout = self._plan.layout
        come = layout.num_tasks - len(waiting)
        if not layout.servers_apart:
            return not come
        return not any(task.job != "ps" and task not in waiting for task in layout.tasks)

    def wait_for_rows(
        self,
        hear: Callable[[float], Message | None],
        check: Callable[[Collection[TaskName]], None],
    ) -> None:
        """Blocks until all rows are on the workers; `check` raises if that takes too long."""
        while self.missing_rows:
            self._say("waiting for rows")
            hear(POLL_S)
            check(self.missing_rows)

    def count_rows(self, event: RowsReady) -> None:
        """Handles the event that a task has all its rows.

        Raises:
            SparkTrainingError: Their number differs from the number counted before.
        """
        share = self.missing_rows.pop(event.task, event.rows)
        if event.rows != share:
            raise SparkTrainingError(
                f"{event.task} got {event.rows} rows instead of {share}: the DataFrame yields "
                "different rows each time it is evaluated. Cache it or write it to a file first"
            )
