"""A cluster on one machine: each task is a server in this process, or a separate process.

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
from typing import TYPE_CHECKING, Any, Final

from sparkflow_runtime.codegen.machine import threads
from sparkflow_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from sparkflow_runtime.process import worker_environment
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.security import Credentials, Tls, new_token
from sparkflow_runtime.security.defaults import session_credentials
from sparkflow_runtime.server import Server
from sparkflow_runtime.testing import task_process
from sparkflow_runtime.testing.faulty_link import FaultyLink
from sparkflow_runtime.testing.suspending import suspend
from sparkflow_runtime.testing.task_process import cluster_of
from sparkflow_runtime.transport.channel.address import Transport
from sparkflow_runtime.transport.task_names import task_name

if TYPE_CHECKING:
    from sparkflow_runtime.security.certificates import Authority

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 10.0


class LocalCluster:
    """Parameter servers and workers on free loopback ports. Used by one thread; a context manager.

    Args:
        num_ps: Tasks of job `ps`.
        num_workers: Tasks of job `worker`.
        token: The token that callers must send; None for this user's own, the default of sessions.
        insecure: Admits everybody on this machine.
        tls: Whether tasks use TLS, with certificates created for this cluster.
        processes: Whether each task is a separate process, which `kill` can end. If `stop` is never
            called, processes die with the thread that created the cluster (Linux's PDEATHSIG),
            restarted ones with this process.
        faulty: Whether tasks and clients reach each task through a `FaultyLink`, see `link`;
            tensors then travel by gRPC.
        transport: How tensors travel if not `faulty`, see `transport.channel.address.Transport`.

    Attributes:
        cluster: The addresses of all tasks.
        token: As given; a new one if links are `faulty`.
        credentials: The credentials for sessions on the cluster.
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
        insecure: bool = False,
        tls: bool = False,
        processes: bool = False,
        faulty: bool = False,
        transport: Transport = "auto",
    ) -> None:
        if num_ps < 0 or num_workers < 0 or num_ps + num_workers < 1:
            raise InvalidArgumentError(
                message=f"A cluster needs at least one task, got {num_ps} ps "
                f"and {num_workers} workers"
            )
        if faulty and token is None:
            token = new_token()  # the user's token is valid for one port, and a link has another
        self.token = token
        self._insecure = insecure
        self._authority = _new_authority() if tls else None
        tls_of_client = self._tls("client")
        self.credentials = Credentials(token, tls_of_client)
        self.cluster = ClusterDef()
        self.servers: tuple[Server, ...] = ()
        self._processes: dict[tuple[str, int], subprocess.Popen[str]] = {}
        self._addresses: dict[str, list[str]] = {}
        self._faulty = faulty
        self._transport: Transport = "grpc" if faulty else transport
        self._links: dict[tuple[str, int], FaultyLink] = {}
        self._ports: dict[tuple[str, int], int] = {}
        self._tasks = [("ps", i) for i in range(num_ps)]
        self._tasks += [("worker", i) for i in range(num_workers)]
        try:
            if processes:
                self._start_processes()
            else:
                self._start_servers()
            if token is None and tls_of_client is None and not insecure:
                self.credentials = session_credentials(self.address(*self._tasks[0]))
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
        """Returns the target of a session on this task: `grpc://host:port`.

        Raises:
            NotFoundError: There is no such task.
        """
        return f"grpc://{self.address(job, index)}"

    def address(self, job: str, index: int) -> str:
        """Returns the `host:port` of a task, also after it was killed.

        Raises:
            NotFoundError: There is no such task.
        """
        for each in self.cluster.job:
            if each.name == job and index in each.tasks:
                return str(each.tasks[index])
        raise NotFoundError(message=f"The cluster has no task {index} of job {job!r}")

    def link(self, job: str, index: int) -> FaultyLink:
        """Returns the link to a task.

        Raises:
            NotFoundError: There is no such task.
            FailedPreconditionError: The cluster was not made with `faulty=True`.
        """
        self.address(job, index)
        if not self._faulty:
            raise FailedPreconditionError(
                message="No faulty links lead to the tasks; create the cluster with faulty=True"
            )
        return self._links[job, index]

    def server(self, job: str, index: int) -> Server:
        """Returns the server of a task in this process.

        Raises:
            NotFoundError: There is no such task.
            FailedPreconditionError: The tasks are processes.
        """
        self.address(job, index)
        if not self.servers:
            raise FailedPreconditionError(message="The servers run in separate processes")
        return self.servers[self._tasks.index((job, index))]

    def kill(self, job: str, index: int) -> None:
        """Ends the process of a task with SIGKILL and returns when it is gone.

        Raises:
            NotFoundError: There is no such task.
            FailedPreconditionError: The task is not a separate process.
        """
        self._process(job, index).kill()
        self._process(job, index).wait(STOP_TIMEOUT_S)

    def restart(self, job: str, index: int) -> None:
        """Restarts a task at its old port; ends it first if it is running.

        A separate process is killed by SIGKILL, a server in this process is stopped.

        Raises:
            NotFoundError: There is no such task.
            UnavailableError: The port is taken, or the process ended before it served.
            DeadlineExceededError: It did not serve in time.
        """
        self.address(job, index)
        port = self._ports[job, index]
        if self._processes:
            self.kill(job, index)
            self._close_pipes(self._process(job, index))
            # The calling thread may end long before the task does.
            process = self._processes[job, index] = self._popen(task_process.OUTLIVES_THREAD)
            _tell(process, self._name(job, index, port))
            _hear((job, index), process)
            _tell(process, self._addresses)
            _hear((job, index), process)
            return
        self.server(job, index).stop()
        server = self._server(self.cluster, job, index, port)
        at = self._tasks.index((job, index))
        self.servers = (*self.servers[:at], server, *self.servers[at + 1 :])
        server.start()

    def resume(self, job: str, index: int) -> None:
        """Resumes the process of a task after `pause`."""
        self._process(job, index).send_signal(signal.SIGCONT)

    def pause(self, job: str, index: int) -> None:
        """Stops the process of a task with SIGSTOP: its port stays open and nothing answers."""
        suspend(self._process(job, index).pid)

    def stop(self) -> None:
        """Ends all tasks; returns when their ports are free. May be called again."""
        for link in self._links.values():
            link.close()
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
            self._close_pipes(process)
        self._processes.clear()

    def _start_servers(self) -> None:
        for job, index in self._tasks:
            self.servers += (self._server(None, job, index, 0),)
        self._place([server.address for server in self.servers])
        for server in self.servers:
            server.set_cluster(self.cluster)
            server.start()

    def _server(self, cluster: ClusterDef | None, job: str, index: int, port: int) -> Server:
        return Server(
            cluster,
            job,
            index,
            port=port,
            token=self.token,
            insecure=self._insecure,
            tls=self._tls(task_name(job, index)),
            transport=self._transport,
        )

    def _start_processes(self) -> None:
        for task in self._tasks:
            self._processes[task] = self._popen()
        for (job, index), process in self._processes.items():
            _tell(process, self._name(job, index, 0))
        answers = [_hear(task, process) for task, process in self._processes.items()]
        self._place([str(answer["address"]) for answer in answers])
        for process in self._processes.values():
            _tell(process, self._addresses)
        for task, process in self._processes.items():
            _hear(task, process)

    def _popen(self, *options: str) -> subprocess.Popen[str]:
        share = max(1, threads.count() // len(self._tasks))
        return subprocess.Popen(
            [sys.executable, "-m", task_process.__name__, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=worker_environment(os.environ, share),
            text=True,
            start_new_session=True,  # Ctrl-C is meant for the parent, which then stops them.
        )

    def _name(self, job: str, index: int, port: int) -> dict[str, object]:
        """The first message to a process."""
        tls = self._tls(task_name(job, index))
        return {
            "job": job,
            "index": index,
            "port": port,
            "token": self.token,
            "insecure": self._insecure,
            "tls": None if tls is None else tls.export(),
            "transport": self._transport,
        }

    def _tls(self, name: str) -> Tls | None:
        return None if self._authority is None else self._authority.issue(name)

    def _close_pipes(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()

    def _place(self, addresses: Sequence[str]) -> None:
        """Records the tasks' real and advertised addresses."""
        for task, address in zip(self._tasks, addresses, strict=True):
            self._ports[task] = int(address.rpartition(":")[2])
            if self._faulty:
                self._links[task] = FaultyLink(address)
        shown = [link.address for link in self._links.values()] or addresses
        for (job, _), address in zip(self._tasks, shown, strict=True):
            self._addresses.setdefault(job, []).append(address)
        self.cluster = cluster_of(self._addresses)

    def _process(self, job: str, index: int) -> subprocess.Popen[str]:
        self.address(job, index)
        found = self._processes.get((job, index))
        if found is None:
            raise FailedPreconditionError(
                message=f"Task {index} of job {job!r} does not run in a process of its own; "
                "create the cluster with processes=True"
            )
        return found


def _new_authority() -> Authority:
    from sparkflow_runtime.security.certificates import Authority  # needs an extra

    return Authority.create()


def _tell(process: subprocess.Popen[str], value: object) -> None:
    assert process.stdin is not None
    try:
        print(json.dumps(value), file=process.stdin, flush=True)
    except BrokenPipeError:
        return  # It has ended; whoever waits for its answer says so.


def _hear(task: tuple[str, int], process: subprocess.Popen[str]) -> dict[str, Any]:
    """Returns the next line of a process, within the time that it may take to start."""
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
            message=f"{name} ended with code {code} before it was ready; see its standard error"
        )
    answer: dict[str, Any] = json.loads(line)
    return answer
