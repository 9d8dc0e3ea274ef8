"""The job of all tasks, run in a thread of the driver because Spark's actions block."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession, functions as F

from sparkflow.spark.cluster.events import Event, JobEnded, TaskEntered, TaskRegistered
from sparkflow.spark.cluster.scheduling.profiles import NONE, Profiles
from sparkflow.spark.cluster.scheduling.slots import describe_session_slots
from sparkflow.spark.cluster.task import RESULT_SCHEMA, JobConfig, run_task
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.schema.frame import without_dots
from sparkflow.spark.data.spool.spool import MESSAGE_COLUMN

_END_TIMEOUT_S = 5.0
_CANCEL_TIMEOUT_S = 15.0
_KILL_TIMEOUT_S = 8.0
_POLL_S = 0.1


class SparkJob:
    """A Spark action in a thread of its own.

    It belongs to the caller's job group, if there is one, so that `cancelJobGroup` ends it, and has
    its own tag.

    Args:
        context: The Spark context.
        action: Blocks until the job has ended.
        group: Unique per job: its tag, and its job group if the caller has none.
        description: The description in Spark's UI.
        post: Receives the end of the job.
    """

    def __init__(
        self,
        context: Any,
        action: Callable[[], object],
        group: str,
        description: str,
        post: Callable[[JobEnded], None],
    ) -> None:
        self._action = action
        self._tag = group
        self._description = description
        self._post = post
        self._context = context
        self._group = self._context.getLocalProperty("spark.jobGroup.id") or group
        self._is_started = False
        # A plain thread would not pass the caller's properties (pool, user) to the JVM.
        self._thread = InheritableThread(target=self._run, name=group)
        self._thread.daemon = True

    def start(self) -> None:
        """Submits the job, without waiting; does nothing if it was already submitted."""
        if not self._is_started:
            self._is_started = True
            self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the job has started and not ended."""
        return self._thread.is_alive()

    def wait(self, timeout_s: float) -> None:
        """Blocks until the job has ended, at most for `timeout_s` seconds."""
        self._thread.join(timeout_s)

    def has_active_tasks(self, beside: int = 0) -> bool:
        """Returns whether tasks of any of the job's stages are running.

        Args:
            beside: The number of tasks that do not count.
        """
        tracker = self._context.statusTracker()
        active = 0
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                stage_info = tracker.getStageInfo(stage)
                active += stage_info.numActiveTasks if stage_info is not None else 0
                if active > beside:
                    return True
        return False

    def finish(self, patience_s: float = _END_TIMEOUT_S) -> bool:
        """Waits for the end of the job, cancels it after a timeout, and returns whether it ended.

        Tasks that were told to end do so at once. Cancelling is only the second choice, because
        Spark then reports the end of the job before its processes have ended.
        """
        if not self._is_started:
            return True
        self._thread.join(patience_s)
        if self._thread.is_alive():
            with contextlib.suppress(Exception):  # the session was stopped: its jobs have ended
                self._context.cancelJobsWithTag(self._tag)
                self._thread.join(_CANCEL_TIMEOUT_S)
                self.await_tasks()
            self._thread.join(_CANCEL_TIMEOUT_S)
        return not self._thread.is_alive()

    def await_tasks(self) -> None:
        """Waits for tasks of a job that failed or was cancelled.

        Spark ends the job first, and kills Python after 2 s.
        """
        deadline = time.monotonic() + _KILL_TIMEOUT_S
        while self.has_active_tasks() and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _run(self) -> None:
        try:
            context = self._context
            if context.getLocalProperty("spark.jobGroup.id") is None:
                context.setLocalProperty("spark.jobGroup.id", self._group)
            context.setLocalProperty("spark.job.description", self._description)
            context.addJobTag(self._tag)
            self._action()
        except BaseException as error:
            self._post(JobEnded(error))
        else:
            self._post(JobEnded())


