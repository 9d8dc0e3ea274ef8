"""Checks that a block leaves nothing behind: threads, sockets, pipes, memory files, processes.

with assert_nothing_left():
    with LocalCluster(2, 4) as cluster:
        ...

And that a task that continues serving holds nothing of completed steps and closed sessions:

with LocalCluster(1, 2) as cluster:
    ...
    assert_idle(cluster.servers)
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from sparkflow_runtime.resources.spare_threads import idle_threads
from sparkflow_runtime.server import Server

SETTLE_S: Final = 10.0
"""How long to wait for sockets and threads, which end a little after the request."""
_LOOK_INTERVAL_S: Final = 0.01
_COUNTED: Final = ("socket:", "pipe:", "/memfd:")
"""The kinds of descriptors that are checked; gRPC keeps its event counters forever."""

T = TypeVar("T")


@contextlib.contextmanager
def assert_nothing_left(settle_s: float = SETTLE_S) -> Iterator[None]:
    """Fails if the block leaves something that was not there before.

    Without /proc, only threads are checked.

    Args:
        settle_s: How long to wait for things that are ending.

    Raises:
        AssertionError: A thread, a descriptor (listening ports among them) or a process is left.
    """
    threads, files, processes = _threads(), _files(), _children()
    yield
    left_threads = _wait_for_none(lambda: _threads() - threads, settle_s)
    assert not left_threads, f"Threads are left: {sorted(t.name for t in left_threads)}"
    left_files = _wait_for_none(lambda: _files_besides(files), settle_s)
    assert not left_files, f"Descriptors are left: {sorted(left_files)}"
    left_processes = _wait_for_none(lambda: _children() - processes, settle_s)
    assert not left_processes, f"Processes are left: {sorted(left_processes)}"


def assert_no_steps(servers: Iterable[Server], settle_s: float = SETTLE_S) -> None:
    """Fails if a server's rendezvous holds a step although all should have ended.

    Raises:
        AssertionError: A step is still there after `settle_s`.
    """
    for server in servers:
        steps = _wait_for_none(server.worker.rendezvous.running, settle_s)
        assert not steps, f"{server.task} still has the steps {steps}"


def assert_idle(servers: Iterable[Server], settle_s: float = SETTLE_S) -> None:
    """Fails if a server holds a step or a session although all should have been closed.

    Raises:
        AssertionError: A step or a session is still there after `settle_s`.
    """
    for server in servers:
        assert_no_steps([server], settle_s)
        sessions = _wait_for_none(server.worker.sessions.handles, settle_s)
        assert not sessions, f"{server.task} still has the sessions {sessions}"


def _wait_for_none(left: Callable[[], T], settle_s: float) -> T:
    """Returns the result of `left` once it is empty, or when the time is over."""
    deadline = time.monotonic() + settle_s
    while (found := left()) and time.monotonic() < deadline:
        time.sleep(_LOOK_INTERVAL_S)
    return found


def _threads() -> set[threading.Thread]:
    """Returns running threads, except those of pools that wait for a call."""
    return {thread for thread in threading.enumerate() if thread.is_alive()} - idle_threads()


def _files() -> set[str]:
    """The descriptors of this process that are sockets, pipes and memory files.

    They are named as the kernel does, which names all memory files alike, with the file's number,
    and which of those it is that one file has.
    """
    found: Counter[str] = Counter()
    with contextlib.suppress(FileNotFoundError):
        for path in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # the listing's own descriptor
                target = os.readlink(path)
                if target.startswith(_COUNTED):
                    found[f"{target} {path.stat().st_ino}"] += 1
    return {f"{name} #{number}" for name, count in found.items() for number in range(count)}


def _files_besides(known: set[str]) -> set[str]:
    """Those that stay when the garbage collector has done its work: wires close with it."""
    if _files() - known:
        gc.collect()
    return _files() - known


def _children() -> set[int]:
    """The processes that threads of this one have started and that are not reaped."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.update(int(pid) for pid in path.read_text().split())
    return found
