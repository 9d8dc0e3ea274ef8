"""Writes a Spark partition's rows to files that all workers of a machine map (`plan.spooled`).

Runs in Spark's Python workers. The files outlive the task: the driver creates a folder for the
files of one job, opens them and unlinks their names, so nothing is left if the driver is killed
later. If the job ends early, the folder is removed with everything that tasks still write to it: by
the driver or, if that was killed, by a process that exists only for this.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sparkflow.spark.data.feed_plan import workers_of
from sparkflow.spark.data.schema.row_format import ROW_NUMBER, RowFormat
from sparkflow.spark.data.schema.row_schema import NON_FINITE
from sparkflow.spark.data.spool.spool import RowSpool, local_directories
from sparkflow_runtime.errors import DataLossError, ResourceExhaustedError
from sparkflow_runtime.resources.datasets.arrow_columns import numbers, whole

RESULT_SCHEMA: Final = "facts string"

_CHUNK_BYTES: Final = 64 << 20
# Only this fraction (1/4) of a process's descriptors is used here.
_HELD_SHARE: Final = 4
_REMOVALS: Final = 10
# Exits when it reads a line. At the end of its input, which comes when its parent process ends, it
# removes the folders, repeatedly because tasks may still create files.
_GUARD: Final = """
read -r line && exit
for each in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$@" 2>/dev/null && exit; sleep 1; done
"""


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """A file with the rows of one partition and one use.

    Attributes:
        partition: The partition's index in Spark.
        path: The Arrow file.
        use: `train` or `validation`.
        rows: The number of rows.
        bytes: The size of the file.
        workers: Number of rows per worker; row numbers start at the partition's first row.
        labels: The minimum and maximum label; None if labels are not integers.
        content: In one file of each partition, the sum of the hashes of all its rows, if any; 0 in
            the others.
        descriptor: The descriptor with which this process holds the file, see `held`; -1 if none.
    """

    partition: int
    path: str
    use: str
    rows: int
    bytes: int
    workers: tuple[int, ...]
    labels: tuple[int, int] | None
    content: int = 0
    descriptor: int = -1


@dataclass(frozen=True, slots=True)
class PartitionWriting:
    """The function that `mapInArrow` runs.

    Attributes:
        row_format: The format of the rows.
        workers: The number of workers that share the rows.
        by_content: Whether `row_number` is a hash of the content; otherwise it is the position of
            the row in its partition.
        hashes: The column of the rows' hashes, which is not written; "" if there is none.
        directories: The preferred directories, see `JobFolders`; Spark's other disks come next.
    """

    row_format: RowFormat
    workers: int
    by_content: bool
    hashes: str = ""
    directories: tuple[str, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the rows and yields the facts about each file, or the error, as JSON."""
        from pyspark import TaskContext  # here, because our own processes do not import it

        context: Any = TaskContext.get()
        places = [*self.directories, *local_directories(os.environ)]
        yield from self.write(batches, context.partitionId(), places)

    def write(
        self, batches: Iterable[pa.RecordBatch], partition: int, directories: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Writes the rows without needing a Spark task; see `__call__`."""
        spool = _PartitionSpool(self, partition, directories)
        facts: list[dict[str, Any]]
        total = _HashTotal(self.hashes)
        rest = iter(total.over(batches))
        try:
            spool.take(rest)
            facts = spool.facts
            if facts:
                facts[0]["content"] = total.value
        except (DataLossError, ResourceExhaustedError) as error:
            spool.delete()
            is_full = isinstance(error, ResourceExhaustedError)
            facts = [{"full" if is_full else "fault": error.message}]
            for _ in rest:  # Spark requires that all its rows are read
                pass
        except BaseException:
            spool.delete()
            raise
        texts = pa.array([json.dumps(each) for each in facts], pa.string())
        yield pa.RecordBatch.from_arrays([texts], ["facts"])


class _HashTotal:
    """Adds up the hashes of rows that pass by.

    Args:
        column: The column of the hashes; "" if there is none.
    """

    def __init__(self, column: str) -> None:
        self.value = 0
        self._column = column

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches and adds the hashes of each to `value`."""
        for batch in batches:
            if self._column and batch.num_rows:
                hashes = numbers(batch.column(self._column)).view(np.uint64)
                self.value = (self.value + int(hashes.sum(dtype=np.uint64))) % (1 << 64)
            yield batch


class _PartitionSpool(RowSpool):
    """A spool that checks rows and keeps its files, with facts about each."""

    refuses = NON_FINITE
    names_files = True

    def __init__(
        self, writing: PartitionWriting, partition: int, directories: Sequence[str]
    ) -> None:
        super().__init__(writing.row_format, directories, lambda message: None)
        self.facts: list[dict[str, Any]] = []
        self._writing = writing
        self._partition = partition

    @property
    def chunk_bytes(self) -> tuple[int, int]:
        """Equal sizes: nothing waits for the first chunk, and several tasks hold chunks at once."""
        return _CHUNK_BYTES, _CHUNK_BYTES

    def write(self, table: pa.Table, use: str) -> None:
        """Writes rows as one file."""
        table = table.combine_chunks()
        file, path = self._write_somewhere(table)
        with file:
            size_bytes = self._count(table, use, file)
        row_numbers = numbers(whole(table.column(ROW_NUMBER)))
        workers = workers_of(row_numbers, self._writing.workers, self._writing.by_content)
        self.facts.append(
            {
                "partition": self._partition,
                "path": path,
                "use": use,
                "rows": table.num_rows,
                "bytes": size_bytes,
                "workers": np.bincount(workers, minlength=self._writing.workers).tolist(),
                "labels": _labels(table, self._writing.row_format),
            }
        )

    def delete(self) -> None:
        """Removes what was written."""
        for each in self.facts:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(each["path"])
        self.facts = []


def read_facts(texts: Iterable[str]) -> list[PartitionFile]:
    """Returns the files of all partitions, in the order of the partitions.

    Raises:
        DataLossError: A row of some partition cannot be trained on.
        ResourceExhaustedError: A disk was full.
    """
    found = [json.loads(text) for text in texts]
    files = [
        PartitionFile(
            **{
                **each,
                "workers": tuple(each["workers"]),
                "labels": None if each["labels"] is None else tuple(each["labels"]),
            }
        )
        for each in found
        if "path" in each
    ]
    faults = [each for each in found if "path" not in each]
    if faults:
        delete(files)
        for each in faults:
            if "full" in each:
                raise ResourceExhaustedError(message=each["full"])
        raise DataLossError(message=faults[0]["fault"])
    return sorted(files, key=lambda file: file.partition)


class JobFolders:
    """Folders for the files of one job, one on each of some disks.

    They are removed when this process ends, however it ends: a shell process waits for that.

    Args:
        directories: Where the folders are created.

    Attributes:
        paths: The paths of the folders.
    """

    def __init__(self, directories: Iterable[str]) -> None:
        self.paths: tuple[str, ...] = ()
        self._guard: subprocess.Popen[bytes] | None = None
        try:
            for directory in directories:
                self.paths += (tempfile.mkdtemp(prefix="sparkflow-rows-", dir=directory),)
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "sparkflow-rows", *self.paths],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # Ctrl-C in a terminal must not reach it
            )
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Removes the folders with their content; tasks that still write to them will fail.

        May be called more than once.
        """
        for folder in self.paths:
            for _ in range(_REMOVALS):  # a task may create a file during rmtree
                shutil.rmtree(folder, ignore_errors=True)
                if not os.path.exists(folder):
                    break
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate(b"\n")


def held(files: Sequence[PartitionFile]) -> list[PartitionFile]:
    """Returns the files unlinked: this process holds them, and others open them through it.

    Files in excess of a quarter of the process's descriptor limit keep their names.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = len(files) if limit == resource.RLIM_INFINITY else limit // _HELD_SHARE
    return [*map(_held, files[:most]), *files[most:]]


def _held(file: PartitionFile) -> PartitionFile:
    try:
        descriptor = os.open(file.path, os.O_RDONLY)
    except OSError:  # too few descriptors
        return file
    os.unlink(file.path)
    return replace(file, path=f"/proc/{os.getpid()}/fd/{descriptor}", descriptor=descriptor)


def delete(files: Iterable[PartitionFile]) -> None:
    """Frees the disk space as soon as no process maps the files any more."""
    for each in files:
        if each.descriptor >= 0:
            os.close(each.descriptor)
            continue
        with contextlib.suppress(FileNotFoundError):
            os.unlink(each.path)


def _labels(table: pa.Table, row_format: RowFormat) -> tuple[int, int] | None:
    label = row_format.label
    if label is None or label.dtype != "int64" or label.shape != ():
        return None
    values = numbers(whole(table.column(label.name)))
    return int(values.min()), int(values.max())
