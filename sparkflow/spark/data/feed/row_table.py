"""All rows of a worker that have arrived, as columns over mapped chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkflow.spark.data.feed.chunked_columns import Choice, column_of
from sparkflow.spark.data.schema.row_format import ROW_NUMBER, RowFormat
from sparkflow.spark.data.spool.chunks import MappedChunks
from sparkflow.spark.data.spool.share import Share
from sparkflow_runtime.resources.datasets.arrow_columns import numbers

Components = tuple[npt.NDArray[Any], ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that have arrived.

    Attributes:
        path: The Arrow file with their record batch.
        batch: The record batch itself, where there is no file.
        first_number: Is added to the numbers in the file.
        share: Which of the rows are this worker's; None if all are.
    """

    path: str = ""
    batch: pa.RecordBatch | None = None
    first_number: int = 0
    share: Share | None = None


class RowTable:
    """Rows, to be gathered by their positions. For one thread at a time.

    Args:
        row_format: What a row consists of.
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
        """Of the rows, in the order in which they came."""
        return _joined(self._positions)

    @property
    def size_bytes(self) -> int:
        """Of the files."""
        return self._chunks.size_bytes

    @property
    def is_large(self) -> bool:
        """Whether the rows are large beside the memory there is."""
        return self._chunks.is_large

    @property
    def row_bytes(self) -> float:
        """Of a row on average; 1 where there are none."""
        stored = int(self._starts[-1])
        return self.size_bytes / stored if stored else 1.0

    def append(self, chunk: Chunk) -> None:
        """Adds the rows of a chunk that are this worker's."""
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
        """The positions of the rows by their numbers."""
        return self.positions[np.argsort(_joined(self._numbers), kind="stable")]

    def numbers_in_order(self) -> npt.NDArray[np.int64]:
        """The numbers of the rows, in the order of `in_order`."""
        return np.sort(_joined(self._numbers), kind="stable")

    def take(self, positions: npt.NDArray[np.int64], batch_size: int) -> list[Components]:
        """The inputs' components of the rows at these positions, in batches of `batch_size`."""
        choice = Choice(positions, self._starts)
        parts = [column.take(choice, batch_size) for column in self._columns]
        self._chunks.were_read()
        return [sum(batch, ()) for batch in zip(*parts, strict=True)]

    def blank(self) -> Components:
        """The inputs' components of one row of zeros, for a worker that has none."""
        return sum((column.blank() for column in self._columns), ())

    def close(self) -> None:
        """Lets go of the files."""
        self._chunks.close()


def _joined(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
