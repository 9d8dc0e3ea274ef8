"""The Spark task's side: writes rows to unnamed files that its child process maps.

A chunk is an Arrow file with one record batch, so that its columns are contiguous. The task unlinks
each file before it writes, and keeps it open: the child, which has the same user, opens it as
`/proc/<task>/fd/<number>`. So a restarted child finds all rows, and a task that is killed at any
time leaves nothing on the disk.

`convert` turns the columns that Spark SQL selected into those of the `RowFormat`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from sparkflow.spark.data.schema.row_format import DENSE, SPARSE, VALIDATES, Input, RowFormat
from sparkflow.spark.data.schema.row_schema import (
    ARRAY,
    FEATURES,
    NOTHING,
    PAIRS,
    SCALARS,
    WEIGHT,
    InputColumns,
    RowSchema,
)
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, ResourceExhaustedError
from sparkflow_runtime.resources.datasets.arrow_columns import as_objects

# Few large chunks, because a randomly drawn batch touches every one; but the first one is small
# because training starts with it.
FIRST_CHUNK_BYTES: Final = 1 << 20
MAX_CHUNK_BYTES: Final = 256 << 20

_KEPT_BYTES: Final = 16 << 20

MESSAGE_COLUMN: Final = "feed_message"
"""The only column of placeholder rows that carry messages for the child, as JSON."""

Tell = Callable[[Mapping[str, Any]], object]
"""Sends a message to the child."""

CHANGED: Any = (
    "The DataFrame returns different rows each time it is evaluated: cache it (the parameter cache "
    "does this) or write it to a file first"
)


class RowSpool:
    """The spooled rows of one task, kept for as long as the child process may need them.

    For one thread. `close` frees the disk space.

    Args:
        row_format: The format of the rows.
        directories: Where files may be created; the first one with enough space is used.
        tell: Called with a message for each complete chunk and one for the end.

    Attributes:
        refuses: Numbers that are an error, see `row_schema`; none if the driver has checked the
            rows.
        names_files: Whether files keep their names instead of being unlinked.
    """

    refuses = NOTHING
    names_files = False

    def __init__(self, row_format: RowFormat, directories: Sequence[str], tell: Tell) -> None:
        self.rows = 0
        self.validation_rows = 0
        self.size_bytes = 0
        self.messages: list[Mapping[str, Any]] = []
        """All messages so far, for a restarted child."""
        self._format = row_format
        self._directories = directories or [tempfile.gettempdir()]
        self._tell = tell
        self._files: list[io.FileIO] = []
        self._piles: list[_Pile] = []

    @property
    def chunk_bytes(self) -> tuple[int, int]:
        """The approximate sizes of the first chunk and of the largest ones."""
        return FIRST_CHUNK_BYTES, MAX_CHUNK_BYTES

    def take(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Writes all batches that Spark sends.

        Args:
            batches: See `convert`; with a column `validates` if there are validation rows.

        Raises:
            DataLossError: See `convert`.
            ResourceExhaustedError: The disk is full.
        """
        for batch in batches:
            self.add(batch)
        self.finish()

    def add(self, batch: pa.RecordBatch) -> None:
        """Writes one batch, or keeps it until there are more; see `take`."""
        if batch.num_rows == 0:
            return
        if MESSAGE_COLUMN in batch.schema.names:
            # The rows of this task are stored elsewhere.
            for text in as_objects(batch.column(MESSAGE_COLUMN)):
                if text:
                    self.say(json.loads(text))
            return
        train, validation = self._open_piles()
        if VALIDATES not in batch.schema.names:
            train.add(convert(batch, self._format, self.refuses))
            return
        import pyarrow.compute as pc  # here, because it takes a fifth of a process's start

        validates = batch.column(VALIDATES)
        for pile, mask in ((validation, validates), (train, pc.invert(validates))):
            chosen = batch.filter(mask)
            if chosen.num_rows:
                pile.add(convert(chosen, self._format, self.refuses))

    def finish(self) -> None:
        """Reports that the rows are complete."""
        for pile in self._piles:
            pile.flush()
        self.say({"rows": self.rows, "validation_rows": self.validation_rows})

    def say(self, message: Mapping[str, Any]) -> None:
        """Sends a message to the child and its successors."""
        self.messages.append(message)
        self._tell(message)

    def write(self, table: pa.Table, use: str) -> None:
        """Writes rows as one chunk and reports it."""
        table = table.combine_chunks()
        file, _ = self._write_somewhere(table)
        self._files.append(file)
        size_bytes = self._count(table, use, file)
        path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
        self.say({"chunk": path, "use": use, "rows": table.num_rows, "bytes": size_bytes})

    def close(self) -> None:
        """Frees the disk space as soon as no child maps the files. May be called more than once."""
        while self._files:
            self._files.pop().close()

    def _open_piles(self) -> list[_Pile]:
        """Returns the piles of training and validation rows."""
        if not self._piles:
            sizes = self.chunk_bytes
            self._piles = [_Pile(self, use, *sizes) for use in ("train", "validation")]
        return self._piles

    def _count(self, table: pa.Table, use: str, file: io.FileIO) -> int:
        """Counts the rows of a file and returns its size."""
        size_bytes = os.fstat(file.fileno()).st_size
        self.size_bytes += size_bytes
        if use == "validation":
            self.validation_rows += table.num_rows
        else:
            self.rows += table.num_rows
        return size_bytes

    def _write_somewhere(self, table: pa.Table) -> tuple[io.FileIO, str]:
        full: OSError | None = None
        for directory in self._directories:
            try:
                return _write_file(table, directory, self.names_files)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                full = error
        free = "; ".join(f"{each} has {_free_text(each)} free" for each in self._directories)
        raise ResourceExhaustedError(
            message=f"The disk is full: {table.nbytes:,} bytes are needed for the next "
            f"{table.num_rows:,} rows, after {self.size_bytes:,} bytes for "
            f"{self.rows + self.validation_rows:,} rows. {free}. Give Spark larger disks "
            "(spark.local.dir, SPARK_LOCAL_DIRS, or YARN's local directories), or more executors. "
            "Files of this task are deleted; checkpoints are not touched"
        ) from full


