"""What a worker's process does with the messages about its rows: two sources of batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkflow.spark.feed.chunks import MappedChunks
from sparkflow.spark.feed.plan import FeedPlan
from sparkflow.spark.feed.source import TrainingSource, ValidationSource
from sparkflow.spark.feed.table import RowTable


class WorkerFeed:
    """The rows of a worker, from the first message on.

    Args:
        plan: What to feed.
        worker: The worker's index.

    Attributes:
        train: The batches of all epochs.
        validation: The validation rows, again and again.
        rows: How many rows train; grows while they arrive.
        validation_rows: How many rows validate.
        is_complete: Whether all have arrived.
    """

    def __init__(self, plan: FeedPlan, worker: int) -> None:
        self.rows = 0
        self.validation_rows = 0
        self.size_bytes = 0
        self.is_complete = False
        row_format = plan.row_format
        self.train = TrainingSource(RowTable(row_format, MappedChunks()), plan, worker)
        self.validation = ValidationSource(RowTable(row_format, MappedChunks()), plan.batch_size)

    def take(self, message: Mapping[str, Any]) -> bool:
        """Takes a message of `spool.RowSpool` and returns whether it was the last one."""
        if "chunk" in message:
            source = self.validation if message["use"] == "validation" else self.train
            source.add(message["chunk"])
            self.size_bytes += message["bytes"]
            if message["use"] == "validation":
                self.validation_rows += message["rows"]
            else:
                self.rows += message["rows"]
            return False
        self.is_complete = True
        self.train.complete()
        self.validation.complete()
        return True

    def close(self) -> None:
        """Ends both sources."""
        self.train.close()
        self.validation.close()
