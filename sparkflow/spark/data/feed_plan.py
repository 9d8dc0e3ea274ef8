"""The feed plan: which rows a worker feeds and how, as decided by the driver. No pyspark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkflow.spark.data.schema.row_format import RowFormat

ARRIVAL: Final = "arrival"
"""In the first epoch, rows are drawn at random from those that have arrived and were not used
yet."""
PERMUTED: Final = "permuted"
"""Each epoch is a permutation of the rows in the order of their numbers, drawn from the seed."""

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(each)
    for each in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_SPARK_SEED: Final = np.uint64(42)


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one worker of several.

    Attributes:
        worker: Its index.
        workers: The number of workers.
        by_content: Whether rows are assigned by a hash of their numbers, which are themselves
            hashes of their content; otherwise they are assigned round-robin by number.
    """

    worker: int
    workers: int
    by_content: bool

    def of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Returns [n] bool: which of the rows with these numbers are the worker's."""
        mine: npt.NDArray[np.bool_] = np.equal(
            workers_of(numbers, self.workers, self.by_content), self.worker
        )
        return mine


@dataclass(frozen=True, slots=True)
class Shards:
    """Rows divided into at least as many shards as there may be workers.

    A step of all workers consists of a batch of each shard, so it is the same for any number of
    workers. Worker `w` of `n` has the shards `w`, `w + n`, and so on.

    Attributes:
        rows: The number of training rows by shard.
        workers: The current number of workers.
        by_content: As in `Share`.
        ranges: If shards are ranges of row numbers instead (rows of files): the first number of
            each range, in ascending order, and its shard.
    """

    rows: tuple[int, ...]
    workers: int
    by_content: bool
    ranges: tuple[tuple[int, int], ...] = ()

    def of_worker(self, worker: int) -> range:
        """Returns the shards of a worker."""
        return range(worker, len(self.rows), self.workers)

    def cut(
        self, worker: int, numbers: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]
    ) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """Returns a worker's rows by shard.

        Args:
            worker: The worker's index.
            numbers: [n] int64: the rows' numbers.
            positions: [n] int64: the rows' positions.

        Returns:
            The shards' indices, and the positions of their rows.
        """
        shards = self._shards_of(numbers)
        return [(shard, positions[shards == shard]) for shard in self.of_worker(worker)]

    def _shards_of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        if not self.ranges:
            return workers_of(numbers, len(self.rows), self.by_content)
        firsts, shards = np.array(self.ranges, np.int64).T
        found: npt.NDArray[np.int64] = shards[np.searchsorted(firsts, numbers, side="right") - 1]
        return found

    def to_json(self) -> dict[str, Any]:
        """Returns the object as JSON types."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Shards:
        """Creates the object from the result of `to_json`."""
        ranges = tuple((first, shard) for first, shard in value["ranges"])
        return cls(tuple(value["rows"]), value["workers"], value["by_content"], ranges)


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """The order, the number of epochs and the batch size in which a worker's rows are fed.

    Attributes:
        row_format: The format of the rows.
        batch_size: Rows per batch; the last one of an epoch may be shorter.
        epochs: The number of epochs.
        steps_per_epoch: Batches per epoch. A worker with fewer goes on with batches whose number of
            rows is 0, so that all workers do the same number of steps; 0 means as many batches as
            the worker has.
        order: `arrival` or `permuted`. Either way, epochs after the first are permutations of all
            rows of the worker that do not depend on the order in which the rows arrived.
        shuffle: Whether the order changes from epoch to epoch. If not, rows are fed in the order of
            their numbers, and no batch is fed before all rows have arrived.
        seed: Determines the orders, together with the worker's index and the epoch.
        start: Where a resumed run starts: the completed epochs of each worker and the completed
            steps of the next one. Workers that are not included start at the beginning.
        shards: How rows are divided if the number of workers may change: a batch then consists of
            `batch_size` rows of each shard of the worker. Requires `permuted`.
    """

    row_format: RowFormat
    batch_size: int
    epochs: int = 1
    steps_per_epoch: int = 0
    order: str = ARRIVAL
    shuffle: bool = True
    seed: int = 0
    start: tuple[tuple[int, int], ...] = ()
    shards: Shards | None = None

    def __post_init__(self) -> None:
        """Rejects an unknown order, which only a bug can cause."""
        assert self.order in (ARRIVAL, PERMUTED), self.order

    def start_of(self, worker: int) -> tuple[int, int]:
        """Returns the worker's start: completed epochs, and completed steps of the next one."""
        return self.start[worker] if worker < len(self.start) else (0, 0)

    def to_json(self) -> dict[str, Any]:
        """Returns the object as JSON types."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        shards = self.shards.to_json() if self.shards is not None else None
        return plain | {"row_format": self.row_format.to_json(), "shards": shards}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FeedPlan:
        """Creates the object from the result of `to_json`."""
        start = tuple((epoch, step) for epoch, step in value["start"])
        row_format = RowFormat.from_json(value["row_format"])
        given = value.get("shards")
        shards = Shards.from_json(given) if given is not None else None
        if value["order"] not in (ARRIVAL, PERMUTED):
            raise ValueError(f"There is no order {value['order']!r}")
        return cls(**{**value, "row_format": row_format, "start": start, "shards": shards})


def workers_of(numbers: npt.NDArray[np.int64], workers: int, by_content: bool) -> npt.NDArray[Any]:
    """Returns [n] int64: the worker of each row; `partitioning` does the same in SQL."""
    return (xxhash64(numbers) if by_content else numbers) % workers


def xxhash64(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Computes Spark's `xxhash64` of a bigint column."""
    with np.errstate(over="ignore"):
        h = np.full(len(values), _SPARK_SEED + _P5 + np.uint64(8))
        h ^= _rotated(values.view(np.uint64) * _P2, 31) * _P1
        h = _rotated(h, 27) * _P1 + _P4
        h = (h ^ h >> np.uint64(33)) * _P2
        h = (h ^ h >> np.uint64(29)) * _P3
        h ^= h >> np.uint64(32)
    return h.view(np.int64)


def _rotated(values: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.uint64]:
    return values << np.uint64(bits) | values >> np.uint64(64 - bits)