class MemorySpool(RowSpool):
    """Passes the rows to a function instead of writing them.

    Args:
        row_format: The format of the rows.
        keep: Called with record batches and their use, `train` or `validation`.
    """

    def __init__(self, row_format: RowFormat, keep: Callable[[pa.RecordBatch, str], None]) -> None:
        super().__init__(row_format, [], lambda message: None)
        self._keep = keep

    @property
    def chunk_bytes(self) -> tuple[int, int]:
        """The size from which batches are passed on unchanged; smaller ones are joined."""
        return _KEPT_BYTES, _KEPT_BYTES

    def write(self, table: pa.Table, use: str) -> None:
        """Passes on rows as one record batch."""
        (batch,) = table.combine_chunks().to_batches()
        if use == "validation":
            self.validation_rows += batch.num_rows
        else:
            self.rows += batch.num_rows
        self._keep(batch, use)


class _Pile:
    """Rows of one use, collected until there are enough for a chunk."""

    def __init__(self, spool: RowSpool, use: str, first_bytes: int, max_bytes: int) -> None:
        self._spool = spool
        self._use = use
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._limit = first_bytes
        self._max_bytes = max_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= self._limit:
            self.flush()
            self._limit = min(2 * self._limit, self._max_bytes)

    def flush(self) -> None:
        if self._held:
            self._spool.write(pa.Table.from_batches(self._held), self._use)
            self._held, self._held_bytes = [], 0


def _write_file(table: pa.Table, directory: str, is_named: bool) -> tuple[io.FileIO, str]:
    """Writes rows as one record batch; returns the open file and its path, perhaps unlinked."""
    descriptor, path = tempfile.mkstemp(prefix="sparkflow-rows-", dir=directory)
    file = io.FileIO(descriptor, "r+")
    try:
        if not is_named:
            os.unlink(path)
        with (
            pa.PythonFile(os.fdopen(os.dup(descriptor), "wb"), "w") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table, max_chunksize=table.num_rows)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with contextlib.suppress(OSError):
            file.close()
        raise
    return file, path


def _free_text(directory: str) -> str:
    try:
        return f"{shutil.disk_usage(directory).free:,} bytes"
    except OSError as error:
        return f"({error})"


def local_directories(environment: Mapping[str, str]) -> list[str]:
    """Returns Spark's directories for shuffle files: large, and cleaned when the executor ends."""
    listed = environment.get("SPARK_LOCAL_DIRS", "").split(",")
    return [each for each in listed if each and os.path.isdir(each)]


def convert(batch: pa.RecordBatch, row_format: RowFormat, refuses: str = NOTHING) -> pa.RecordBatch:
    """Returns the columns of the format, in its types and order; copies values only to cast them.

    Args:
        batch: Columns named after the inputs, and `row_number` int64. Dense inputs are scalars or
            lists of `size` elements, sparse ones structs of `indices` and `values`, ragged ones
            lists.
        row_format: The required format.
        refuses: Numbers that are an error, see `row_schema`; none if all rows were checked before.

    Raises:
        DataLossError: There are invalid rows although the driver found none: the DataFrame changed
            between two evaluations.
        KeyError: A column is missing.
    """
    schema = row_format.schema
    try:
        found = row_schema(row_format, refuses).decode(
            [batch.column(each.name) for each in row_format.inputs]
        )
    except InvalidArgumentError as error:
        raise DataLossError(message=f"{error.message}, although none did. {CHANGED}") from None
    columns = []
    for each, rows in zip(row_format.inputs, found, strict=True):
        if rows.invalid is not None:
            count = int(rows.invalid.sum())
            raise DataLossError(
                message=f"{count} of {rows.count} rows hold nulls, NaNs or infinities in "
                f"{each.name!r}, although none did when the driver checked. {CHANGED}"
            )
        columns.append(rows.column())
    return pa.RecordBatch.from_arrays([*columns, batch.column(schema.names[-1])], schema=schema)


@functools.lru_cache(maxsize=8)
def row_schema(row_format: RowFormat, refuses: str = NOTHING) -> RowSchema:
    """Returns the schema that converts columns named after inputs to rows; see `convert`."""
    return RowSchema(
        tuple(
            InputColumns(
                each, _form(each), (each.name,), WEIGHT if each is row_format.weight else FEATURES
            )
            for each in row_format.inputs
        ),
        refuses,
    )


def _form(wanted: Input) -> str:
    if wanted.kind == SPARSE:
        return PAIRS
    return SCALARS if wanted.kind == DENSE and wanted.shape == () else ARRAY
