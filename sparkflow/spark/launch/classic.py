"""Where a training is led from: the driver of a classic session, or the cluster of a Connect one.

A `Backend` is what differs between the two: how slots are counted, how the barrier job is run and
where the loop over attempts is. `connect.client` has the other one.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy.typing as npt
from pyspark.sql import DataFrame

from sparkflow.spark.cluster.cluster import Cluster, ClusterPlan
from sparkflow.spark.cluster.failures import is_restartable
from sparkflow.spark.cluster.slots import (
    gpu_memory_bytes,
    require_slots,
    reserved_slots,
    warn_of_memory,
)
from sparkflow.spark.cluster.worker_callbacks import WorkerCallback
from sparkflow.spark.cluster_layout import Layout
from sparkflow.spark.control.callbacks import Callbacks
from sparkflow.spark.control.checkpoints.snapshot import Snapshot
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.control.course import Course
from sparkflow.spark.control.history import TrainingHistory
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.control.supervisor import Supervisor
from sparkflow.spark.data.feed.feed_plan import FeedPlan
from sparkflow.spark.storage.checkpoint_files import CheckpointFiles, PathFiles, pyarrow_reaches
from sparkflow.spark.storage.hadoop_files import HadoopFiles

Trained = tuple[Mapping[str, npt.NDArray[Any]], TrainingHistory]
"""The values of the wanted variables by name, and the history."""


@dataclass(frozen=True, slots=True)
class Training:
    """One training, ready to run.

    Attributes:
        plan: What is to be trained.
        feed: What workers are told about their rows.
        rows: The placed rows, one partition per task.
        name: Of the fit, unique.
        description: What Spark's UI shows.
        token: The job's token.
        callbacks: Are told of everything.
        worker_callbacks: The user's functions for the workers.
        shows_logs: Whether what the tasks write is shown on the driver.
        max_restarts: How often training may begin again.
        start: What training begins with where there is no checkpoint; None for initial values.
    """

    plan: TrainingPlan
    feed: FeedPlan
    rows: DataFrame
    name: str
    description: str
    token: str = field(repr=False)
    callbacks: Callbacks
    worker_callbacks: tuple[WorkerCallback, ...] = ()
    shows_logs: bool = False
    max_restarts: int = 0
    start: Snapshot | None = None


class Backend(Protocol):
    """Trains on one kind of session."""

    def require_slots(self, layout: Layout) -> None:
        """Passes when all tasks can run at once.

        Raises:
            SparkTrainingError: They cannot; the text has both numbers.
        """

    def train(self, training: Training) -> Trained:
        """Trains, and blocks until it has. Raises what `SparkTrainer.fit` does."""


def backend_for(session: Any) -> Backend:
    """The backend of a session."""
    if hasattr(session, "_jsparkSession"):
        return ClassicBackend(session)
    from sparkflow.spark.launch.connect.client import ConnectBackend

    return ConnectBackend(session)


class ClassicBackend:
    """The driver leads: it has a JVM, and the executors reach it.

    Args:
        session: The session.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def require_slots(self, layout: Layout) -> None:
        """Asks the scheduler."""
        require_slots(self._session, layout)

    def train(self, training: Training) -> Trained:
        """Runs attempts of the barrier job until one ends well."""
        plan, callbacks = training.plan, training.callbacks
        warn_of_memory(self._session, plan.layout, plan.variable_bytes)
        store = self._store(plan)
        course = Course(plan, training.token, callbacks, store, start=training.start)
        cluster = Cluster(
            ClusterPlan(
                rows=training.rows,
                layout=plan.layout,
                row_format=training.feed.row_format,
                name=training.name,
                description=training.description,
                token=training.token,
                shows_logs=training.shows_logs,
                callbacks=training.worker_callbacks,
                gpu_memory_bytes=gpu_memory_bytes(self._session),
            )
        )

        def attempt(number: int) -> Mapping[str, Any]:
            run = course.attempt()
            fed = replace(training.feed, start=course.positions)
            server, job = cluster.begin_attempt(run.events.put, json.dumps(fed.to_json()))
            return run.run(server, job)

        supervisor = Supervisor(attempt, training.max_restarts, is_restartable, course.on_restart)
        values = course.finished_values
        if values is None:
            with (
                reserved_slots(self._session, plan.layout, callbacks.on_waiting),
                contextlib.closing(cluster),
            ):
                values = supervisor.run()
                cluster.end()
        return values, course.history

    def _store(self, plan: TrainingPlan) -> CheckpointStore | None:
        """Where checkpoints are, reached by pyarrow where it can, else by Hadoop."""
        directory = plan.control.checkpoint_dir
        if not directory:
            return None
        files = files_for(self._session, directory)
        return CheckpointStore(directory, plan.control.keep_checkpoint_max, files)


def files_for(session: Any, path: str) -> CheckpointFiles:
    """The way to a path: pyarrow's, or Hadoop's where a JVM is at hand and pyarrow has none.

    On HDFS it is Hadoop's: pyarrow's rename there replaces no file.
    """
    if not hasattr(session, "_jsparkSession"):
        return PathFiles()
    if not path.startswith(("hdfs:", "viewfs:")) and pyarrow_reaches(path):
        return PathFiles()
    context = session.sparkContext
    return HadoopFiles(context._jvm, context._jsc.hadoopConfiguration())
