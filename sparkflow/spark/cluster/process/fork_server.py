"""Forks the processes of tasks: `python -m sparkflow.spark.cluster.process.fork_server`.

Started by a Spark worker process, which sends it requests over its standard input, a socket (see
`forking`): first the module that its processes will run, then one for each process. It imports what
this module needs and forks itself for each process, which takes milliseconds instead of more than
half a second of processor time. It has one thread and creates nothing that a forked process must
not share: no connections, no compiled code, no GPU.

It ends when the Spark worker does, and after `IDLE_S` without work. Its processes end with it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from sparkflow.spark.cluster.process.process_title import set_title
from sparkflow_runtime.parent_process import die_with_parent

MODULE: Final = "sparkflow.spark.cluster.process.fork_server"
IDLE_S: Final = 60.0
"""How long it waits for work: as long as Spark keeps an idle Python worker."""
STATUS: Final = struct.Struct("<i")
"""What a status pipe transmits: the process id, or 0 if there is none, and then the exit code."""
MAX_REQUEST: Final = 1 << 16
"""The maximum size of a request in bytes."""

TRAINING: Final = "sparkflow.spark.cluster.child"
"""The module of a training's tasks."""
FUNCTION: Final = "sparkflow.spark.programs.function_child"
"""The module of a user's function."""

_GRAPHS: Final = (
    "encodings.idna",
    "grpc._channel",
    "grpc._server",
    "llvmlite.binding",
    "numpy.random",
    "pyarrow.compute",
    "sparkflow_runtime.codegen.cpu.loops",
    "sparkflow_runtime.compiler.concurrent",
    "sparkflow_runtime.compiler.fusion.finish",
    "sparkflow_runtime.compiler.products",
    "sparkflow_runtime.compiler.update_groups",
    "sparkflow_runtime.ops.data.iterator",
    "sparkflow_runtime.ops.indexing.gather",
    "sparkflow_runtime.ops.linalg.linalg",
    "sparkflow_runtime.ops.nn.activation",
    "sparkflow_runtime.ops.nn.bias",
    "sparkflow_runtime.ops.nn.loss",
    "sparkflow_runtime.ops.nn.softmax",
    "sparkflow_runtime.ops.optimizers.apply_gradient",
    "sparkflow_runtime.ops.random.random",
    "sparkflow_runtime.ops.reduction.reduction",
    "sparkflow_runtime.ops.shape.joining",
    "sparkflow_runtime.ops.state.variable_ops",
    "sparkflow_runtime.resources.datasets.batch_source",
    "sparkflow_runtime.transport.channel.serving",
)
"""What running most graphs imports."""
_PRELOADED: Final = {
    TRAINING: (
        *_GRAPHS,
        TRAINING,
        "sparkflow.spark.cluster.task_lifecycle",
        "sparkflow.spark.data.feed.worker_feed",
    ),
    FUNCTION: (
        *_GRAPHS,
        FUNCTION,
        "pyspark.cloudpickle",
        "sparkflow.train.clusters.server",
        "sparkflow.train.optimizers.optimizer",
        "sparkflow.train.sessions.monitored_training",
        "sparkflow_runtime.master.remote_session",
        "sparkflow_runtime.ops.elementwise.binary",
        "sparkflow_runtime.ops.elementwise.unary",
        "sparkflow_runtime.ops.files.save_restore",
        "sparkflow_runtime.ops.shape.constants",
    ),
}
"""What most processes of a module import; the rest is imported by the process that needs it."""


def main() -> None:
    """Imports what processes need, then forks one for each request."""
    # Ctrl-C in a terminal reaches the whole group; the driver decides which process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = socket.socket(fileno=os.dup(0))
    first = requests.recv(MAX_REQUEST)
    if not first:
        return
    module = json.loads(first)["module"]
    preload(module)
    gc.collect()
    gc.freeze()  # a collection in a forked process would copy the pages of all objects
    _ForkServer(requests, module).run()


