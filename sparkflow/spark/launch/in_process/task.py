"""The task: reads its rows, trains, and yields the outcome.

It runs in Spark's Python worker, which other tasks reuse, so changes to process-wide settings are
undone. The client has turned `model_fn` into a graph; the only user code here is worker callbacks.
"""

from __future__ import annotations

import logging
import os
import pickle
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from sparkflow.spark.cluster.task import JobConfig
from sparkflow.spark.control.attempts.fit_state import FitState
from sparkflow.spark.control.callbacks import Callbacks
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.control.worker_recovery import named_hosts
from sparkflow.spark.errors import LostTaskError
from sparkflow.spark.launch.connect.lead import Leadership
from sparkflow.spark.launch.connect.outcome import (
    Outcome,
    error_to_parts,
    outcome_row,
    to_parts,
    to_rows,
)
from sparkflow.spark.launch.in_process.one_task import OneTask
from sparkflow.spark.storage.checkpoint_files import PathFiles
from sparkflow_runtime.master.driver import OneTaskMaster
from sparkflow_runtime.process import limited_threads
from sparkflow_runtime.security import Credentials

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InTaskConfig:
    """The configuration of the tasks.

    Attributes:
        job: The layout, the rows and the user's functions; its `driver` is not used.
        work: A pickled `connect.lead.Leadership`.
    """

    job: JobConfig
    work: bytes = field(repr=False)


def train_in_task(
    config: InTaskConfig, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The function that `mapInArrow` runs; the worker's partition yields `outcome.ROWS_SCHEMA`."""
    from pyspark import TaskContext  # here, as in `cluster.task`

    context: Any = TaskContext.get()
    if config.job.layout.task(context.partitionId()).job != "worker":
        for _ in batches:  # of parameter servers, whose role the worker has as well
            pass
        return
    if context.resources().get("gpu") is not None:
        _log.warning("the task has a GPU, but a training inside a Spark task uses the CPU only")
    # Not from the network: Spark has delivered it with the task's code.
    work = pickle.loads(config.work)  # noqa: S301
    try:
        with limited_threads(max(context.cpus(), len(os.sched_getaffinity(0)))):
            parts = to_parts(train_here(config.job, work, batches, context.attemptNumber()))
    except Exception as error:
        # If it were raised, Spark would run the task again and add the JVM's stack trace.
        traceback.print_exc()
        parts = error_to_parts(error, restartable=False)
    for part, number, content in to_rows(parts):
        yield outcome_row(part, number, content)


def train_here(
    job: JobConfig, work: Leadership, batches: Iterable[pa.RecordBatch], attempt: int = 0
) -> Outcome:
    """Trains in this process and returns the outcome. Blocks.

    Args:
        job: The layout, the rows and the user's functions.
        work: The configuration of training.
        batches: The rows.
        attempt: The number of previous runs of the task, all of which were lost.

    Raises:
        Exception: See `SparkTrainer.fit`.
    """
    config = work.plan.config
    if attempt > work.max_restarts:
        raise LostTaskError(
            f"The Spark task in which training ran was lost {attempt} times, and "
            f"maxRestarts={work.max_restarts}: the executors' logs may say why (out of memory?)"
        )
    store = CheckpointStore.of(config, lambda _: PathFiles())
    again = "The Spark task was lost; Spark started it again"
    fit_state = FitState(
        work.plan,
        Credentials(),
        Callbacks(),
        store,
        start=work.start,
        open_master=lambda *_: OneTaskMaster(task.worker, named_hosts(job.layout)),
        lost=[(f"{again} ({number})", 0) for number in range(1, attempt + 1)],
    )
    values = fit_state.finished_values
    if values is None:
        task = OneTask(job.layout, job.callbacks)
        try:
            run = fit_state.attempt()
            task.begin(run.events.put, replace(work.feed, start=fit_state.positions), batches)
            values = run.run(task, task)
            task.close(ended_well=True)
        finally:
            task.close()
    return Outcome(values, fit_state.history.to_dict())
