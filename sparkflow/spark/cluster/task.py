"""A Spark task of a training job: starts a child process, passes it its rows, and waits.

Runs in Spark's Python worker, which may be shared with other tasks and is killed without warning
when a task is cancelled. So nothing of value lives here: the server and the training are the
child's, and the child ends by itself when this process does, because its standard input ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sparkflow.spark.cluster.addresses import own_address
from sparkflow.spark.cluster.process.child_process import ChildProcess, Silence
from sparkflow.spark.cluster.process.process_supervisor import ProcessSupervisor
from sparkflow.spark.cluster.process.process_title import ROLE
from sparkflow.spark.cluster.scheduling.gpus import gpu_environment
from sparkflow.spark.cluster.task_logs import LineSender
from sparkflow.spark.cluster.worker_callbacks import WorkerCallback, event_listener
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.data.hosted.dataset_spool import DatasetSpool, TravellingDataset
from sparkflow.spark.data.schema.row_format import RowFormat
from sparkflow.spark.data.spool.spool import RowSpool, local_directories
from sparkflow.spark.endpoints import Endpoints
from sparkflow.spark.errors import LostTaskError
from sparkflow_runtime.process import worker_environment
from sparkflow_runtime.security import Credentials

RESULT_SCHEMA = "task string, rows bigint"
"""The schema of the job's result rows, in Spark's DDL."""


@dataclass(frozen=True, slots=True)
class JobConfig:
    """The configuration of all tasks of a job, in the closure that Spark ships.

    Attributes:
        driver: `host:port` of the registration service.
        credentials: The credentials that tasks and driver present to each other.
        layout: Which partition plays which role.
        row_format: The format of a row.
        sends_logs: Whether the driver shows what the tasks' processes write.
        callbacks: The user's functions, called in the workers' Spark tasks.
        gpu_memory_bytes: The memory of a GPU for a worker; None for all of it.
        silence: When a silent process is killed.
        barrier: Whether the tasks are those of a barrier stage; if not, they wait for each other.
        datasets: Whose rows come instead of rows of `row_format`; None where those do.
        endpoints: Where the tasks' processes listen.
        of_servers: Whether the tasks are parameter servers in a separate job.
    """

    driver: str
    credentials: Credentials = field(repr=False)
    layout: ClusterLayout
    row_format: RowFormat
    sends_logs: bool = False
    callbacks: tuple[WorkerCallback, ...] = ()
    gpu_memory_bytes: int | None = None
    silence: Silence = field(default_factory=Silence)
    barrier: bool = True
    datasets: tuple[TravellingDataset, ...] | None = None
    endpoints: Endpoints = field(default_factory=Endpoints)
    of_servers: bool = False


def run_task(config: JobConfig, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function that `mapInArrow` runs in each task. Blocks until training has ended.

    Raises:
        SparkTrainingError: The child process failed; the text names task, host, exit code or signal
            and ends with what it wrote to stderr last.
    """
    # Here, because the child imports this package, too.
    from pyspark import BarrierTaskContext, TaskContext

    context: Any = BarrierTaskContext.get() if config.barrier else TaskContext.get()
    name = config.layout.task(context.partitionId(), config.of_servers)
    if config.barrier and not config.layout.servers_apart:
        # The same address means the same machine, or the same container.
        hosts = [info.address.rpartition(":")[0] for info in context.getTaskInfos()]
        neighbours = hosts.count(hosts[context.partitionId()])
    else:
        neighbours = wait_for_others(
            config.driver,
            config.credentials,
            name,
            context.taskAttemptId(),
            config.endpoints.interface,
        )
        if not neighbours:
            return  # training is over, and nobody waits for this task's row
    gpus = context.resources().get("gpu")
    addresses = list(gpus.addresses) if gpus is not None else None
    environment = gpu_environment(
        child_environment(os.environ, context.cpus(), neighbours), name.job, addresses
    )
    environment[ROLE] = f"{name.job} {name.index}"
    message = {
        "driver": config.driver,
        "credentials": config.credentials.export(),
        "job": name.job,
        "task": name.index,
        "partition": context.partitionId(),
        "attempt": context.taskAttemptId(),
        "gpu_addresses": addresses,
        "gpu_memory_bytes": config.gpu_memory_bytes,
        "ports": str(config.endpoints.ports),
        "interface": config.endpoints.interface,
    }
    rows = keep_child(config, name, message, environment, batches)
    yield pa.RecordBatch.from_pydict(
        {"task": pa.array([str(name)], pa.string()), "rows": pa.array([rows], pa.int64())}
    )