def preload(module: str) -> None:
    """Imports what the processes of a module need."""
    gc.disable()
    for name in _PRELOADED.get(module, ()):
        importlib.import_module(name)
    gc.enable()


class _ForkServer:
    """Handles the requests, and reports how processes have ended.

    Args:
        requests: Where they come from; its end is the end of the server.
        module: What the processes run.
    """

    def __init__(self, requests: socket.socket, module: str) -> None:
        self._pid = os.getpid()
        self._requests = requests
        self._module = module
        self._statuses: dict[int, int] = {}
        """The status pipes of running processes, by process id."""
        self._selector = selectors.DefaultSelector()
        self._ended, self._wakes = socket.socketpair()
        self._is_retired = False

    def run(self) -> None:
        for each in (self._ended, self._wakes):
            each.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._requests, selectors.EVENT_READ)
        self._selector.register(self._ended, selectors.EVENT_READ)
        idle_since = time.monotonic()
        while not self._is_over(time.monotonic() - idle_since):
            ready = {key.fileobj for key, _ in self._selector.select(self._wait_s())}
            if self._ended in ready:
                with contextlib.suppress(BlockingIOError):
                    self._ended.recv(4096)
                self._reap()
            if self._requests in ready and not self._handle_request():
                return
            if ready:
                idle_since = time.monotonic()

    def _wait_s(self) -> float | None:
        return None if self._statuses else IDLE_S

    def _is_over(self, idle_s: float) -> bool:
        return not self._statuses and (self._is_retired or idle_s >= IDLE_S)

    def _handle_request(self) -> bool:
        """Handles one request; returns whether more can come."""
        message, pipes, _, _ = socket.recv_fds(self._requests, MAX_REQUEST, 4)
        if not message:
            return False
        request = json.loads(message)
        if request.get("retire"):
            self._is_retired = True
            return True
        if len(pipes) < 4:  # this process may open no more; the end of the status pipe tells it
            _close(pipes)
            return True
        *streams, status = pipes
        pid = self._fork()
        if pid == 0:
            self._run_child(request, pipes)  # does not return
        _close(streams)
        _report(status, pid or 0)
        if pid is None:
            os.close(status)
        else:
            self._statuses[pid] = status
        return True

    def _fork(self) -> int | None:
        """Forks; returns None in the server if that is impossible or unsafe."""
        if threading.active_count() > 1:
            # Something that Python loads at its start, such as a profiler, has made a thread.
            return None
        try:
            return os.fork()
        except OSError:  # the system may have no more processes or memory
            return None

    def _reap(self) -> None:
        while self._statuses:
            pid, how = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            status = self._statuses.pop(pid)
            _report(status, os.waitstatus_to_exitcode(how))
            os.close(status)

    def _run_child(self, request: Mapping[str, Any], pipes: Sequence[int]) -> NoReturn:
        """Becomes the process of a task: runs the module's `main`, and ends with it."""
        code = 1
        try:
            die_with_parent(self._pid)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, stream in enumerate(pipes[:3]):
                os.dup2(stream, number)
            self._close_all(pipes)
            _reseed()
            _set_environment(request["environment"])
            set_title(MODULE, self._module, request["environment"])
            importlib.import_module(self._module).main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stderr.flush()
            os._exit(code)

    def _close_all(self, pipes: Sequence[int]) -> None:
        """Closes, in a forked process, what only the server uses."""
        self._selector.close()
        for each in (self._requests, self._ended, self._wakes):
            each.close()
        _close([*pipes, *self._statuses.values()])


def _report(status: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(status, STATUS.pack(number))


def _close(descriptors: Sequence[int]) -> None:
    for each in descriptors:
        os.close(each)


def _reseed() -> None:
    """Seeds numpy's global generator, which all forked processes would share; Python's is."""
    import numpy as np

    np.random.seed()


def _set_environment(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


if __name__ == "__main__":
    main()
