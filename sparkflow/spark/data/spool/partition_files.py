"""Writes a Spark partition's rows to files that all workers of a machine map (`plan.spooled`).

Runs in Spark's Python workers. The files outlive the task: the driver makes a folder for those of
one job, holds them open and takes their names away. So nothing of them is left when the driver is
killed later, and when the job ends in its middle the folder goes with what tasks still write there:
removed by the driver or, when that was killed, by a process that waits for nothing else.
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
# The rest of the descriptors that a process may have is for others.
_HELD_SHARE: Final = 4
_REMOVALS: Final = 10
# Ends at a line; at the end of its input, which is that of the process that has started it, it
# removes the folders, again where a task makes a file meanwhile.
_GUARD: Final = """
read -r line && exit
for each in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$@" 2>/dev/null && exit; sleep 1; done
"""


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """Rows of one partition and one use.

    Attributes:
        partition: Spark's number of the partition.
        path: The Arrow file.
        use: `train` or `validation`.
        rows: How many.
        bytes: Of the file.
        workers: By worker its rows; with numbers that count from the partition's first row.
        labels: The least and the greatest label; None where labels are no integers.
        content: In one file of each partition the sum of the hashes of all its rows, where there
            are such; 0 in the others.
        descriptor: By which this process holds the file, see `held`; -1 if it does not.
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
        row_format: What a row consists of.
        workers: How many workers share the rows.
        by_content: Whether `row_number` is a hash of the content; else it is the place of the row
            in its partition.
        hashes: The column of the rows' hashes, which is not written; "" where there is none.
        directories: Where files are made first, see `JobFolders`; Spark's other disks come next.
    """

    row_format: RowFormat
    workers: int
    by_content: bool
    hashes: str = ""
    directories: tuple[str, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the rows; gives the facts of each file, or what was wrong, as JSON."""
        from pyspark import TaskContext  # here, because no process of ours imports it

        context: Any = TaskContext.get()
        places = [*self.directories, *local_directories(os.environ)]
        yield from self.write(batches, context.partitionId(), places)

    def write(
        self, batches: Iterable[pa.RecordBatch], partition: int, directories: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The same, wherever it runs."""
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
            for _ in rest:  # Spark wants all it sends to be read
                pass
        except BaseException:
            spool.delete()
            raise
        texts = pa.array([json.dumps(each) for each in facts], pa.string())
        yield pa.RecordBatch.from_arrays([texts], ["facts"])


class _HashTotal:
    """Adds up the hashes of rows that pass by.

    Args:
        column: Where they are; "" for nothing to add up.
    """

    def __init__(self, column: str) -> None:
        self.value = 0
        self._column = column

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches; `value` is of those that were drawn."""
        for batch in batches:
            if self._column and batch.num_rows:
                hashes = numbers(batch.column(self._column)).view(np.uint64)
                self.value = (self.value + int(hashes.sum(dtype=np.uint64))) % (1 << 64)
            yield batch


class _PartitionSpool(RowSpool):
    """Files that stay, and what is in them; nobody has looked at the rows before."""

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
        """Nothing waits for the first chunk, and several tasks of a machine hold chunks at once."""
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
    """The files of all partitions, in the order of the partitions.

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

    They go with this process, however it ends: a shell waits for that as long as they are there.

    Args:
        directories: Where they are made.

    Attributes:
        paths: Of the folders.
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
                start_new_session=True,  # Ctrl-C in a terminal is for this process
            )
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Removes them with what is there. Tasks that still write find no place to.

        May be called again.
        """
        for folder in self.paths:
            for _ in range(_REMOVALS):  # a task may make a file between two calls of the first
                shutil.rmtree(folder, ignore_errors=True)
                if not os.path.exists(folder):
                    break
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate(b"\n")


def held(files: Sequence[PartitionFile]) -> list[PartitionFile]:
    """The same files without names: this process holds them, and others open them through it.

    More of them than a quarter of the descriptors that it may have keep their names.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = len(files) if limit == resource.RLIM_INFINITY else limit // _HELD_SHARE
    return [*map(_held, files[:most]), *files[most:]]


def _held(file: PartitionFile) -> PartitionFile:
    try:
        descriptor = os.open(file.path, os.O_RDONLY)
    except OSError:  # there are too few descriptors
        return file
    os.unlink(file.path)
    return replace(file, path=f"/proc/{os.getpid()}/fd/{descriptor}", descriptor=descriptor)


def delete(files: Iterable[PartitionFile]) -> None:
    """Gives the disk space back, once nobody maps the files any more."""
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