class GangJob(SparkJob):
    """One run of `task.run_task` on every partition of the placed rows.

    Separate parameter servers have a second Spark job. When one of the two fails, the other fails
    as well.

    Args:
        rows: What `placement.place_rows` returned.
        config: The configuration of the tasks.
        group: See `SparkJob`.
        description: See `SparkJob`.
        post: See `SparkJob`.
        profiles: The resource profiles of the tasks.

    Attributes:
        turn: When separate servers start; must receive all events.
    """

    def __init__(
        self,
        rows: DataFrame,
        config: JobConfig,
        group: str,
        description: str,
        post: Callable[[JobEnded], None],
        profiles: Profiles = NONE,
    ) -> None:
        self._layout = config.layout
        self._session = rows.sparkSession
        self._profiles = profiles

        def run(rows: DataFrame, config: JobConfig, profile: Any) -> None:
            # A named function, because Spark's UI shows its name.
            task: Callable[..., Any] = functools.partial(run_task, config)
            rows, task = without_dots(rows, task)
            collect(rows.mapInArrow(task, RESULT_SCHEMA, barrier=config.barrier), profile)

        actions = [functools.partial(run, rows, config, profiles.worker)]
        if config.layout.servers_apart:
            servers = empty_rows(self._session, config.layout.num_ps)
            of_servers = replace(config, of_servers=True)
            actions.append(functools.partial(run, servers, of_servers, profiles.ps))
        self.turn = ServersTurn(config.layout, at_once=not profiles.shares_executors)
        context = self._session.sparkContext
        action = functools.partial(run_together, context, group, actions, self.turn)
        super().__init__(context, action, group, description, post)

    def describe_slots(self) -> tuple[str, str]:
        """See `slots.describe_session_slots`."""
        return describe_session_slots(self._session, self._layout, self._profiles)


def collect(query: DataFrame, profile: Any) -> list[Any]:
    """Returns the rows of a query whose last stage has a profile; None for Spark's settings."""
    if profile is None:
        return query.collect()
    # Also in Spark 3.5, whose `mapInArrow` has no profile: a stage uses that of any RDD in it.
    rows: list[Any] = query.rdd.withResources(profile).collect()
    return rows


def empty_rows(session: SparkSession, count: int) -> DataFrame:
    """One partition per task, with a placeholder row."""
    return session.range(0, count, 1, count).select(F.lit("").alias(MESSAGE_COLUMN))


class ServersTurn:
    """Decides when the parameter servers' job is submitted: once all workers have a slot.

    On shared executors, servers might otherwise take the cores next to the GPUs. `_lock` guards
    `_missing`.

    Args:
        layout: The tasks.
        at_once: Whether servers need not wait, because they get their own executors.
    """

    def __init__(self, layout: ClusterLayout, at_once: bool) -> None:
        self._lock = threading.Lock()
        self._missing = {task for task in layout.tasks if task.job != "ps" and not at_once}
        self._changed = threading.Event()
        self._is_over = False
        if not self._missing:
            self._changed.set()

    def hear(self, event: Event) -> None:
        """Notes tasks that run."""
        if isinstance(event, TaskEntered | TaskRegistered):
            with self._lock:
                self._missing.discard(event.task)
                if not self._missing:
                    self._changed.set()

    def end(self) -> None:
        """The workers' job is over."""
        self._is_over = True
        self._changed.set()

    def wait(self) -> bool:
        """Blocks until the servers may start; returns whether they may."""
        self._changed.wait()
        return not self._is_over


def run_together(
    context: Any, tag: str, actions: Sequence[Callable[[], object]], turn: ServersTurn
) -> None:
    """Runs Spark actions concurrently, and ends all of them when one fails.

    Args:
        context: The Spark context.
        tag: The tag of the calling thread's jobs.
        actions: The workers' action, and optionally the servers'; they block until their jobs end.
        turn: When the servers' action starts.

    Raises:
        BaseException: The error of the first action that failed.
    """
    if len(actions) == 1:
        actions[0]()
        return
    errors: list[BaseException] = []
    workers, servers = actions

    def run(action: Callable[[], object]) -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    def run_workers() -> None:
        try:
            run(workers)
        finally:
            turn.end()

    def run_servers() -> None:
        if turn.wait():
            run(servers)

    # Plain threads would not pass the caller's properties (tag, group, pool) to the JVM.
    threads = [InheritableThread(target=each, daemon=True) for each in (run_workers, run_servers)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(_POLL_S)
        if errors:  # repeatedly, because the other job may not have been submitted yet
            with contextlib.suppress(Exception):  # the session was stopped: its jobs have ended
                context.cancelJobsWithTag(tag)
    if errors:
        raise errors[0]


def describe_spark_failure(error: BaseException) -> str:
    """Returns the message of a Spark exception, without the JVM's stack.

    For a failed Python task it is the task's own traceback, for other failures the first line.
    """
    text = re.sub(r"\AAn error occurred while calling [^\n]*\n: ", "", str(error))
    python = re.search(
        r"Traceback \(most recent call last\):.*?(?=\n\s*\n|\n\s*at |\Z)", text, re.S
    )
    if python is None:
        return text.strip().split("\n", 1)[0]
    found = python.group().strip()
    missing = re.search(r"ModuleNotFoundError: No module named '(\w+)", found)
    if missing is not None:
        found += (
            f"\nThe executors' Python has no package {missing[1]!r}: name the Python that has it "
            "in PYSPARK_PYTHON before the session is started, install it there, or ship an "
            "environment with --archives (see docs/deploy/index.md)"
        )
    return found
