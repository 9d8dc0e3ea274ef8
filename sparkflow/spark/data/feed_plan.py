"""How a worker feeds its rows: what the driver decides and the worker's process carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from sparkflow.spark.data.schema.row_format import RowFormat
from sparkflow.spark.data.spool.share import Shards

ARRIVAL: Final = "arrival"
"""The first epoch is drawn at random from the rows that have arrived and were not used yet."""
PERMUTED: Final = "permuted"
"""Each epoch is a permutation of the rows in the order of their numbers, drawn from the seed."""


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """In which order, how often and in which portions the rows of a worker are fed.

    Attributes:
        row_format: What a row consists of.
        batch_size: Rows per batch; the last one of an epoch may be shorter.
        epochs: How often each row comes.
        steps_per_epoch: Batches per epoch. A worker with fewer repeats its last one with 0 as its
            number of rows, so that all workers do the same number of steps; 0 means as many as it
            has.
        order: `arrival` or `permuted`. Either way, epochs after the first are permutations of all
            rows of the worker that do not depend on the order in which the rows arrived.
        shuffle: Whether the order changes from epoch to epoch; if not, it is that of the rows'
            numbers in each, and no batch is fed before all rows are there.
        seed: Decides the orders, together with the worker's index and the epoch.
        start: Where a resumed run begins: per worker the epochs that are over and the steps of the
            next one. Workers that are not mentioned begin at the beginning.
        shards: Where the number of workers may change, how the rows are cut: a batch is then one of
            each shard of the worker, and `batch_size` rows per shard. Needs `permuted`.
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
        """Refuses an order that is not known, which only a mistake of ours can bring."""
        assert self.order in (ARRIVAL, PERMUTED), self.order

    def start_of(self, worker: int) -> tuple[int, int]:
        """Epochs that are over and steps of the next one, where the worker begins."""
        return self.start[worker] if worker < len(self.start) else (0, 0)

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        shards = self.shards.to_json() if self.shards is not None else None
        return plain | {"row_format": self.row_format.to_json(), "shards": shards}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FeedPlan:
        """Reads what `to_json` wrote."""
        start = tuple((epoch, step) for epoch, step in value["start"])
        row_format = RowFormat.from_json(value["row_format"])
        given = value.get("shards")
        shards = Shards.from_json(given) if given is not None else None
        return cls(**{**value, "row_format": row_format, "start": start, "shards": shards})
