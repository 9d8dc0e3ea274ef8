"""The job of all tasks as a client of Spark Connect sees it: a query with rows as its result.

The client blocks in the query. When it is interrupted, the query is, and with its tasks go all
processes.
"""

from __future__ import annotations

import functools
import logging
import pickle
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.resource import ResourceProfile
from pyspark.sql import DataFrame

from sparkflow.spark.cluster.barrier_job import describe_spark_failure
from sparkflow.spark.cluster.events import JobEnded
from sparkflow.spark.cluster.failures import is_restartable, to_exception
from sparkflow.spark.cluster.task import JobConfig
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.attempts.retry_loop import RetryLoop
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.launch.connect.connect_task import ConnectConfig, run_connect_task
from sparkflow.spark.launch.connect.lead import Leadership
from sparkflow.spark.launch.connect.live import LiveQuery, Replay, events_in
from sparkflow.spark.launch.connect.outcome import (
    EVENTS,
    ROWS_SCHEMA,
    Outcome,
    from_parts,
    from_rows,
)

_log = logging.getLogger(__name__)

_TOO_FEW_SLOTS = "SPARK-24819"
_NEW_EXECUTOR_S = 120.0
_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class ConnectJob:
    """One training on Spark Connect.

    Attributes:
        rows: The placed rows, one partition per task.
        config: What the tasks are told; its `driver` is not known yet.
        work: What the chief is told.
        max_restarts: How often another job may be submitted after a loss.
        on_restart: Is told the reason before that.
        shared_directory: What all executors reach, where there is no barrier stage.
        driver_host: Spark's driver as executors reach it; "" if it is not known.
        replay: Tells callbacks what the chief tells while training runs; None where there is no
            messenger to say where it is.
        profile: What the tasks run with; None for what Spark's settings say.
    """

    rows: DataFrame
    config: JobConfig
    work: Leadership
    max_restarts: int
    on_restart: Callable[[str], None] = field(default=lambda reason: None)
    shared_directory: str = ""
    driver_host: str = ""
    replay: Replay | None = None
    profile: ResourceProfile | None = None

    def run(self) -> Outcome:
        """Trains and returns what came out. Blocks.

        Raises:
            Exception: As `SparkTrainer.fit` does.
        """
        retries = RetryLoop(self._attempt, self.max_restarts, is_restartable, self.on_restart)
        return retries.run()

    def _attempt(self, number: int) -> Outcome:
        if number and self.config.barrier:
            self._wait_for_executors()
        work = replace(self.work, max_restarts=max(0, self.max_restarts - number))
        meeting = ""
        if not self.config.barrier and self.config.layout.num_tasks > 1:
            meeting = f"{self.shared_directory.rstrip('/')}/sparkflow-meeting-{uuid.uuid4().hex}"
        config = ConnectConfig(
            self.config,
            pickle.dumps(work),
            meeting,
            self.driver_host,
            work.plan.config.start_timeout,
        )
        task: Any = functools.partial(run_connect_task, config)
        query = map_with(self.profile, self.rows, task, ROWS_SCHEMA, self.config.barrier)
        if self.replay is not None:
            parts = from_rows(LiveQuery(query, self.config.credentials, self.replay).run())
            events = events_in(parts.pop(EVENTS, b"[]"))
            try:
                outcome = self.replay.outcome = from_parts(parts)
            except Exception:
                try:  # callbacks hear of what was before it
                    self.replay.take(events)
                except Exception as error:  # such as that variables are gone, which comes of it
                    _log.warning("a callback failed after training had: %r", error)
                raise
            self.replay.take(events)
            return outcome
        try:
            rows = collect_interruptibly(query)
        except Exception as error:
            raise to_exception([JobEnded(error)]) from error
        return from_parts(from_rows((r["part"], r["number"], r["content"]) for r in rows))

    def _wait_for_executors(self) -> None:
        """Waits until the cluster manager has replaced what was lost.

        Raises:
            SparkTrainingError: It has not.
        """
        deadline = time.monotonic() + _NEW_EXECUTOR_S
        while True:
            try:
                require_slots(self.rows.sparkSession, self.config.layout, self.profile)
                return
            except SparkTrainingError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_S)


class TooFewSlotsError(SparkTrainingError):
    """The cluster cannot run so many tasks at once."""


def collect_interruptibly(query: DataFrame) -> list[Any]:
    """The rows of a query, which is cancelled when the caller is interrupted."""
    session: Any = query.sparkSession
    tag = f"sparkflow-{uuid.uuid4().hex}"
    session.addTag(tag)
    try:
        return query.collect()
    except BaseException:
        session.interruptTag(tag)
        raise
    finally:
        session.removeTag(tag)


def map_with(
    profile: ResourceProfile | None, rows: DataFrame, task: Any, schema: str, barrier: bool
) -> DataFrame:
    """`rows.mapInArrow` with a resource profile, which Spark's Connect takes since 4.0."""
    more = {} if profile is None else {"profile": profile}
    return rows.mapInArrow(task, schema, barrier=barrier, **more)


def require_slots(
    session: Any, layout: ClusterLayout, profile: ResourceProfile | None = None
) -> None:
    """Passes when the cluster can run all tasks at once, as a small barrier job finds out.

    Raises:
        TooFewSlotsError: It cannot.
        SparkTrainingError: The job failed otherwise.
    """
    count = layout.num_partitions
    rows = session.range(0, count, 1, count)
    probe = map_with(profile, rows, _nothing, "id bigint", barrier=True)
    try:
        # Not `collect`: Spark would look for more slots for ten minutes.
        probe.count()
    except Exception as error:
        text = describe_spark_failure(error)
        if _TOO_FEW_SLOTS in str(error):
            raise TooFewSlotsError(
                f"{layout.described} need {count} task slots at once, which the cluster does not "
                f"have: {text}. Use fewer workers or parameter servers (numPs=0 has the workers "
                "hold the variables)"
            ) from error
        raise SparkTrainingError(text) from error


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
