"""The tasks of a training on Spark Connect.

As in `cluster.task`, but the processes report to the chief next to task 0. The tasks learn its
address through an `allGather`, which takes a second, or in an ordinary stage from a file, see
`meeting`. The chief reports failures: if they were raised here, Spark would show that of an
arbitrary task.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import shutil
import socket
import tempfile
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from sparkflow.spark.cluster.addresses import own_address
from sparkflow.spark.cluster.failures import LOST_LEADER
from sparkflow.spark.cluster.process.child_process import ChildProcess
from sparkflow.spark.cluster.process.piped_process import executed
from sparkflow.spark.cluster.scheduling import gpus
from sparkflow.spark.cluster.task import (
    JobConfig,
    child_environment,
    run_task,
    wait_for_others,
)
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.data.spool.spool import local_directories
from sparkflow.spark.endpoints import joined
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.launch.connect import meeting
from sparkflow.spark.launch.connect.outcome import ADDRESS, COMPLETE, outcome_row
from sparkflow.spark.storage.artifacts import Shipped
from sparkflow_runtime.errors import OpError

CHIEF: Final = TaskName("chief", 0)
_START_S: Final = 120.0
# Patience after the tasks have ended, and after one of them failed.
_END_S: Final = 60.0
_LINGER_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ConnectConfig:
    """The configuration of all tasks.

    Attributes:
        job: The configuration of `run_task`; its `driver` is not known yet.
        work: A pickled `lead.Leadership`, for task 0.
        meeting: Where the chief's address is published if there is no barrier stage.
        driver_host: The address by which executors reach Spark's driver; "" if the client does not
            know it.
        timeout_s: Maximum time for tasks to register.
        remembered: The state left by the previous job, see `packed`, for task 0; None if there is
            none.
    """

    job: JobConfig
    work: bytes = field(repr=False)
    meeting: str = ""
    driver_host: str = ""
    timeout_s: float = 0.0
    remembered: Shipped | None = None


def run_connect_task(
    config: ConnectConfig, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The function that `mapInArrow` runs in each task; task 0 yields the outcome's rows."""
    from pyspark import BarrierTaskContext, TaskContext  # here, as in `cluster.task`

    context: Any = BarrierTaskContext.get() if config.job.barrier else TaskContext.get()
    token = config.job.credentials.token or ""
    with contextlib.ExitStack() as stack:
        chief = None
        first = config.job.layout.messengers
        leads = context.partitionId() == first
        if leads and not _is_run_again(config, context):
            chief = stack.enter_context(
                contextlib.closing(_Chief(config, _own_host(config, context)))
            )
        if config.job.barrier:
            address = context.allGather(chief.address if chief is not None else "")[first]
        elif chief is not None:
            address = chief.address
            if config.meeting:
                meeting.publish(config.meeting, token, address)
                stack.callback(meeting.tell_over, config.meeting, token)
        elif config.meeting:
            address = meeting.find(config.meeting, token, config.timeout_s)
            if address == meeting.OVER and not leads:
                return  # no one waits for this task's row
        else:
            raise SparkTrainingError(LOST_LEADER)
        if leads and chief is None:
            if address == meeting.OVER:
                raise SparkTrainingError(LOST_LEADER)
            _wait_for_first(address, config.job, context.taskAttemptId())
            return
        if context.partitionId() < first:
            # This task ends, and Spark delivers its row to the client while the others run.
            for _ in batches:
                pass
            yield outcome_row(ADDRESS, 0, address.encode())
            return
        job = replace(config.job, driver=address)
        try:
            for _ in run_task(job, batches):
                pass
        except Exception:
            # The chief knows about it already; this is for the executor's log.
            traceback.print_exc()
        if chief is not None:
            yield from chief.outcome()


def _is_run_again(config: ConnectConfig, context: Any) -> bool:
    """Whether the leading task had a chief before.

    If rows of the stage are lost with an executor, Spark restarts all of its tasks with attempt 0:
    then the published address shows it.
    """
    if config.job.barrier:
        return False
    return bool(context.attemptNumber()) or (
        bool(config.meeting) and meeting.is_published(config.meeting)
    )


def _wait_for_first(address: str, job: JobConfig, task_attempt_id: int) -> None:
    """Blocks as long as an earlier instance of task 0 leads.

    Raises:
        SparkTrainingError: It no longer leads.
    """
    try:
        wait_for_others(
            address, job.credentials, job.layout.task(job.layout.messengers), task_attempt_id
        )
    except OpError:
        raise SparkTrainingError(LOST_LEADER) from None


def _own_host(config: ConnectConfig, context: Any) -> str:
    """Returns the address by which other executors reach this one."""
    interface = config.job.endpoints.interface
    if config.job.barrier:
        address: str = context.getTaskInfos()[context.partitionId()].address
        host = address.rpartition(":")[0].strip("[]")
        return own_address(joined(host, 1), interface) if interface else host
    if config.driver_host:
        return own_address(joined(config.driver_host, 1), interface)
    host = socket.gethostbyname(socket.gethostname())
    return own_address(joined(host, 1), interface) if interface else host


class _Chief:
    """The chief's process, for task 0."""

    def __init__(self, config: ConnectConfig, host: str) -> None:
        self._events: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        local = next(iter(local_directories(os.environ)), None)
        self._folder = Path(tempfile.mkdtemp(prefix="sparkflow-chief-", dir=local))
        self._outcome = self._folder / "outcome"
        self._process: ChildProcess | None = None
        try:
            self.address = joined(host, self._start(config, host))
        except BaseException:
            self.close()
            raise

    def outcome(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows from which the client creates a model or an error."""
        self._wait_for("end", _END_S)
        for path in sorted(self._outcome.iterdir()):
            _, number, part = path.name.split("-", 2)
            yield outcome_row(part, int(number), path.read_bytes())
        yield outcome_row(COMPLETE, 0, b"")

    def close(self) -> None:
        """Ends the process and removes its files."""
        if self._process is not None:
            self._process.kill()
            self._process.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, config: ConnectConfig, host: str) -> int:
        """Starts the process, waits until it listens and returns its port."""
        work = self._folder / "work"
        work.write_bytes(config.work)
        self._outcome.mkdir()
        left = config.remembered.value if config.remembered is not None else {}
        for part, content in left.items():
            (self._folder / part).write_bytes(content)
        environment = child_environment(os.environ, 1, 1)
        environment[gpus.VARIABLE] = ""
        process = self._process = ChildProcess(
            CHIEF,
            {
                "work": str(work),
                "remembered": {part: str(self._folder / part) for part in left},
                "outcome": str(self._outcome),
                "host": host,
                "credentials": config.job.credentials.export(),
                "linger_s": _LINGER_S,
            },
            environment,
            lambda line: None,
            self._events.put,
            functools.partial(executed, "sparkflow.spark.launch.connect.chief"),
        )

        def watch() -> None:
            self._events.put({"event": "gone", "code": process.wait()})

        threading.Thread(target=watch, daemon=True).start()
        port: int = self._wait_for("address", _START_S)["port"]
        return port

    def _wait_for(self, name: str, timeout_s: float) -> Mapping[str, Any]:
        while True:
            try:
                event = self._events.get(timeout=timeout_s)
            except queue.Empty:
                raise SparkTrainingError(
                    f"The process that leads the training did not reach {name!r} within "
                    f"{timeout_s:g} s"
                ) from None
            if event["event"] == "gone":
                assert self._process is not None
                raise SparkTrainingError(self._process.describe_end(event["code"]))
            if event["event"] == name:
                return event
