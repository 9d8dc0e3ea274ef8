"""The child's side: Arrow files mapped into memory, of which the kernel may drop what it needs to.

A mapped page belongs to the page cache; it can be dropped and read again, so rows may be many times
larger than the memory. But it counts as resident while it is mapped, and who limits processes by
that (YARN does) would end ours. `MappedChunks` therefore gives pages back itself where the rows are
large beside the memory there is.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

import pyarrow as pa

_SMALLEST_WINDOW: Final = 64 << 20


class MappedChunks:
    """Record batches that lie in files. For one thread at a time.

    Args:
        memory_bytes: What rows may keep resident without being given back; a quarter of the
            machine's or container's memory if None.
    """

    def __init__(self, memory_bytes: int | None = None) -> None:
        self.size_bytes = 0
        self._maps: list[mmap.mmap] = []
        self._window = memory_bytes if memory_bytes is not None else _window_bytes()
        self._before = _mapped_bytes()

    def map(self, path: str) -> pa.RecordBatch:
        """The only record batch of an Arrow file, without reading it."""
        file = os.open(path, os.O_RDONLY)
        try:
            size = os.fstat(file).st_size
            mapped = mmap.mmap(file, size, prot=mmap.PROT_READ)
        finally:
            os.close(file)
        self._maps.append(mapped)
        self.size_bytes += size
        return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).get_batch(0)

    @property
    def is_large(self) -> bool:
        """Whether pages have to be given back now and then."""
        return self.size_bytes > self._window

    def were_read(self) -> None:
        """Says that rows were read; gives all pages back once many are resident."""
        if self.is_large and _mapped_bytes() - self._before > self._window:
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Lets go of the files; arrays that still refer to them stay valid."""
        self._maps = []


def _mapped_bytes() -> int:
    """What is resident of files, those of libraries included.

    It has to be asked for: one row that is touched brings up to a megabyte of its neighbours with
    it, if they are in the page cache.
    """
    with open("/proc/self/statm") as file:
        return int(file.read().split()[2]) * mmap.PAGESIZE


def spare_bytes() -> int:
    """This process's part of the memory that is not in use, by its part of the processors."""
    available = _memory_bytes()
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                available = min(available, int(line.split()[1]) << 10)
    processors = os.cpu_count() or 1
    return available * min(int(pa.cpu_count()), processors) // processors


def _window_bytes() -> int:
    return max(_memory_bytes() // 4, _SMALLEST_WINDOW)


def _memory_bytes() -> int:
    """Of the machine, or of the container if that may use less."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _limit_files():
        try:
            with open(path) as file:
                memory = min(memory, int(file.read()))
        except (OSError, ValueError):  # no such hierarchy, or "max"
            continue
    return memory


def _limit_files() -> list[str]:
    """Where Linux says how much memory the process's control group may use, of both versions."""
    files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
    with open("/proc/self/cgroup") as listed:
        for line in listed:
            _, controllers, group = line.rstrip("\n").split(":", 2)
            if not controllers:
                files.append(f"/sys/fs/cgroup{group}/memory.max")
            elif "memory" in controllers.split(","):
                files.append(f"/sys/fs/cgroup/memory{group}/memory.limit_in_bytes")
    return files
