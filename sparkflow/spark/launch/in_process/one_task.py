"""The cluster of a training inside one task: this process is the worker and all its servers.

It implements what a `TrainingRun` needs of `cluster.registration` and of the barrier job, and posts
the same events, but everything runs in this process.
"""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from sparkflow.spark.cluster.events import Post, RowsReady, TaskFailed, TaskRegistered
from sparkflow.spark.cluster.reports import StepCounter, describe_state
from sparkflow.spark.cluster.task_board import Progress
from sparkflow.spark.cluster.worker_callbacks import WorkerCallback, event_listener
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.data.feed.worker_feed import WorkerFeed
from sparkflow.spark.data.feed_plan import FeedPlan
from sparkflow.spark.data.spool.spool import RowSpool, local_directories
from sparkflow_runtime.errors import CancelledError
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.rendezvous_pb2 import ReportStateRequest, TaskInfo
from sparkflow_runtime.worker.worker import Worker

_HERE = "this process"


class OneTask:
    """A `training_run.Service` and a `gathering.Job`. `close` may be called more than once.

    Args:
        layout: The tasks that this process represents; the only worker is number 0.
        callbacks: The user's worker callbacks.

    Attributes:
        worker: The worker that runs everything.
        name: The worker's name.
    """

    def __init__(self, layout: ClusterLayout, callbacks: tuple[WorkerCallback, ...] = ()) -> None:
        self.name = TaskName("worker", 0)
        self.worker = Worker("worker", 0, gpus=0, cpus=1 + layout.num_ps)
        self._layout = layout
        self._post: Post = lambda event: None
        self._feed: WorkerFeed | None = None
        self._spool: RowSpool | None = None
        self._tell: Callable[[Mapping[str, Any]], None] = event_listener(
            self.name, callbacks, self._fail
        )
        self._steps = StepCounter(self._tell)
        self.worker.on_loop_update = self._steps.add

    def begin(self, post: Post, plan: FeedPlan, batches: Iterable[pa.RecordBatch]) -> None:
        """Reads all rows and posts that every task has registered. Blocks while rows arrive.

        Args:
            post: Receives events.
            plan: How the rows are fed.
            batches: The task's rows from Spark.

        Raises:
            OpError: Rows cannot be trained on, or the disk is full.
        """
        self._post = post
        feed = self._feed = WorkerFeed(plan, self.name.index)
        for name, source in feed.sources().items():
            self.worker.resources.put("", name, source)
        self._tell({"event": "start"})
        self._spool = RowSpool(plan.row_format, local_directories(os.environ), feed.take)
        self._spool.take(batches)
        self._tell({"event": "rows", "rows": feed.rows})
        for task in self._layout.tasks:
            post(TaskRegistered(task, _HERE, socket.gethostname()))
            own = task == self.name
            rows = (feed.rows, feed.validation_rows) if own else (0, 0)
            post(RowsReady(task, *rows))

    def close(self, ended_well: bool = False) -> None:
        """Ends running steps and releases the rows."""
        if ended_well:
            self._tell({"event": "end", "steps": self._steps.steps})
        self.worker.close(CancelledError)
        if self._feed is not None:
            self._feed.close()
        if self._spool is not None:
            self._spool.close()
        self._feed = self._spool = None

    # ------------------------------------------------------------------ the service

    def cluster(self) -> ClusterDef:
        """Returns no addresses, since the only task needs none."""
        return ClusterDef()

    def let_return(self, task: TaskName, start: tuple[int, int]) -> None:
        """Never called, because a lost task ends the training."""
        raise AssertionError(f"{task} cannot be restarted in its own process")

    def is_coming_back(self, task: TaskName) -> bool:
        """See `let_return`."""
        return False

    def progress(self) -> Mapping[TaskName, Progress]:
        """Returns the progress of this process."""
        rows = self._feed.rows if self._feed is not None else 0
        return {self.name: Progress(rows, self._steps.steps, time.monotonic())}

    def infos(self) -> Mapping[TaskName, TaskInfo]:
        """Returns the identity of this process."""
        return {
            self.name: TaskInfo(
                job=self.name.job, task=0, host=socket.gethostname(), pid=os.getpid()
            )
        }

    def states(self, timeout_s: float) -> Mapping[TaskName, ReportStateRequest]:
        """Returns the state of this process."""
        return {self.name: describe_state(self.name, self.worker.waits(), self._steps.steps)}

    # ------------------------------------------------------------------ the job

    def start(self) -> None:
        """Does nothing, because the job is running."""

    def describe_slots(self) -> tuple[str, str]:
        """Returns empty texts, because the task has its slot."""
        return "", ""

    def has_active_tasks(self, beside: int = 0) -> bool:
        """Whether tasks of earlier stages are running: never, since this one has started."""
        return False

    def _fail(self, error: Exception) -> None:
        text = "".join(traceback.format_exception(error))
        self._post(
            TaskFailed(self.name, socket.gethostname(), repr(error), text, time_s=time.time())
        )
