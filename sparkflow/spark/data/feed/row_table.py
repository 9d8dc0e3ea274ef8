"""All rows of a worker that have arrived, as columns over Arrow files mapped into memory.

A mapped page belongs to the page cache: the kernel can evict it and read it again, so the rows may
be many times larger than memory. But a page counts as resident while it is mapped, and a cluster
manager that limits resident memory (such as YARN) would kill the process. `MappedChunks` therefore
releases pages itself if the rows are large relative to memory.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkflow.spark.data.feed.chunked_columns import Choice, column_of
from sparkflow.spark.data.feed_plan import Share
from sparkflow.spark.data.schema.row_format import ROW_NUMBER, RowFormat
from sparkflow_runtime.resources.datasets.arrow_columns import numbers

Components = tuple[npt.NDArray[Any], ...]

_SMALLEST_WINDOW: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of rows that have arrived.

    Attributes:
        path: The Arrow file with the record batch.
        batch: The record batch itself if there is no file.
        first_number: Offset added to the row numbers in the file.
        share: The rows that belong to this worker; None if all do.
    """

    path: str = ""
    batch: pa.RecordBatch | None = None
    first_number: int = 0
    share: Share | None = None


class RowTable:
    """The rows of a worker, gathered by position. For one thread at a time.

    Args:
        row_format: The format of the rows.
        chunks: Maps the files.
    """

    def __init__(self, row_format: RowFormat, chunks: MappedChunks) -> None:
        self._chunks = chunks
        self._names = [each.name for each in row_format.inputs]
        self._columns = [column_of(each) for each in row_format.inputs]
        self._numbers: list[npt.NDArray[np.int64]] = []
        self._positions: list[npt.NDArray[np.int64]] = []
        self._starts = np.zeros(1, np.int64)
        self.count = 0

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """The positions of the rows in order of arrival."""
        return _joined(self._positions)

    @property
    def size_bytes(self) -> int:
        """The total size of the files."""
        return self._chunks.size_bytes

    @property
    def is_large(self) -> bool:
        """Whether the rows are large relative to memory."""
        return self._chunks.is_large

    @property
    def row_bytes(self) -> float:
        """The average size of a row; 1 if there are no rows."""
        stored = int(self._starts[-1])
        return self.size_bytes / stored if stored else 1.0

    def append(self, chunk: Chunk) -> None:
        """Adds this worker's rows of a chunk."""
        batch = chunk.batch if chunk.batch is not None else self._chunks.map(chunk.path)
        for name, column in zip(self._names, self._columns, strict=True):
            column.append(batch.column(name))
        row_numbers = numbers(batch.column(ROW_NUMBER)) + chunk.first_number
        first = self._starts[-1]
        positions = np.arange(first, first + batch.num_rows)
        if chunk.share is not None:
            mine = chunk.share.of(row_numbers)
            row_numbers, positions = row_numbers[mine], positions[mine]
        self._numbers.append(row_numbers)
        self._positions.append(positions)
        self._starts = np.append(self._starts, first + batch.num_rows)
        self.count += len(positions)

    def in_order(self) -> npt.NDArray[np.int64]:
        """The positions of the rows in the order of their numbers."""
        return self.positions[np.argsort(_joined(self._numbers), kind="stable")]

    def numbers_in_order(self) -> npt.NDArray[np.int64]:
        """The row numbers in ascending order, matching `in_order`."""
        return np.sort(_joined(self._numbers), kind="stable")

    def take(self, positions: npt.NDArray[np.int64], batch_size: int) -> list[Components]:
        """Returns the inputs' components for these positions, in batches of `batch_size`."""
        choice = Choice(positions, self._starts)
        parts = [column.take(choice, batch_size) for column in self._columns]
        self._chunks.were_read()
        return [sum(batch, ()) for batch in zip(*parts, strict=True)]

    def blank(self) -> Components:
        """Returns the inputs' components of one row of zeros, for a worker without rows."""
        return sum((column.blank() for column in self._columns), ())

    def close(self) -> None:
        """Releases the rows and files; batches that were drawn stay valid."""
        self._columns = []
        self._chunks.close()


def _joined(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


class MappedChunks:
    """Record batches mapped from files. For one thread at a time.

    Args:
        memory_bytes: The resident memory that rows may use before pages are released; None for a
            quarter of the machine's or container's memory.
    """

    def __init__(self, memory_bytes: int | None = None) -> None:
        self.size_bytes = 0
        self._maps: list[mmap.mmap] = []
        self._window = memory_bytes if memory_bytes is not None else _window_bytes()
        self._before = _mapped_bytes()

    def map(self, path: str) -> pa.RecordBatch:
        """Maps the only record batch of an Arrow file, without reading it."""
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
        """Whether pages have to be released periodically."""
        return self.size_bytes > self._window

    def were_read(self) -> None:
        """Notes that rows were read; releases all pages if many are resident."""
        if self.is_large and _mapped_bytes() - self._before > self._window:
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Releases the files; arrays that still refer to them stay valid."""
        self._maps = []


def _mapped_bytes() -> int:
    """Returns the resident bytes of mapped files, including libraries.

    This has to be measured: reading one row makes up to a megabyte of neighbouring data resident if
    it is in the page cache.
    """
    with open("/proc/self/statm") as file:
        return int(file.read().split()[2]) * mmap.PAGESIZE


def spare_bytes() -> int:
    """Returns this process's share of the free memory, in proportion to its share of the CPUs."""
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
    """Returns the memory of the machine, or of the container if that is less."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _limit_files():
        try:
            with open(path) as file:
                memory = min(memory, int(file.read()))
        except (OSError, ValueError):  # no such hierarchy, or no limit ("max")
            continue
    return memory


def _limit_files() -> list[str]:
    """Returns the files with the memory limits of the process's control groups, v1 and v2."""
    files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
    with open("/proc/self/cgroup") as listed:
        for line in listed:
            _, controllers, group = line.rstrip("\n").split(":", 2)
            if not controllers:
                files.append(f"/sys/fs/cgroup{group}/memory.max")
            elif "memory" in controllers.split(","):
                files.append(f"/sys/fs/cgroup/memory{group}/memory.limit_in_bytes")
    return files
