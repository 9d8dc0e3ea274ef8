"""A function of the user's in every task of a barrier job, each in a process of its own.

The tasks agree on addresses through Spark's barrier, and wait for the workers there. The function
travels in the closure of the job, as every function of a Spark program does.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from pyspark import BarrierTaskContext, cloudpickle
from pyspark.sql import SparkSession

from sparkflow.spark.cluster.addresses import address_towards
from sparkflow.spark.cluster.barrier_job import SparkJob, describe_spark_failure
from sparkflow.spark.cluster.events import Event, JobEnded
from sparkflow.spark.cluster.registration import ShowLines
from sparkflow.spark.cluster.task import ROLE, child_environment
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.programs.function_process import FunctionProcess

_POLL_S: Final = 0.2


class FunctionJob:
    """One run of a function in all tasks of a layout.

    Args:
        session: A classic session.
        layout: The tasks.
        function: See `SparkCluster.run`.
        args: Its arguments.
        on_lines: Takes the lines that the functions wrote, once they have ended.
    """

    def __init__(
        self,
        session: SparkSession,
        layout: ClusterLayout,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        on_lines: ShowLines,
    ) -> None:
        context: Any = session.sparkContext
        self._context = context
        self._layout = layout
        self._on_lines = on_lines
        work = cloudpickle.dumps((function, args))  # type: ignore[no-untyped-call]
        driver = context.getConf().get("spark.driver.host")
        self._task = functools.partial(_run_task, layout, driver, work)
        self._outcome: list[Any] = []
        self._ended: queue.Queue[Event] = queue.Queue()
        name = f"sparkflow-run-{uuid.uuid4().hex[:8]}"
        self._job = SparkJob(context, self._collect, name, "SparkCluster.run", self._ended.put)

    def run(self) -> list[Any]:
        """Blocks until all workers have returned; what they returned.

        Raises:
            SparkTrainingError: A task failed.
        """
        self._job.start()
        try:
            while self._job.is_running:  # Ctrl-C does not reach who waits for long
                self._job.wait(_POLL_S)
        finally:
            self._job.finish(patience_s=0.0)
        event = self._ended.get()
        assert isinstance(event, JobEnded)
        if event.error is not None:
            self._job.await_tasks()
            raise SparkTrainingError(describe_spark_failure(event.error)) from None
        found: dict[TaskName, Any] = {}
        for name, value, lines in self._outcome:
            found[name] = value
            self._on_lines(name, lines, 0)
        return [found[task] for task in self._layout.tasks if task.job == "worker"]

    def _collect(self) -> None:
        partitions = self._layout.num_tasks
        numbers = self._context.parallelize(range(partitions), partitions)
        self._outcome = numbers.barrier().mapPartitions(self._task).collect()


def _run_task(
    layout: ClusterLayout, driver: str, work: bytes, _: Iterable[Any]
) -> Iterator[tuple[TaskName, Any, list[str]]]:
    """What a Spark task does; blocks until all workers have returned."""
    context = BarrierTaskContext.get()
    name = layout.task(context.partitionId())
    host = address_towards(f"{driver}:1")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as held:
        # Held until all ports are known, so that no two tasks of a machine get the same.
        held.bind((host, 0))
        mine = json.dumps([host, held.getsockname()[1]])
        everybody = [tuple(json.loads(text)) for text in context.allGather(mine)]
    neighbours = sum(other == host for other, _ in everybody)
    environment = child_environment(os.environ, context.cpus(), neighbours)
    environment["TF_CONFIG"] = tf_config(layout, name, everybody)
    environment[ROLE] = f"{name.job} {name.index}"
    process = FunctionProcess(name, work, environment)
    try:
        if name.job == "ps":
            _serve_until(process, context)
            value = None
        else:
            value = process.result()
            context.barrier()
    except SparkTrainingError as error:
        raise SparkTrainingError(f"{name} on {host}: {error}") from None
    finally:
        process.end()
    yield name, value, process.lines


def _serve_until(process: FunctionProcess, context: BarrierTaskContext) -> None:
    """Blocks until all workers have come to the barrier, or the process has failed."""
    over = threading.Event()
    failed: list[SparkTrainingError] = []

    def wait() -> None:
        with contextlib.suppress(Exception):  # the job has ended with somebody's failure
            context.barrier()
        over.set()

    def watch() -> None:
        try:
            process.result()
        except SparkTrainingError as error:
            failed.append(error)
            over.set()

    for target in (wait, watch):
        threading.Thread(target=target, daemon=True).start()
    over.wait()
    if failed:
        raise failed[0]


def tf_config(layout: ClusterLayout, name: TaskName, places: list[tuple[str, int]]) -> str:
    """The `TF_CONFIG` of a task.

    Args:
        layout: The tasks.
        name: The task.
        places: Host and port of each task, in the order of the layout.
    """
    cluster: dict[str, list[str]] = {}
    for task, (host, port) in zip(layout.tasks, places, strict=True):
        bracketed = f"[{host}]" if ":" in host else host
        cluster.setdefault(task.job, []).append(f"{bracketed}:{port}")
    config: Mapping[str, Any] = {
        "cluster": cluster,
        "task": {"type": name.job, "index": name.index},
    }
    return json.dumps(config)
