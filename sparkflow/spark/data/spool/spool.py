"""The Spark task's side: writes rows to unnamed files, which its child process maps.

A chunk is an Arrow file with one record batch, so that its columns are contiguous. The task unlinks
each file before it writes, and keeps it open: the child, which belongs to the same user, opens it
as `/proc/<task>/fd/<number>`. So a child that is started again finds all rows, and a task that is
killed, at whatever moment, leaves nothing on the disk.

On the way the columns that Spark's SQL selected become those of the `RowFormat`, by `convert`.
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

# Few and large, because a batch that is drawn at random touches every chunk; but training starts
# with the first one.
FIRST_CHUNK_BYTES: Final = 1 << 20
MAX_CHUNK_BYTES: Final = 256 << 20

_KEPT_BYTES: Final = 16 << 20

MESSAGE_COLUMN: Final = "feed_message"
"""The only column of placeholder rows that carry messages for the child, as JSON."""

Tell = Callable[[Mapping[str, Any]], object]
"""Sends a message to the child."""

CHANGED: Any = (
    "The DataFrame gives other rows each time it is evaluated: cache it (the parameter cache does) "
    "or write it to a file first"
)


class RowSpool:
    """The spooled rows of one task, kept for as long as the child process may need them.

    Used by one thread. `close` gives the disk space back.

    Args:
        row_format: What a row consists of.
        directories: Where files may be made; the first one with room is used.
        tell: Is told of each chunk once it is complete, and of the end.

    Attributes:
        refuses: Which numbers are an error, see `row_schema`; nothing where the driver has looked.
        names_files: Whether files keep their names.
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
        """About how large the first chunk is, and the largest ones."""
        return FIRST_CHUNK_BYTES, MAX_CHUNK_BYTES

    def take(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Writes what arrives from Spark, until it ends.

        Args:
            batches: See `convert`; with a column `validates` where rows validate.

        Raises:
            DataLossError: See `convert`.
            ResourceExhaustedError: The disk is full.
        """
        for batch in batches:
            self.add(batch)
        self.finish()

    def add(self, batch: pa.RecordBatch) -> None:
        """Writes one batch, or remembers it until there are more; see `take`."""
        if batch.num_rows == 0:
            return
        if MESSAGE_COLUMN in batch.schema.names:
            # What this task feeds lies somewhere else.
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
        """Says that all has come."""
        for pile in self._piles:
            pile.flush()
        self.say({"rows": self.rows, "validation_rows": self.validation_rows})

    def say(self, message: Mapping[str, Any]) -> None:
        """Sends a message to the child, and to its successors."""
        self.messages.append(message)
        self._tell(message)

    def write(self, table: pa.Table, use: str) -> None:
        """Writes rows as one chunk and tells of it."""
        table = table.combine_chunks()
        file, _ = self._write_somewhere(table)
        self._files.append(file)
        size_bytes = self._count(table, use, file)
        path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
        self.say({"chunk": path, "use": use, "rows": table.num_rows, "bytes": size_bytes})

    def close(self) -> None:
        """Frees the disk space, once no child maps the files any more. May be called twice."""
        while self._files:
            self._files.pop().close()

    def _open_piles(self) -> list[_Pile]:
        """Those of rows that train and that validate."""
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
    """Hands the rows on instead of writing them.

    Args:
        row_format: What a row consists of.
        keep: Takes record batches and their use, `train` or `validation`.
    """

    def __init__(self, row_format: RowFormat, keep: Callable[[pa.RecordBatch, str], None]) -> None:
        super().__init__(row_format, [], lambda message: None)
        self._keep = keep

    @property
    def chunk_bytes(self) -> tuple[int, int]:
        """Large batches are kept as they are; small ones are put together."""
        return _KEPT_BYTES, _KEPT_BYTES

    def write(self, table: pa.Table, use: str) -> None:
        """Hands on rows as one record batch."""
        (batch,) = table.combine_chunks().to_batches()
        if use == "validation":
            self.validation_rows += batch.num_rows
        else:
            self.rows += batch.num_rows
        self._keep(batch, use)


class _Pile:
    """Rows of one use that wait for being enough for a chunk."""

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
    """An open file with the rows as one record batch, and the path that it has or had."""
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
    """Where Spark puts its own shuffle files: large, and cleaned when the executor ends."""
    listed = environment.get("SPARK_LOCAL_DIRS", "").split(",")
    return [each for each in listed if each and os.path.isdir(each)]


def convert(batch: pa.RecordBatch, row_format: RowFormat, refuses: str = NOTHING) -> pa.RecordBatch:
    """The columns of the format, of its types, in its order; values are copied only for a cast.

    Args:
        batch: Columns of the inputs' names, and `row_number` int64. Dense inputs are scalars or
            lists of `size` elements, sparse ones structs of `indices` and `values`, ragged ones
            lists.
        row_format: What they have to be.
        refuses: Which numbers are wrong, see `row_schema`; nothing where all were looked at before.

    Raises:
        DataLossError: What no network can be trained on, although the driver saw none: the
            DataFrame changed between two of its evaluations.
        KeyError: A column is not there.
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
                f"{each.name!r}, although none did when the driver looked. {CHANGED}"
            )
        columns.append(rows.column())
    return pa.RecordBatch.from_arrays([*columns, batch.column(schema.names[-1])], schema=schema)


@functools.lru_cache(maxsize=8)
def row_schema(row_format: RowFormat, refuses: str = NOTHING) -> RowSchema:
    """How columns of the inputs' names become rows of the format; see `convert`."""
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
