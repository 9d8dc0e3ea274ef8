"""The processes of a training, what they have open, and waiting for their end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

END_S = 5.0
"""The time that the processes of a run may take to end after it, in seconds."""


def left_after(find: Callable[[], list[int]], within_s: float = END_S) -> list[int]:
    """Returns the processes that `find` still returns so long after the end of their run."""
    deadline = time.monotonic() + within_s
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def processes_of(folder: Path | str) -> list[int]:
    """Returns all processes with a folder in their environment: those of one program."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
            if str(folder).encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def training_processes(folder: Path | str, *others: bytes) -> list[int]:
    """Returns processes that train and have a folder in their environment.

    Args:
        folder: The program's own folder.
        others: Parts of the commands of further processes to include.
    """
    commands = (b"sparkflow.spark.cluster.child", *others)
    return [pid for pid in processes_of(folder) if any(each in _command(pid) for each in commands)]


def executor_processes(folder: Path | str) -> list[int]:
    """Returns the executors' JVMs with a folder in their environment, training or not."""
    return [pid for pid in processes_of(folder) if b"CoarseGrainedExecutorBackend" in _command(pid)]


def executors(folder: Path | str) -> dict[int, int]:
    """Returns the executor's JVM above each training process, see `training_processes`."""
    found = {}
    for each in training_processes(folder):
        pid = each
        try:
            while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                pid = _parent(pid)
        except OSError:  # it has ended in the meantime
            continue
        found[each] = pid
    return found


def shared_memory(pid: int) -> set[str]:
    """Returns the names of the shared memory that a process has mapped, without unnamed memory."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
    except OSError:  # it has ended in the meantime
        return set()
    names = {line.split(maxsplit=5)[5] for line in maps.splitlines() if len(line.split()) > 5}
    return {each for each in names if each.startswith("/dev/shm/")}


def is_sparks(path: Path) -> bool:
    """Whether a file is kept by Spark: blocks of the session's cache, and what it has shipped.

    Args:
        path: Relative to the folder for Spark's temporary files.
    """
    return path.parts[0].startswith(("blockmgr-", "spark-")) and "sparkflow" not in str(path)


def _parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended in the meantime
        return b""
