"""The processes of a training, what they have open, and waiting for those that are to end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

END_S = 5.0
"""How long after its end the processes of a run may still be there, in seconds."""


def left_after(find: Callable[[], list[int]], within_s: float = END_S) -> list[int]:
    """The processes that `find` still sees so many seconds after the end of their run."""
    deadline = time.monotonic() + within_s
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def processes_of(folder: Path | str) -> list[int]:
    """All processes whose environment names a folder: those of a program, whoever started them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is somebody else's
            if str(folder).encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def training_processes(folder: Path | str, *others: bytes) -> list[int]:
    """Processes that train and whose environment names a folder.

    Args:
        folder: The program's own.
        others: What is in the commands of further processes that count.
    """
    commands = (b"sparkflow.spark.cluster.child", *others)
    return [pid for pid in processes_of(folder) if any(each in _command(pid) for each in commands)]


def executor_processes(folder: Path | str) -> list[int]:
    """The executors' JVMs whose environment names a folder, whether they train or not."""
    return [pid for pid in processes_of(folder) if b"CoarseGrainedExecutorBackend" in _command(pid)]


def executors(folder: Path | str) -> dict[int, int]:
    """By training process, see `training_processes`, the executor's JVM that is above it."""
    found = {}
    for each in training_processes(folder):
        pid = each
        try:
            while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                pid = _parent(pid)
        except OSError:  # it has ended meanwhile
            continue
        found[each] = pid
    return found


def shared_memory(pid: int) -> set[str]:
    """The names of the shared memory that a process has mapped, beside memory without a name."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
    except OSError:  # it has ended meanwhile
        return set()
    names = {line.split(maxsplit=5)[5] for line in maps.splitlines() if len(line.split()) > 5}
    return {each for each in names if each.startswith("/dev/shm/")}


def is_sparks(path: Path) -> bool:
    """Whether Spark keeps a file: blocks of the session's cache, and what it has shipped.

    Args:
        path: From the folder for Spark's temporary files on.
    """
    return path.parts[0].startswith(("blockmgr-", "spark-")) and "sparkflow" not in str(path)


def _parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return b""