def wait_for_others(
    driver: str,
    credentials: Credentials,
    name: TaskName,
    task_attempt_id: int,
    interface: str = "",
) -> int:
    """Waits until all tasks of an ordinary stage run; returns how many are on this machine.

    Returns:
        0 when there is no work: training is over.
    """
    from sparkflow.spark.cluster.registration_client import RegistrationClient

    client = RegistrationClient(driver, credentials)
    try:
        return client.enter(name, own_address(driver, interface), task_attempt_id)
    finally:
        client.close()


def keep_child(
    config: JobConfig,
    name: TaskName,
    message: Mapping[str, Any],
    environment: Mapping[str, str],
    batches: Iterable[pa.RecordBatch],
) -> int:
    """Runs the child process until training has ended; returns the number of its rows."""

    def driver() -> Any:
        # Loading gRPC takes a while, and only logs and failures need it here.
        from sparkflow.spark.cluster.registration_client import RegistrationClient

        return RegistrationClient(config.driver, config.credentials)

    def fail(error: BaseException) -> None:
        supervisor.fail(error)

    listen = event_listener(name, config.callbacks, fail)
    ports: dict[str, int] = {}

    def on_event(event: Mapping[str, Any]) -> None:
        if event["event"] == "listening":
            ports["port"] = event["port"]
        else:
            listen(event)

    def start() -> ChildProcess:
        # A second one takes the port of the first, so that others need not learn of it.
        return ChildProcess(
            name, {**message, **ports}, environment, on_line, on_event, silence=config.silence
        )

    sender = _Lines(driver, name) if config.sends_logs else None
    on_line = sender.add if sender is not None else lambda line: None
    supervisor = ProcessSupervisor(name, start, driver)
    spool = _spool(config, name, supervisor)
    try:
        try:
            spool.take(_from_spark(batches))
        except LostTaskError:
            raise  # Spark knows why, and tells the driver
        except Exception as error:
            # Spark will tell the driver as well, but later and with the JVM's stack around it.
            supervisor.fail(error)
            raise
        supervisor.wait()
    finally:
        supervisor.end()
        spool.close()
        if sender is not None:
            sender.end()
    return spool.rows


def _from_spark(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the same batches; distinguishes interrupted input from invalid rows.

    When an executor is killed, its Python workers see the end of what it was sending, at any byte,
    and may outlive it for long enough to report that: it explains nothing, and hid the loss.

    Raises:
        LostTaskError: The input was interrupted.
    """
    try:
        yield from batches
    except (pa.ArrowException, OSError, EOFError) as error:
        raise LostTaskError(f"The stream of rows from Spark was interrupted: {error}") from error


def _spool(
    config: JobConfig, name: TaskName, supervisor: ProcessSupervisor
) -> RowSpool | DatasetSpool:
    directories = local_directories(os.environ)
    if config.datasets is None:
        return RowSpool(config.row_format, directories, supervisor.send)
    worker = name.index if name.job == "worker" else None
    return DatasetSpool(config.datasets, worker, directories, supervisor.send)


class _Lines:
    """Sends the lines of a task over a separate connection, opened with the first line."""

    def __init__(self, driver: Callable[[], Any], name: TaskName) -> None:
        self._driver = driver
        self._name = name
        self._client: Any = None
        self._sender = LineSender(self._write)
        self.add = self._sender.add

    def end(self) -> None:
        self._sender.end()
        if self._client is not None:
            self._client.close()

    def _write(self, lines: Sequence[str], dropped: int) -> None:
        self._client = self._client or self._driver()
        self._client.write_logs(self._name, lines, dropped)


def child_environment(environment: Mapping[str, str], cpus: int, neighbours: int) -> dict[str, str]:
    """Returns the environment of a child process.

    Args:
        environment: That of Spark's Python worker.
        cpus: `spark.task.cpus`.
        neighbours: The number of tasks of the job on this machine.
    """
    # pyspark sets OMP_NUM_THREADS to spark.task.cpus, which is 1 unless someone changed it.
    threads = max(cpus, len(os.sched_getaffinity(0)) // neighbours)
    child = worker_environment(environment, threads)
    # Files that Spark has shipped (--py-files) are on the path of this process only.
    child["PYTHONPATH"] = os.pathsep.join(filter(_may_have_modules, sys.path))
    return child


def _may_have_modules(path: str) -> bool:
    """Returns whether to search a path: Spark puts its own classes there, too.

    Python reads the directory of this archive in each process: 0.15 s (2026-11-30).
    """
    name = os.path.basename(path)
    return bool(path) and not (name.startswith("spark-core_") and name.endswith(".jar"))
