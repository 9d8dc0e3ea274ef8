"""A cluster on one machine: every task a server in this process, or a process that can be killed.

with LocalCluster(num_ps=1, num_workers=2) as cluster:
    session = open_session(cluster.target("worker", 0))
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

from sparkflow_runtime.codegen import threads
from sparkflow_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from sparkflow_runtime.process import worker_environment
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.server import Server
from sparkflow_runtime.testing import task_process
from sparkflow_runtime.testing.task_process import cluster_of

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 10.0


class LocalCluster:
    """Parameter servers and workers on free loopback ports. Used by one thread; a context manager.

    Args:
        num_ps: Tasks of job `ps`.
        num_workers: Tasks of job `worker`.
        token: What callers must show; None lets everybody on this machine in.
        processes: Whether each task is a process of its own, which `kill` can end. Processes die
            with the thread that made the cluster (Linux' PDEATHSIG), if `stop` is never called.

    Attributes:
        cluster: The addresses of all tasks.
        token: As given.
        servers: The servers, `ps` first; empty with `processes`.

    Raises:
        UnavailableError: A process ended before it served.
        DeadlineExceededError: A process did not serve within `START_TIMEOUT_S` seconds.
    """

    def __init__(
        self,
        num_ps: int = 1,
        num_workers: int = 2,
        *,
        token: str | None = None,
        processes: bool = False,
    ) -> None:
        if num_ps < 0 or num_workers < 0 or num_ps + num_workers < 1:
            raise InvalidArgumentError(
                message=f"A cluster needs at least one task, got {num_ps} ps "
                f"and {num_workers} workers"
            )
        self.token = token
        self.cluster = ClusterDef()
        self.servers: tuple[Server, ...] = ()
        self._processes: dict[tuple[str, int], subprocess.Popen[str]] = {}
        self._tasks = [("ps", i) for i in range(num_ps)]
        self._tasks += [("worker", i) for i in range(num_workers)]
        try:
            if processes:
                self._start_processes()
            else:
                self._start_servers()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> LocalCluster:
        """The cluster itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops all tasks."""
        self.stop()

    def target(self, job: str, index: int) -> str:
        """What a session on this task is given: `grpc://host:port`.

        Raises:
            NotFoundError: There is no such task.
        """
        return f"grpc://{self.address(job, index)}"

    def address(self, job: str, index: int) -> str:
        """The `host:port` of a task, also after it was killed.

        Raises:
            NotFoundError: There is no such task.
        """
        for each in self.cluster.job:
            if each.name == job and index in each.tasks:
                return str(each.tasks[index])
        raise NotFoundError(message=f"The cluster has no task {index} of job {job!r}")

    def server(self, job: str, index: int) -> Server:
        """The server of a task in this process.

        Raises:
            NotFoundError: There is no such task.
            FailedPreconditionError: The tasks are processes.
        """
        self.address(job, index)
        if not self.servers:
            raise FailedPreconditionError(message="The servers live in processes of their own")
        return self.servers[self._tasks.index((job, index))]

    def kill(self, job: str, index: int) -> None:
        """Ends the process of a task with SIGKILL and returns when it is gone.

        Raises:
            NotFoundError: There is no such task.
            FailedPreconditionError: The task is not a process of its own.
        """
        self._process(job, index).kill()
        self._process(job, index).wait(STOP_TIMEOUT_S)

    def pause(self, job: str, index: int) -> None:
        """Stops the process of a task with SIGSTOP: its port stays open and nothing answers."""
        self._process(job, index).send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        """Ends all tasks; returns when their ports are free. May be called again."""
        for server in self.servers:
            server.stop()
        processes = list(self._processes.values())
        for process in processes:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()  # The task stops by itself.
            process.send_signal(signal.SIGCONT)
        for process in processes:
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()
        self._processes.clear()

    def _start_servers(self) -> None:
        for job, index in self._tasks:
            self.servers += (Server(None, job, index, port=0, token=self.token),)
        self.cluster = cluster_of(self._by_job([server.address for server in self.servers]))
        for server in self.servers:
            server.set_cluster(self.cluster)
            server.start()

    def _start_processes(self) -> None:
        share = max(1, threads.count() // len(self._tasks))
        for task in self._tasks:
            self._processes[task] = subprocess.Popen(
                [sys.executable, "-m", task_process.__name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=worker_environment(os.environ, share),
                text=True,
                start_new_session=True,  # Ctrl-C is for the parent, which then stops them.
            )
        for (job, index), process in self._processes.items():
            _tell(process, {"job": job, "index": index, "token": self.token})
        answers = [_hear(task, process) for task, process in self._processes.items()]
        addresses = self._by_job([str(answer["address"]) for answer in answers])
        self.cluster = cluster_of(addresses)
        for process in self._processes.values():
            _tell(process, addresses)
        for task, process in self._processes.items():
            _hear(task, process)

    def _by_job(self, addresses: Sequence[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for (job, _), address in zip(self._tasks, addresses, strict=True):
            found.setdefault(job, []).append(address)
        return found

    def _process(self, job: str, index: int) -> subprocess.Popen[str]:
        self.address(job, index)
        found = self._processes.get((job, index))
        if found is None:
            raise FailedPreconditionError(
                message=f"Task {index} of job {job!r} is not a process of its own; "
                "make the cluster with processes=True"
            )
        return found


def _tell(process: subprocess.Popen[str], value: object) -> None:
    assert process.stdin is not None
    try:
        print(json.dumps(value), file=process.stdin, flush=True)
    except BrokenPipeError:
        return  # It has ended; whoever waits for its answer says so.


def _hear(task: tuple[str, int], process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line of a process, within the time a process may take to start."""
    assert process.stdout is not None
    name = f"Task {task[1]} of job {task[0]!r}"
    ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
    if not ready:
        raise DeadlineExceededError(
            message=f"{name} (process {process.pid}) did not start within {START_TIMEOUT_S:g} s"
        )
    line = process.stdout.readline()
    if not line:
        code = process.wait(STOP_TIMEOUT_S)
        raise UnavailableError(
            message=f"{name} ended with code {code} before it served; its standard error says why"
        )
    answer: dict[str, Any] = json.loads(line)
    return answer
