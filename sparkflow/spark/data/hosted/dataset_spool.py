"""The spool for the rows of several datasets, each with its own format, in one Spark task."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sparkflow.spark.data.schema.row_format import ROW_NUMBER, RowFormat
from sparkflow.spark.data.spool.spool import CHANGED, RowSpool, Tell
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.resources.datasets.arrow_columns import numbers

DATASET_COLUMN: Final = "dataset_index"
"""The int32 column with the index of a row's dataset; null in placeholder rows."""


def column_of_dataset(index: int, name: str) -> str:
    """Returns the name of a dataset's column among the columns of all datasets."""
    return f"{index}/{name}"


@dataclass(frozen=True, slots=True)
class TravellingDataset:
    """A dataset whose rows are sent to the tasks of a job.

    Attributes:
        name: The dataset's unique name.
        row_format: The format of the rows.
        worker_rows: Number of rows per worker.
    """

    name: str
    row_format: RowFormat
    worker_rows: tuple[int, ...]


class DatasetSpool:
    """One `RowSpool` per dataset; the field `dataset` of each message names the dataset.

    Args:
        datasets: The datasets in the order of their indices.
        worker: The worker's index; None in a task that gets no rows.
        directories: Where files may be created.
        tell: Called with a message for each chunk and one for the end.

    Attributes:
        rows: Number of rows of all datasets.
    """

    def __init__(
        self,
        datasets: Sequence[TravellingDataset],
        worker: int | None,
        directories: Sequence[str],
        tell: Tell,
    ) -> None:
        self._datasets = datasets
        self._worker = worker
        self._tell = tell
        self._names = [
            [column_of_dataset(index, each) for each in dataset.row_format.schema.names]
            for index, dataset in enumerate(datasets)
        ]
        self._spools = [
            RowSpool(each.row_format, directories, self._teller(each.name)) for each in datasets
        ]

    @property
    def rows(self) -> int:
        """See the class."""
        return sum(each.rows for each in self._spools)

    def take(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Writes all batches that Spark sends; see `RowSpool.take`.

        Raises:
            DataLossError: The rows, or their number, differ from what the driver saw.
            ResourceExhaustedError: The disk is full.
        """
        for batch in batches:
            if batch.num_rows and DATASET_COLUMN in batch.schema.names:
                for index, part in _by_dataset(batch):
                    self._spools[index].add(self._columns(index, part))
        for dataset, spool in zip(self._datasets, self._spools, strict=True):
            spool.finish()
            wanted = 0 if self._worker is None else dataset.worker_rows[self._worker]
            if spool.rows != wanted:
                raise DataLossError(
                    message=f"{spool.rows} rows of {dataset.name} arrived, {wanted} were counted. "
                    f"{CHANGED}"
                )
        self._tell({"rows": 0, "validation_rows": 0})

    def close(self) -> None:
        """Frees the disk space. May be called more than once."""
        for spool in self._spools:
            spool.close()

    def _columns(self, index: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = self._datasets[index].row_format.schema.names
        assert names[-1] == ROW_NUMBER
        columns = [batch.column(name) for name in self._names[index]]
        return pa.RecordBatch.from_arrays(columns, names)

    def _teller(self, name: str) -> Tell:
        def tell(message: Mapping[str, Any]) -> None:
            self._tell({**message, "dataset": name})

        return tell


def _by_dataset(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the batch's slices of one dataset each: rows of a dataset arrive in runs."""
    column = batch.column(DATASET_COLUMN)
    if column.null_count:
        batch = batch.filter(column.is_valid())
        column = batch.column(DATASET_COLUMN)
    if not batch.num_rows:
        return
    indices = numbers(column)
    starts = [0, *(np.flatnonzero(np.diff(indices)) + 1).tolist(), len(indices)]
    for first, stop in itertools.pairwise(starts):
        yield int(indices[first]), batch.slice(first, stop - first)
