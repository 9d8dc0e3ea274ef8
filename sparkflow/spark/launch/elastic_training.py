"""Elastic training on a classic session, with as many workers as there are slots.

The number of workers may change between two segments. Then the variables are read, the tasks end,
the rows are placed again and another Spark job starts with these values. The graph is rebuilt
because it contains the tasks of its variables.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import SparkSession

from sparkflow.spark.cluster.cluster import Cluster
from sparkflow.spark.cluster.failures import is_restartable
from sparkflow.spark.cluster.scheduling.profiles import NONE, Profiles
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.attempts.fit_state import FitState
from sparkflow.spark.control.attempts.retry_loop import RetryLoop
from sparkflow.spark.control.elastic import ElasticWorkers, Resize
from sparkflow.spark.launch.training import Training
from sparkflow_runtime.security import Credentials

_log = logging.getLogger(__name__)

_SCOUT_S: Final = 10.0


class ElasticTraining:
    """The training of one fit. For the thread that called `fit`.

    Args:
        training: The training for the initial number of workers.
        fit_state: The state that survives all attempts.
        elastic: Decides the number of workers.
        credentials: The credentials of tasks and driver.
        gpu_memory_bytes: The GPU memory that a worker may use; None for all of it.
        profiles: The resource profiles of the tasks.
    """

    def __init__(
        self,
        training: Training,
        fit_state: FitState,
        elastic: ElasticWorkers,
        credentials: Credentials,
        gpu_memory_bytes: int | None,
        profiles: Profiles = NONE,
    ) -> None:
        self._profiles = profiles
        self._training = training
        self._fit_state = fit_state
        self._elastic = elastic
        self._credentials = credentials
        self._gpu_memory_bytes = gpu_memory_bytes
        self._clusters = 0
        self._cluster = self._new_cluster()

    def run(self) -> Mapping[str, Any]:
        """Trains and returns the values of the variables. Blocks. Raises the errors of `fit`."""
        config, state = self._training.plan.config, self._fit_state
        retries = RetryLoop(
            self._attempt,
            config.max_restarts,
            is_restartable,
            state.on_restart,
            lambda: state.restarts,
        )
        try:
            values = retries.run()
            self._cluster.end()
        finally:
            self._cluster.close()
        return values

    def _attempt(self, number: int) -> Mapping[str, Any]:
        if number:
            self._go_on_with(self._elastic.after_loss())
        while True:
            state = self._fit_state
            run = state.attempt(self._elastic)
            state.history.tasks_started = str(self._cluster.gang)
            fed = replace(self._training.feed, start=state.positions)
            server, job = self._cluster.begin_attempt(run.events.put, json.dumps(fed.to_json()))
            try:
                return run.run(server, job)
            except Resize as change:
                workers = change.workers
            self._go_on_with(workers)

    def _go_on_with(self, workers: int) -> None:
        if workers == self._elastic.workers:
            return
        assert self._training.resized is not None
        self._cluster.close()
        self._training = self._training.resized(workers)
        self._fit_state.resize(self._training.plan)
        self._cluster = self._new_cluster()

    def _new_cluster(self) -> Cluster:
        training = self._training
        self._elastic.workers = training.plan.layout.num_workers
        self._clusters += 1
        name = training.name if self._clusters == 1 else f"{training.name}-{self._clusters}w"
        config = training.job(self._credentials, self._gpu_memory_bytes)
        what = training.description
        return Cluster(training.rows, config, name, what, profiles=self._profiles)


@contextlib.contextmanager
def scouts(session: SparkSession, layout: ClusterLayout, profiles: Profiles = NONE) -> Any:
    """Makes dynamic allocation request executors for all tasks inside the `with` block.

    Spark requests executors only while tasks wait for slots. Scouts are repeated tasks for this
    purpose, which do nothing when they get a slot.

    Args:
        session: The session.
        layout: The largest possible set of tasks.
        profiles: Their resource profiles; executors added for a profile serve its workers only.
    """
    context: Any = session.sparkContext
    over = threading.Event()
    group = f"sparkflow-scouts-{id(over)}"
    count = layout.num_tasks - (layout.num_ps if layout.servers_apart else 0)

    def look() -> None:
        while not over.is_set():
            try:
                context.addJobTag(group)
                context.setLocalProperty("spark.job.description", "looking for executors")
                tasks = context.parallelize(range(count), count)
                if profiles.worker is not None:
                    tasks = tasks.withResources(profiles.worker)
                tasks.foreach(_nothing)
            except Exception as error:  # such as a lost executor, which is when they are needed
                if not over.is_set():
                    _log.info("requesting executors failed: %s", str(error).split("\n", 1)[0])
            over.wait(_SCOUT_S)

    thread = threading.Thread(target=look, name="scouts", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        with contextlib.suppress(Exception):
            context.cancelJobsWithTag(group)
        thread.join(_SCOUT_S)


def _nothing(_: int) -> None:
    """The function of a scout."""
