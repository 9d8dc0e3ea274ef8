"""All rows of a worker that have arrived, as columns over mapped chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sparkflow.spark.feed.chunks import MappedChunks
from sparkflow.spark.feed.columns import choose, column_of
from sparkflow.spark.feed.inputs import ROW_NUMBER, RowFormat

Components = tuple[npt.NDArray[Any], ...]


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
        self._starts = np.zeros(1, np.int64)

    @property
    def count(self) -> int:
        """Rows."""
        return int(self._starts[-1])

    @property
    def size_bytes(self) -> int:
        """Of the files."""
        return self._chunks.size_bytes

    @property
    def row_bytes(self) -> float:
        """Of a row on average; 1 where there are none."""
        return self.size_bytes / self.count if self.count else 1.0

    def append(self, path: str) -> None:
        """Adds the rows of a chunk."""
        batch = self._chunks.map(path)
        for name, column in zip(self._names, self._columns, strict=True):
            column.append(batch.column(name))
        self._numbers.append(batch.column(ROW_NUMBER).to_numpy(zero_copy_only=True))
        self._starts = np.append(self._starts, self.count + batch.num_rows)

    def in_order(self) -> npt.NDArray[np.int64]:
        """The positions of the rows by their numbers."""
        if not self._numbers:
            return np.zeros(0, np.int64)
        return np.argsort(np.concatenate(self._numbers), kind="stable")

    def take(self, positions: npt.NDArray[np.int64], batch_size: int) -> list[Components]:
        """The inputs' components of the rows at these positions, in batches of `batch_size`."""
        choice = choose(positions, self._starts)
        parts = [column.take(choice, batch_size) for column in self._columns]
        self._chunks.touched(int(self.row_bytes * len(positions)))
        return [sum(batch, ()) for batch in zip(*parts, strict=True)]

    def blank(self) -> Components:
        """The inputs' components of one row of zeros, for a worker that has none."""
        return sum((column.blank() for column in self._columns), ())

    def close(self) -> None:
        """Lets go of the files."""
        self._chunks.close()
