"""Checks that a block leaves nothing behind: threads, sockets, pipes, memory files, processes.

with assert_nothing_left():
    with LocalCluster(2, 4) as cluster:
        ...

And that a task that goes on serving holds nothing of the steps and sessions that are over:

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
"""Sockets are closed and threads end a little after they are told to; so long is waited."""
_LOOK_INTERVAL_S: Final = 0.01
_COUNTED: Final = ("socket:", "pipe:", "/memfd:")
"""What open descriptors of ours are; gRPC keeps event counters of its own for ever."""

T = TypeVar("T")


@contextlib.contextmanager
def assert_nothing_left(settle_s: float = SETTLE_S) -> Iterator[None]:
    """Fails when the block leaves something that was not there before.

    Where there is no /proc, threads alone are looked at.

    Args:
        settle_s: How long what is ending may take.

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
    """Fails when a step is in the rendezvous of a server: all have ended, it is said.

    Raises:
        AssertionError: One is there, also after `settle_s`.
    """
    for server in servers:
        steps = _wait_for_none(server.worker.rendezvous.running, settle_s)
        assert not steps, f"{server.task} still has the steps {steps}"


def assert_idle(servers: Iterable[Server], settle_s: float = SETTLE_S) -> None:
    """Fails when a server holds something of a step or a session: all were closed, it is said.

    Raises:
        AssertionError: A step or a session is there, also after `settle_s`.
    """
    for server in servers:
        assert_no_steps([server], settle_s)
        sessions = _wait_for_none(server.worker.sessions.handles, settle_s)
        assert not sessions, f"{server.task} still has the sessions {sessions}"


def _wait_for_none(left: Callable[[], T], settle_s: float) -> T:
    """What `left` gives when that is nothing, or when the time is over."""
    deadline = time.monotonic() + settle_s
    while (found := left()) and time.monotonic() < deadline:
        time.sleep(_LOOK_INTERVAL_S)
    return found


def _threads() -> set[threading.Thread]:
    """Those that run, but for what waits for a call of anybody in the process."""
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
