"""The feed of a worker's process: turns messages about rows into two sources of batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparkflow.spark.data.feed.row_table import Chunk, MappedChunks, RowTable, spare_bytes
from sparkflow.spark.data.feed.source import RowSource, TrainingSource, ValidationSource
from sparkflow.spark.data.feed_plan import FeedPlan, Share
from sparkflow.spark.data.schema.row_format import EVAL_DATA, TRAIN_DATA
from sparkflow.spark.data.spool.spool import MemorySpool, RowSpool, local_directories

if TYPE_CHECKING:
    from sparkflow.spark.data.parquet.shares import ParquetShare


class WorkerFeed:
    """The rows of a worker, from the first message on. Only one thread may call `take`.

    Args:
        plan: What to feed.
        worker: The worker's index.

    Attributes:
        train: The batches of all epochs.
        validation: Batches of the validation rows, repeated forever.
        rows: Number of training rows; grows as they arrive.
        validation_rows: Number of validation rows.
        size_bytes: Total size of the files.
        is_complete: Whether all rows have arrived.
    """

    def __init__(self, plan: FeedPlan, worker: int) -> None:
        self.rows = 0
        self.validation_rows = 0
        self.size_bytes = 0
        self.is_complete = False
        self._plan = plan
        self._worker = worker
        self._spool: RowSpool | None = None
        row_format = plan.row_format
        self.train = TrainingSource(RowTable(row_format, MappedChunks()), plan, worker)
        self.validation = ValidationSource(RowTable(row_format, MappedChunks()), plan.batch_size)

    def sources(self) -> dict[str, RowSource]:
        """The sources by the names under which graphs look them up."""
        return {TRAIN_DATA: self.train, EVAL_DATA: self.validation}

    def take(self, message: Mapping[str, Any]) -> bool:
        """Handles a message from a spool and returns whether it was the last one.

        If the message names Parquet files, blocks while their rows are read.

        Raises:
            OpError, OSError: Parquet files cannot be read or contain values that cannot be trained
                on, or the disk is full.
        """
        if "chunk" in message:
            self._add(Chunk(message["chunk"]), message)
        elif "files" in message:
            for each in message["files"]:
                self._add_shared(each, message["workers"], message["by_content"])
            self._complete()
        elif "parquet" in message:
            # Importing pyarrow.compute takes a fifth of a process's start, and only files need it.
            from sparkflow.spark.data.parquet.shares import ParquetShare

            self._read_parquet(ParquetShare.from_json(message["parquet"]))
        elif not self.is_complete:
            self._complete()
        return self.is_complete

    def close(self) -> None:
        """Ends both sources."""
        self.train.close()
        self.validation.close()
        if self._spool is not None:
            self._spool.close()

    def _source(self, use: str) -> RowSource:
        return self.validation if use == "validation" else self.train

    def _add(self, chunk: Chunk, facts: Mapping[str, Any]) -> None:
        self._source(facts["use"]).add(chunk)
        self.size_bytes += facts["bytes"]
        if facts["use"] == "validation":
            self.validation_rows += facts["rows"]
        else:
            self.rows += facts["rows"]

    def _add_shared(self, file: Mapping[str, Any], workers: int, by_content: bool) -> None:
        share = Share(self._worker, workers, by_content)
        facts = {**file, "rows": file["worker_rows"][self._worker]}
        self._add(Chunk(file["path"], first_number=file["first_number"], share=share), facts)

    def _complete(self) -> None:
        self.is_complete = True
        self.train.complete()
        self.validation.complete()

    def _read_parquet(self, share: ParquetShare) -> None:
        """Keeps the rows in memory if they need at most half of this process's share of it."""
        row_format = self._plan.row_format
        if share.size_bytes <= spare_bytes() // 2:
            self._spool = MemorySpool(row_format, self._keep)
        else:
            self._spool = RowSpool(row_format, local_directories(os.environ), self._tell)
        try:
            from sparkflow.spark.data.parquet.shares import read_share

            self._spool.take(self._while_wanted(read_share(share)))
            if not self.is_complete:
                self._complete()
        except BaseException as error:
            self.train.fail(error)
            self.validation.fail(error)
            raise

    def _while_wanted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self.train.is_closed:
                return
            yield batch

    def _keep(self, batch: pa.RecordBatch, use: str) -> None:
        self._add(Chunk(batch=batch), {"use": use, "bytes": batch.nbytes, "rows": batch.num_rows})

    def _tell(self, message: Mapping[str, Any]) -> None:
        self.take(message)
