"""A worker's rows: written by the Spark task as an Arrow file, mapped and fed by its child process.

The file is Arrow's IPC format with the columns `features` (a fixed-size list of float32), `label`
and `row_number`, in record batches of up to `_CHUNK_BYTES`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkflow_runtime.errors import DataLossError, OutOfRangeError

# Few and large: a batch that is drawn at random touches every chunk.
_CHUNK_BYTES = 256 << 20

Rows = tuple[npt.NDArray[np.float32], npt.NDArray[Any], npt.NDArray[np.float32]]


def write_rows(batches: Iterable[pa.RecordBatch], path: Path, dim: int) -> int:
    """Writes what arrives from Spark to an Arrow file and returns the number of rows.

    Args:
        batches: Columns `features` (list<float>), `label`, `row_number`.
        path: The new file. Not created when there are no rows.
        dim: Elements of each features list.

    Raises:
        DataLossError: A null or a list of another length, although the driver saw none: the
            DataFrame changed between two of its evaluations.
    """
    writer: Any = None
    rows = 0
    try:
        for table in _chunks(_fixed_size(batch, dim) for batch in batches):
            if writer is None:
                writer = pa.ipc.new_file(str(path), table.schema)
            # One batch per chunk: the arrays of a chunk are contiguous.
            writer.write_table(table.combine_chunks(), max_chunksize=table.num_rows)
            rows += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows


def _fixed_size(batch: pa.RecordBatch, dim: int) -> pa.RecordBatch:
    features, label, number = (batch.column(name) for name in ("features", "label", "row_number"))
    values = features.flatten()
    nulls = features.null_count + values.null_count + label.null_count
    lengths = np.diff(features.offsets.to_numpy())
    wrong = int(np.count_nonzero(lengths != dim))
    if nulls or wrong:
        raise DataLossError(
            message=f"Of {batch.num_rows} rows, {nulls} hold nulls and {wrong} have another number "
            f"of features than {dim}, although none did when the driver looked: the DataFrame "
            "gives other rows each time it is evaluated. Cache it or write it to a file first"
        )
    fixed = pa.FixedSizeListArray.from_arrays(values, dim)
    return pa.RecordBatch.from_arrays([fixed, label, number], ["features", "label", "row_number"])


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= _CHUNK_BYTES:
            yield pa.Table.from_batches(held)
            held, size_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """In which order, how often and in which portions the rows of a worker are fed.

    Attributes:
        batch_size: Rows per batch; the last one of an epoch may be shorter.
        epochs: How often each row comes.
        steps_per_epoch: Batches per epoch. A worker with fewer repeats its last one with weight 0,
            so that all workers do the same number of steps; 0 means as many as it has.
        shuffle: Whether the order changes from epoch to epoch; if not, it is that of the
            DataFrame.
        seed: Decides the orders, together with the worker's index and the epoch.
    """

    batch_size: int
    epochs: int
    steps_per_epoch: int
    shuffle: bool
    seed: int


class ArrowSource:
    """Feeds (features, labels, weight) from a file that `write_rows` wrote.

    features is [n, dim] float32, labels [n], weight the number of rows as a float32 scalar. A
    `sparkflow_runtime.resources.batch_source.BatchSource`; `_lock` guards `_batches`.

    Args:
        path: The file; None for a worker without rows. 
        plan: What to feed.
        worker: The worker's index.
    """

    def __init__(self, path: Path | None, plan: FeedPlan, worker: int) -> None:
        self._plan = plan
        self._worker = worker
        self._features: list[npt.NDArray[np.float32]] = []
        labels: list[npt.NDArray[Any]] = []
        numbers: list[npt.NDArray[np.int64]] = []
        if path is not None:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            for index in range(reader.num_record_batches):
                batch = reader.get_batch(index)
                column = batch.column("features")
                flat = column.flatten().to_numpy(zero_copy_only=True)
                self._features.append(flat.reshape(-1, column.type.list_size))
                labels.append(batch.column("label").to_numpy(zero_copy_only=True))
                numbers.append(batch.column("row_number").to_numpy(zero_copy_only=True))
        # Spark delivers rows in an order that differs from run to run; their numbers do not.
        self._labels = np.concatenate(labels) if labels else np.zeros(0, np.float32)
        self._in_order = np.argsort(np.concatenate(numbers)) if numbers else np.zeros(0, np.int64)
        self._starts = np.cumsum([0, *(len(chunk) for chunk in self._features)])
        self.rows = len(self._labels)
        self.size_bytes = sum(chunk.nbytes for chunk in self._features) + self._labels.nbytes
        self._lock = threading.Lock()
        self._batches = self._draw()

    def next_batch(self) -> Rows:
        """The next batch.

        Raises:
            OutOfRangeError: All epochs are over.
        """
        with self._lock:
            for batch in self._batches:
                return batch
        raise OutOfRangeError(message="End of the training data")

    def close(self) -> None:
        """Forgets the rows; `next_batch` then says that the data have ended."""
        with self._lock:
            self._batches = iter(())
            self._features = []

    def _draw(self) -> Iterator[Rows]:
        plan = self._plan
        size = plan.batch_size
        for epoch in range(plan.epochs if self.rows else 0):
            order = self._in_order
            if plan.shuffle:
                generator = np.random.default_rng([plan.seed, self._worker, epoch])
                order = order[generator.permutation(self.rows)]
            steps = -(-self.rows // size)
            for step in range(steps):
                batch = self._gather(order[step * size : (step + 1) * size])
                yield batch
            for _ in range(plan.steps_per_epoch - steps):
                yield batch[0], batch[1], np.zeros((), np.float32)

    def _gather(self, index: npt.NDArray[np.int64]) -> Rows:
        weight = np.array(len(index), np.float32)
        if len(self._features) == 1:
            return np.take(self._features[0], index, axis=0), self._labels[index], weight
        features = np.empty((len(index), self._features[0].shape[1]), np.float32)
        chunk_of = np.searchsorted(self._starts, index, side="right") - 1
        for number in np.unique(chunk_of):
            here = np.flatnonzero(chunk_of == number)
            features[here] = self._features[number][index[here] - self._starts[number]]
        return features, self._labels[index], weight
