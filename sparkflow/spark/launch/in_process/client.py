"""Training inside one Spark task: a query whose result rows are the model."""

from __future__ import annotations

import functools
import logging
import pickle
import queue
from typing import Any, Final

from pyspark.sql import DataFrame

from sparkflow.spark.cluster.barrier_job import SparkJob
from sparkflow.spark.cluster.events import Event, JobEnded
from sparkflow.spark.cluster.failures import to_exception
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.schema.frame import without_dots
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.interpreter import use_this_python
from sparkflow.spark.launch.connect.client import tell_finished
from sparkflow.spark.launch.connect.job import collect_interruptibly
from sparkflow.spark.launch.connect.lead import Leadership, picklable
from sparkflow.spark.launch.connect.outcome import ROWS_SCHEMA, from_parts, from_rows
from sparkflow.spark.launch.in_process.task import InTaskConfig, train_in_task
from sparkflow.spark.launch.training import Trained, Training
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.task_resources import RoleResources
from sparkflow_runtime.security import Credentials

_log = logging.getLogger(__name__)
_POLL_S: Final = 0.5


class InProcessBackend:
    """The backend whose only worker trains in its Spark task, on classic and Connect sessions.

    Args:
        session: The session.
        reason: Why it is used, for messages.
    """

    def __init__(self, session: Any, reason: str) -> None:
        self._session = session
        self._reason = reason

    def require_slots(
        self, layout: ClusterLayout, resources: RoleResources, is_elastic: bool = False
    ) -> ClusterLayout:
        """Checks that there is only one worker, for which a slot will always become free.

        Raises:
            SparkTrainingError: There are more workers.
        """
        if layout.num_workers > 1 or layout.num_stages > 1:
            asked = f"numWorkers={layout.num_workers}"
            if layout.num_stages > 1:
                asked += f", modelParallel={layout.num_stages}"
            raise SparkTrainingError(
                f"{asked} needs Python workers that can reach each other, "
                f"and {self._reason}. With numWorkers=1 training runs there, inside one task; "
                "for more, use compute whose Python workers are not locked in (on Databricks: "
                "dedicated access mode)"
            )
        if resources:
            _log.warning(
                "workerResources and psResources have no effect inside one Spark task, which takes "
                "what Spark's settings say"
            )
        use_this_python(self._session)
        return layout

    def speaks_tls(self, wanted: bool | str) -> bool:
        """Returns false, because there is no communication with other processes."""
        return False

    def count_workers(self, config: FitConfig) -> int:
        """Returns 1, because other workers could not be reached."""
        _log.warning(
            "numWorkers=(%d, %d): one worker trains, as %s",
            config.min_workers,
            config.num_workers,
            self._reason,
        )
        return 1

    def train(self, training: Training) -> Trained:
        """Runs the task, then calls the callbacks with its events."""
        plan = training.plan
        self.require_slots(plan.layout, RoleResources())
        text = f"training inside one Spark task, without sockets or processes: {self._reason}"
        _log.warning("%s", text)
        training.callbacks.on_waiting(text)
        if plan.config.worker_logs:
            _log.warning("workerLogs: what the task writes is in the executor's log only")
        restarts = plan.config.max_restarts
        work = Leadership(picklable(plan), training.feed, restarts, training.start)
        task: Any = functools.partial(
            train_in_task, InTaskConfig(training.job(Credentials(), None), pickle.dumps(work))
        )
        sent, task = without_dots(training.rows, task)
        query = sent.mapInArrow(task, ROWS_SCHEMA)
        try:
            rows = self._collect(query, training.name, training.description)
        except Exception as error:
            raise to_exception([JobEnded(error)]) from error
        outcome = from_parts(from_rows((r["part"], r["number"], r["content"]) for r in rows))
        return tell_finished(training.callbacks, plan, outcome)

    def _collect(self, query: DataFrame, name: str, description: str) -> list[Any]:
        if not hasattr(self._session, "_jsparkSession"):
            return collect_interruptibly(query)
        found: list[Any] = []
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        context = self._session.sparkContext
        job = SparkJob(
            context, lambda: found.extend(query.collect()), name, description, events.put
        )
        job.start()
        try:
            event = _next(events)
            if isinstance(event, JobEnded) and event.error is not None:
                raise event.error
        except BaseException:
            job.finish(patience_s=0.0)
            raise
        return found


def _next(events: queue.SimpleQueue[Event]) -> Event:
    """Waits in short intervals so that Ctrl-C works; separate for the reason in `connect.live`."""
    while True:
        try:
            return events.get(timeout=_POLL_S)
        except queue.Empty:
            continue
