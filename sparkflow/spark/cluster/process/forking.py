"""Starts processes of tasks by forking them from a process that has imported what they need.

A task's process executed by Python takes 0.4 to 0.7 s of processor time for imports, three of them
half of the time of a small fit (docs/adr/0072). A Spark worker process, which Spark uses again for
later tasks, keeps one `fork_server` between them.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Final

from sparkflow.spark.cluster.process.fork_server import MAX_REQUEST, MODULE, STATUS
from sparkflow.spark.cluster.process.piped_process import Process, executed
from sparkflow.spark.cluster.process.process_title import ROLE, reserve
from sparkflow.spark.cluster.scheduling import gpus

SET_LATER: Final = (ROLE, gpus.VARIABLE, "TF_CONFIG")
"""Variables in which processes of one server may differ; no library reads them while it loads."""
START_TIMEOUT_S: Final = 60.0
"""The time for a server to start and to fork, before it is killed."""
END_TIMEOUT_S: Final = 5.0
"""The time for a server to end, before it is killed."""


class ForkedProcess:
    """A process of the server, with the methods and attributes of `subprocess.Popen` used here.

    Args:
        pid: Its process id.
        stdin: Its input.
        stdout: Its output.
        stderr: Its errors.
        status: The server's status pipe.
    """

    def __init__(
        self, pid: int, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes], status: IO[bytes]
    ) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self._status = status
        self._code: int | None = None
        self._waiting = threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        """Blocks until it ends; returns its exit code, or the negative number of a signal.

        Raises:
            subprocess.TimeoutExpired: It is still running.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._waiting.acquire(timeout=-1 if timeout is None else timeout):
            raise subprocess.TimeoutExpired("fork", timeout or 0.0)
        try:
            if self._code is None:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not _has_report(self._status, left):
                    raise subprocess.TimeoutExpired("fork", timeout or 0.0)
                report = self._status.read(STATUS.size)
                # Without a report, the server has been killed, and all its processes with it.
                self._code = STATUS.unpack(report)[0] if report else -signal.SIGKILL
                self._status.close()
            return self._code
        finally:
            self._waiting.release()

    def kill(self) -> None:
        """Ends it at once; does not wait for it."""
        with contextlib.suppress(ValueError, ProcessLookupError):  # ValueError: the pipe is closed
            if not _has_report(self._status, 0):
                os.kill(self.pid, signal.SIGKILL)


def _has_report(status: IO[bytes], timeout_s: float | None) -> bool:
    """Returns whether a status pipe has a report, or its end; waits for it."""
    poll = select.poll()
    poll.register(status, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def started(module: str, environment: Mapping[str, str]) -> Process:
    """Starts a process that runs a module's `main`, forked if possible; see `forked`."""
    return forked(module, environment) or executed(module, environment)


def forked(module: str, environment: Mapping[str, str]) -> ForkedProcess | None:
    """Starts a process that runs a module's `main`; None if it has to be executed instead.

    Args:
        module: The module, by its full name.
        environment: Its environment. A different one in other variables than `SET_LATER` needs a
            different server; the module's one before ends when its processes have.
    """
    if not sys.platform.startswith("linux"):
        return None  # packets on sockets, and the end with the parent
    for _ in range(2):  # the server may have ended just now, because it was idle
        server = _servers.suitable(module, environment)
        if server is None:
            return None
        try:
            return server.fork(environment)
        except _GoneError:
            server.close()  # it is ending, and would be found again
    return None


class _GoneError(Exception):
    """The server has ended."""


@dataclass(frozen=True, slots=True)
class _Server:
    """A running server.

    Attributes:
        module: The module that they run.
        fixed: The environment that its processes have in common.
        folder: Their working directory.
        process: Its process.
        requests: What it reads requests from.
    """

    module: str
    fixed: Mapping[str, str]
    folder: str
    process: subprocess.Popen[bytes]
    requests: socket.socket

    def fork(self, environment: Mapping[str, str]) -> ForkedProcess | None:
        """Starts a process.

        Returns:
            None if the server cannot fork, or not with variables that long.

        Raises:
            _GoneError: The server has ended.
        """
        later = {name: environment.get(name) for name in SET_LATER}
        request = json.dumps({"environment": later}).encode()
        if len(request) > MAX_REQUEST:
            return None
        with contextlib.ExitStack() as failed, contextlib.ExitStack() as sent:

            def pipe(is_input: bool, buffering: int = -1) -> tuple[int, IO[bytes]]:
                read, write = os.pipe()
                ours, theirs = (write, read) if is_input else (read, write)
                sent.callback(os.close, theirs)
                mode = "wb" if is_input else "rb"
                try:
                    stream = open(ours, mode, buffering)  # noqa: SIM115  # closed below
                except BaseException:
                    os.close(ours)
                    raise
                return theirs, failed.enter_context(stream)

            pipes = [pipe(True), pipe(False), pipe(False), pipe(False, 0)]
            try:
                socket.send_fds(self.requests, [request], [each for each, _ in pipes])
            except OSError as error:
                raise _GoneError from error
            sent.close()
            stdin, stdout, stderr, status = (each for _, each in pipes)
            if not _has_report(status, START_TIMEOUT_S):
                self.process.kill()  # it was stopped, or hangs
            report = status.read(STATUS.size)
            if not report:
                raise _GoneError
            pid = STATUS.unpack(report)[0]
            if not pid:
                return None
            failed.pop_all()
            return ForkedProcess(pid, stdin, stdout, stderr, status)

    def retire(self) -> None:
        """Ends it once its processes have ended."""
        with contextlib.suppress(OSError):
            self.requests.send(json.dumps({"retire": True}).encode())

    def close(self) -> None:
        """Ends it, and its processes."""
        self.requests.close()
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # it was stopped
            self.process.kill()
            self.process.wait()


class _Servers:
    """The servers of this process; the last one of a module forks. `_lock` guards all fields."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[_Server] = []

    def suitable(self, module: str, environment: Mapping[str, str]) -> _Server | None:
        """Returns a running server for a module and an environment; None if there cannot be one."""
        fixed = {name: value for name, value in environment.items() if name not in SET_LATER}
        folder = os.getcwd()
        with self._lock:
            for each in list(self._all):
                if each.process.poll() is not None:
                    each.close()
                    self._all.remove(each)
            before = [each for each in self._all if each.module == module]
            if before and (before[-1].fixed, before[-1].folder) == (fixed, folder):
                return before[-1]
            for each in before:
                each.retire()
            try:
                self._all.append(_server(module, fixed, folder))
            except OSError:  # the system may have no more processes
                return None
            return self._all[-1]

    def close(self) -> None:
        """Ends all, and their processes."""
        with self._lock:
            for each in self._all:
                each.close()
            self._all.clear()

    def forget(self) -> None:
        """Closes, in a forked copy of this process, what belongs to the original."""
        for each in self._all:
            each.requests.close()
        self._all = []
        self._lock = threading.Lock()  # another thread may have held it


def _server(module: str, fixed: Mapping[str, str], folder: str) -> _Server:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with contextlib.ExitStack() as failed, theirs:
        failed.callback(ours.close)
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            env=reserve(fixed),
        )
        failed.callback(process.wait)
        failed.callback(process.kill)
        ours.send(json.dumps({"module": module}).encode())
        failed.pop_all()
    return _Server(module, fixed, folder, process, ours)


_servers: Final = _Servers()
atexit.register(_servers.close)
os.register_at_fork(after_in_child=_servers.forget)
