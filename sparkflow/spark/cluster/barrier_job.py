"""The job of all tasks, run by a thread of the driver because Spark's actions block."""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import Callable
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import DataFrame

from sparkflow.spark.cluster.events import JobEnded, Post
from sparkflow.spark.cluster.slots import describe_session_slots
from sparkflow.spark.cluster.task import RESULT_SCHEMA, JobConfig, run_task

_END_TIMEOUT_S = 5.0
_CANCEL_TIMEOUT_S = 15.0
_KILL_TIMEOUT_S = 8.0
_POLL_S = 0.1


class SparkJob:
    """A Spark action in a thread of its own.

    It belongs to the caller's job group, if there is one, so that `cancelJobGroup` ends it, and has
    a tag of its own.

    Args:
        context: Spark's.
        action: Blocks until the job has ended.
        group: Unique per job: its tag, and its job group if the caller has none.
        description: What Spark's UI shows.
        post: Receives `JobEnded`.
    """

    def __init__(
        self,
        context: Any,
        action: Callable[[], object],
        group: str,
        description: str,
        post: Post,
    ) -> None:
        self._action = action
        self._tag = group
        self._description = description
        self._post = post
        self._context = context
        self._group = self._context.getLocalProperty("spark.jobGroup.id") or group
        self._is_started = False
        # A plain thread would not take the caller's properties (pool, user) along to the JVM.
        self._thread = InheritableThread(target=self._run, name=group)
        self._thread.daemon = True

    def start(self) -> None:
        """Submits the job and returns; nothing if that was done before."""
        if not self._is_started:
            self._is_started = True
            self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the job has begun and not ended."""
        return self._thread.is_alive()

    def wait(self, timeout_s: float) -> None:
        """Blocks until the job has ended, at most so long."""
        self._thread.join(timeout_s)

    def has_active_tasks(self) -> bool:
        """Whether any task of the job, be it the last stage's or one before, runs now."""
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                stage_info = tracker.getStageInfo(stage)
                if stage_info is not None and stage_info.numActiveTasks > 0:
                    return True
        return False

    def finish(self, patience_s: float = _END_TIMEOUT_S) -> bool:
        """Waits for the job's end, cancels it if it does not come, and says whether it came.

        Tasks that were told to end do so at once. Cancelling comes second, because Spark then says
        that the job has ended while its processes still do so.
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

        Spark lets the job end first, and kills Python after 2 s.
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

    Args:
        rows: What `placement.place_rows` returned.
        config: What the tasks are told.
        group: See `SparkJob`.
        description: See `SparkJob`.
        post: See `SparkJob`.
    """

    def __init__(
        self, rows: DataFrame, config: JobConfig, group: str, description: str, post: Post
    ) -> None:
        self._layout = config.layout
        self._session = rows.sparkSession

        def run() -> None:
            # A named function, for Spark's UI shows it.
            task: Callable[..., Any] = functools.partial(run_task, config)
            rows.mapInArrow(task, RESULT_SCHEMA, barrier=config.barrier).collect()

        super().__init__(rows.sparkSession.sparkContext, run, group, description, post)

    def describe_slots(self) -> tuple[str, str]:
        """See `slots.describe_session_slots`."""
        return describe_session_slots(self._session, self._layout)


def describe_spark_failure(error: BaseException) -> str:
    """What a Spark exception says happened, without the JVM's stack.

    Of a failed Python task it is the task's own traceback, of other failures the first line.
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
