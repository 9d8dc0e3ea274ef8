"""Stopping a process with SIGSTOP, until all its threads stand still."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

_STOP_S: Final = 10.0


def suspend(pid: int) -> None:
    """Stops a process; returns when none of its threads runs any more.

    The kernel wakes one thread to take the signal, and the others run on until that one was given a
    processor: on a busy machine they answer what is sent to them after `os.kill` has returned.

    Args:
        pid: The process. Linux.

    Raises:
        ProcessLookupError: There is none.
        TimeoutError: It does not stop within 10 s.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + _STOP_S
    while running := _running(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"Threads {', '.join(running)} of process {pid} do not stop")
        time.sleep(0.001)


def _running(pid: int) -> list[str]:
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            state = (thread / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
            if state not in ("T", "t", "Z", "X"):
                found.append(thread.name)
    return found
