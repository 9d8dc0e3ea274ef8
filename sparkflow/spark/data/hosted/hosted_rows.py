"""The rows of a process as datasets of batches, which graphs look up by a description.

The description is JSON, see `HostedSource`: dataset, worker, order and batch size of the rows, and
their files if these are known in advance. Batches are drawn as in training.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sparkflow.spark.data.feed.row_table import Chunk, MappedChunks, RowTable
from sparkflow.spark.data.feed.source import TrainingSource
from sparkflow.spark.data.feed_plan import PERMUTED, FeedPlan, Share
from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError, OutOfRangeError
from sparkflow_runtime.resources.datasets.dataset import Dataset, Element, ElementIterator

FOR_EVER: Final = 1 << 40
"""A number of epochs that is never reached."""


@dataclass(frozen=True, slots=True)
class HostedSource:
    """A graph's description of rows.

    Attributes:
        dataset: The dataset's name.
        worker: The worker whose rows they are.
        plan: The order and the batches of the rows.
        files: The files with all rows of the dataset, as described by `spooled`; None if the
            worker's process knows them.
    """

    dataset: str
    worker: int
    plan: FeedPlan
    files: Mapping[str, Any] | None = None

    def to_text(self) -> str:
        """Returns the description that is stored in a graph."""
        return json.dumps(
            {
                "dataset": self.dataset,
                "worker": self.worker,
                "plan": self.plan.to_json(),
                "files": self.files,
            },
            sort_keys=True,
        )

    @classmethod
    def from_text(cls, text: str) -> HostedSource:
        """Creates the object from the result of `to_text`.

        Raises:
            InvalidArgumentError: The text is not such a description.
        """
        try:
            value = json.loads(text)
            plan = FeedPlan.from_json(value["plan"])
            return cls(value["dataset"], value["worker"], plan, value["files"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidArgumentError(
                message=f"{text[:80]!r} does not describe rows of a DataFrame: {error}"
            ) from error


class HostedRows:
    """The rows that a worker's process hosts. Thread-safe; `_lock` guards the fields.

    Args:
        worker: The worker's index.
    """

    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._chunks: dict[str, list[Chunk]] = {}
        self._passes: dict[str, int] = {}

    def take(self, message: Mapping[str, Any]) -> None:
        """Handles a message from `DatasetSpool` about a dataset."""
        with self._lock:
            chunks = self._chunks.setdefault(message["dataset"], [])
            if "chunk" in message:
                chunks.append(Chunk(message["chunk"]))

    def find(self, text: str) -> Dataset:
        """Returns the dataset that a graph requests, which may be iterated repeatedly.

        Each pass continues with the epochs after those of the previous one, whose orders differ.

        Raises:
            NotFoundError: This process does not have the rows.
            InvalidArgumentError: The text is not a description of rows.
        """
        source = HostedSource.from_text(text)
        if source.worker != self._worker:
            raise NotFoundError(
                message=f"These rows belong to worker {source.worker}, but this is worker "
                f"{self._worker}: build the dataset and its iterator under "
                f"tf.device('/job:worker/task:{source.worker}')"
            )
        chunks = self._chunks_of(source)

        def iterate() -> ElementIterator:
            with self._lock:
                number = self._passes.get(text, 0)
                self._passes[text] = number + 1
            return _Batches(_training_source(source, chunks, number), source.dataset)

        return Dataset(iterate)

    def _chunks_of(self, source: HostedSource) -> Sequence[Chunk]:
        files = source.files
        if files is not None:
            share = Share(source.worker, files["workers"], files["by_content"])
            return [
                Chunk(each["path"], first_number=each["first_number"], share=share)
                for each in files["files"]
            ]
        with self._lock:
            chunks = self._chunks.get(source.dataset)
        if chunks is None:
            raise NotFoundError(
                message=f"The rows of {source.dataset} are not in this process: they arrive when "
                "the cluster starts, or with the arguments of SparkCluster.run"
            )
        return chunks


def _training_source(source: HostedSource, chunks: Sequence[Chunk], number: int) -> TrainingSource:
    plan, worker = source.plan, source.worker
    before = number * plan.epochs if plan.epochs < FOR_EVER else number
    plan = replace(
        plan, order=PERMUTED, epochs=before + plan.epochs, start=((before, 0),) * (worker + 1)
    )
    table = RowTable(plan.row_format, MappedChunks())
    made = TrainingSource(table, plan, worker)
    try:
        for chunk in chunks:
            made.add(chunk)
    finally:
        made.complete()
    return made


class _Batches(ElementIterator):
    """The components of a source's batches, without the time waited and the number of rows."""

    def __init__(self, source: TrainingSource, name: str) -> None:
        self._source = source
        self._name = name

    def next(self, step: Any) -> Element | None:
        try:
            *components, _, _ = self._source.next_batch()
        except OutOfRangeError:
            return None
        except FileNotFoundError as error:
            raise NotFoundError(
                message=f"The rows of {self._name} are gone: the dataset or its cluster was closed "
                f"({error})"
            ) from error
        return tuple(components)

    def close(self) -> None:
        self._source.close()
