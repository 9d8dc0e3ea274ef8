"""What a Spark task of the barrier job does: start a child process, hand it its rows, wait.

Runs in Spark's Python worker, which may be shared with other tasks and is killed without warning
when a task is cancelled. So nothing of value lives here: the server and the training are the
child's, and the child ends by itself when this process does, because its standard input ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.feed.feed import FeedPlan, write_rows
from sparkflow.spark.job.layout import Layout, TaskName
from sparkflow_runtime.process import worker_environment

RESULT_SCHEMA = "task string, rows bigint"
"""What the job's rows look like, in Spark's DDL."""

_ROWS_FILE = "rows.arrow"
_TAIL_LINES = 40
# The child ends by itself when its input ends; it is killed only if it does not.
_END_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class JobConfig:
    """What all tasks of a job are told, in the closure that Spark ships.

    Attributes:
        driver: `host:port` of the registration service.
        token: The job's token.
        layout: Which partition plays which role.
        dim: Features per row.
        plan: How workers feed their rows.
    """

    driver: str
    token: str = field(repr=False)
    layout: Layout
    dim: int
    plan: FeedPlan


def run_task(config: JobConfig, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function that `mapInArrow` runs in each task. Blocks until training has ended.

    Raises:
        SparkTrainingError: The child process failed; the text names task, host, exit code or signal
            and ends with what it wrote to stderr last.
    """
    from pyspark import BarrierTaskContext  # here, because the child imports this package, too

    context = BarrierTaskContext.get()
    name = config.layout.task(context.partitionId())
    # The same address means the same machine, or the same container.
    hosts = [info.address.rpartition(":")[0] for info in context.getTaskInfos()]
    neighbours = hosts.count(hosts[context.partitionId()])
    gpus = context.resources().get("gpu")
    environment = child_environment(
        os.environ, context.cpus(), neighbours, gpus.addresses if gpus is not None else None
    )
    folder = Path(tempfile.mkdtemp(prefix="sparkflow-", dir=_local_directory(os.environ)))
    try:
        child = Child(config, name, environment, context.partitionId(), context.taskAttemptId())
        try:
            rows = write_rows(batches, folder / _ROWS_FILE, config.dim)
            child.send({"path": str(folder / _ROWS_FILE) if rows else None})
            child.wait()
        except Exception as error:
            # Spark will tell the driver as well, but later and with the JVM's stack around it.
            _report(config, name, error)
            raise
        finally:
            child.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    yield pa.RecordBatch.from_pydict(
        {"task": pa.array([str(name)], pa.string()), "rows": pa.array([rows], pa.int64())}
    )


def child_environment(
    environment: Mapping[str, str], cpus: int, neighbours: int, gpus: list[str] | None
) -> dict[str, str]:
    """The environment of a child process.

    Args:
        environment: That of Spark's Python worker.
        cpus: `spark.task.cpus`.
        neighbours: Tasks of the job on this machine.
        gpus: Addresses of the task's GPUs; None leaves the choice to the machine's settings.
    """
    # pyspark sets OMP_NUM_THREADS to spark.task.cpus, which is 1 unless someone changed it.
    threads = max(cpus, len(os.sched_getaffinity(0)) // neighbours)
    child = worker_environment(environment, threads)
    if gpus is not None:
        child["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    # Files that Spark has shipped (--py-files) are on the path of this process only.
    child["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return child


class Child:
    """The child process of one task.

    Args:
        config: What the job is about; goes to the child's stdin, because others can read arguments.
        name: The task.
        environment: Of the child.
        partition, attempt: Spark's numbers of the task.
    """

    def __init__(
        self,
        config: JobConfig,
        name: TaskName,
        environment: Mapping[str, str],
        partition: int,
        attempt: int,
    ) -> None:
        self._config = config
        self._name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sparkflow.spark.job.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=dict(environment),
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        assert self._process.stderr is not None
        self._reader = threading.Thread(
            target=self._forward, args=(self._process.stderr,), daemon=True
        )
        self._reader.start()
        self.send(
            {
                "driver": config.driver,
                "token": config.token,
                "job": name.job,
                "task": name.index,
                "plan": asdict(config.plan),
                "partition": partition,
                "attempt": attempt,
            }
        )

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes one line to the child's stdin.

        Raises:
            SparkTrainingError: The child has ended.
        """
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(message) + "\n")
            stdin.flush()
        except BrokenPipeError:
            self.wait()
            raise SparkTrainingError(
                f"The process of {self._name} on {_host()} ended before its rows were there"
            ) from None

    def wait(self) -> None:
        """Blocks until the child ends.

        Raises:
            SparkTrainingError: It ended badly.
        """
        code = self._process.wait()
        self._reader.join(_END_TIMEOUT_S)
        if code == 0:
            return
        text = f"The process of {self._name} on {_host()} {describe_exit(code)}"
        if self._tail:
            text += ". Its last words:\n" + "".join(self._tail).rstrip()
        raise SparkTrainingError(text)

    def end(self) -> None:
        """Ends the child if it is there still. May be called more than once."""
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_END_TIMEOUT_S)
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _forward(self, stderr: IO[str]) -> None:
        for line in stderr:
            self._tail.append(line)
            # Spark keeps what its workers write to stderr in the executor's log.
            sys.stderr.write(f"[{self._name}] {line}")
            sys.stderr.flush()


def _report(config: JobConfig, name: TaskName, error: Exception) -> None:
    # Loading gRPC takes a while, and only failures need it here.
    from sparkflow.spark.job.registration import RegistrationClient

    # Our own text says all; of what others raise, the driver shows the traceback.
    own = isinstance(error, SparkTrainingError)
    client = RegistrationClient(config.driver, config.token)
    try:
        client.report_failure(name, _host(), str(error) if own else error)
    finally:
        client.close()


def describe_exit(code: int) -> str:
    """`exited with code 1`, or the signal that killed it, from a Popen return code."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = ", for instance because the machine ran out of memory" if name == "SIGKILL" else ""
    return f"was killed by signal {-code} ({name}){hint}"


def _local_directory(environment: Mapping[str, str]) -> str | None:
    # Where Spark puts its own shuffle files: large, and cleaned when the executor ends.
    directories = environment.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((each for each in directories if each and os.path.isdir(each)), None)


def _host() -> str:
    return socket.gethostname()
