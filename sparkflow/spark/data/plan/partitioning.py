"""Distribution of rows to tasks: equal shares for the workers, none for parameter servers.

Rows are either dealt to the workers round-robin, by their numbers in the order of the DataFrame, or
assigned by a hash of their content. The sizes of dealt shares differ by at most one row, but which
worker gets a row, and in which order, depends on how the DataFrame is partitioned. Hashed shares
differ a little in size, but depend only on the content of the rows and the seed, as reproducible
training requires. Neither needs a sort or a second exchange.

Dealing needs no pass: the number of a row is its position in its partition plus the number of rows
in the preceding partitions, which `prepare` has counted. Otherwise one pass over the prepared rows,
which are usually cached, counts the rows of each worker.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column, DataFrame, functions as F

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.feed_plan import Shards
from sparkflow.spark.data.plan.prepare import PreparedRows
from sparkflow.spark.data.plan.profile import aggregated, content_hash
from sparkflow.spark.data.schema.row_format import ROW_NUMBER, VALIDATES

_log = logging.getLogger(__name__)

WORKER: Final = "worker_index"
"""The bigint column with the worker that a row is assigned to."""
_TASK: Final = "task_index"

# monotonically_increasing_id() is the partition times 2**33 plus the position in the partition.
_PLACE_MASK: Final = (1 << 33) - 1

# Maximum number of workers whose rows are counted in one pass.
_MOST_COUNTED: Final = 32

# Maximum excess of the largest hashed share over the mean.
_MOST_SKEW: Final = 0.05
_MOST_SKEW_ROWS: Final = 100


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows in one partition per task of the job.

    Attributes:
        df: The prepared rows and the bigint `row_number`: each worker's rows are fed in this order
            or in permutations of it.
        worker_rows: Number of training rows per worker.
        validation_rows: Number of validation rows per worker.
        shards: How the rows are divided if the number of workers may change; otherwise None.
    """

    df: DataFrame
    worker_rows: list[int]
    validation_rows: list[int]
    shards: Shards | None = None


def place_rows(
    prepared: PreparedRows,
    layout: ClusterLayout,
    seed: int,
    by_content: bool,
    num_shards: int = 0,
) -> PlacedRows:
    """Numbers the rows and assigns each to a partition.

    Blocks for one Spark job if `by_content` is true or there are validation rows.

    Args:
        prepared: The rows; their partitioning must not change until the job has run.
        layout: The tasks.
        seed: With `by_content`, determines the order and the shares together with the content.
        by_content: Whether share and number of a row depend on its content instead of its position.
            If many equal rows would make one share far larger than the others, rows are dealt by
            number nevertheless, with a warning.
        num_shards: Number of shards to divide the rows into, whatever the number of workers; shards
            are assigned to workers round-robin. 0 for one share per worker.
    """
    if num_shards:
        return _place_shards(prepared, layout, seed, by_content, num_shards)
    if by_content:
        hashed = _hashed(prepared, layout, seed)
        shares = _count(hashed, prepared, layout)
        if is_even(shares[0]):
            return _placed(hashed, layout, shares)
        _log.warning(
            "Many rows are equal: if assigned by content, one worker would train on %d of %d rows. "
            "They are assigned by their position in the DataFrame instead, so training is "
            "reproducible only as long as the DataFrame's partitions do not change",
            max(shares[0]),
            sum(shares[0]),
        )
    dealt = deal_rows(prepared, layout)
    if VALIDATES in prepared.rows.columns:
        return _placed(dealt, layout, _count(dealt, prepared, layout))
    rows = layout.worker_rows(sum(prepared.partition_rows.values()))
    return _placed(dealt, layout, (rows, [0] * layout.num_workers))


def _place_shards(
    prepared: PreparedRows, layout: ClusterLayout, seed: int, by_content: bool, num_shards: int
) -> PlacedRows:
    """Places rows as if each shard were a worker, with several shards on each worker."""
    cut = ClusterLayout(0, num_shards)
    assigned = _hashed(prepared, cut, seed) if by_content else deal_rows(prepared, cut)
    train, validation = _count(assigned, prepared, cut)
    if by_content and not is_even(train):
        by_content = False
        assigned = deal_rows(prepared, cut)
        train, validation = _count(assigned, prepared, cut)
    workers = layout.num_workers
    shares = tuple(
        [sum(each[worker::workers]) for worker in range(workers)] for each in (train, validation)
    )
    worker = F.pmod(F.col(WORKER), F.lit(workers))
    placed = _placed(assigned.withColumn(WORKER, worker), layout, (shares[0], shares[1]))
    return replace(placed, shards=Shards(tuple(train), workers, by_content))


def deal_rows(prepared: PreparedRows, layout: ClusterLayout) -> DataFrame:
    """Returns the rows with their numbers and, for `to_tasks`, the workers they are dealt to."""
    numbered = prepared.rows.withColumn(ROW_NUMBER, _row_number(prepared.partition_rows))
    return numbered.withColumn(WORKER, F.pmod(F.col(ROW_NUMBER), F.lit(layout.num_workers)))


def _hashed(prepared: PreparedRows, layout: ClusterLayout, seed: int) -> DataFrame:
    numbered = prepared.rows.withColumn(ROW_NUMBER, content_hash(prepared.rows, seed))
    # Hashed again so that the numbers of a worker's rows are as random as those of all rows.
    worker = F.pmod(F.xxhash64(F.col(ROW_NUMBER)), F.lit(layout.num_workers))
    return numbered.withColumn(WORKER, worker)


def _count(
    assigned: DataFrame, prepared: PreparedRows, layout: ClusterLayout
) -> tuple[list[int], list[int]]:
    """Returns the numbers of training and validation rows by worker."""
    has_validation = VALIDATES in prepared.rows.columns
    validates = F.col(VALIDATES) if has_validation else F.lit(False)
    workers = range(layout.num_workers)
    if layout.num_workers <= _MOST_COUNTED:
        flags = {"train": ~validates, "validation": validates}
        of_worker = {each: F.col(WORKER) == each for each in workers}
        counts = {
            use: F.array(*(F.count_if(of_worker[each] & flag) for each in workers))
            for use, flag in flags.items()
        }
        observed = aggregated(assigned, counts)
        return list(observed["train"]), list(observed["validation"])
    found = assigned.groupBy(F.col(WORKER), validates.alias(VALIDATES)).count().collect()
    train, validation = ([0] * layout.num_workers for _ in range(2))
    for row in found:
        (validation if row[VALIDATES] else train)[row[WORKER]] = row["count"]
    return train, validation


def place_in_partition() -> Column:
    """Returns the number of preceding rows in the partition, a bigint."""
    return F.monotonically_increasing_id().bitwiseAND(F.lit(_PLACE_MASK))


def is_even(shares: list[int]) -> bool:
    """Whether the largest share is close enough to the mean."""
    mean = sum(shares) / len(shares)
    return max(shares) <= mean * (1 + _MOST_SKEW) + _MOST_SKEW_ROWS


def _placed(
    assigned: DataFrame, layout: ClusterLayout, shares: tuple[list[int], list[int]]
) -> PlacedRows:
    return PlacedRows(to_tasks(assigned, layout), *shares)


def to_tasks(assigned: DataFrame, layout: ClusterLayout) -> DataFrame:
    """Moves rows to one partition per task of the job by the column `WORKER`, which is dropped."""
    target = (F.col(WORKER) + layout.first_worker).cast("int")
    return _exchanged(assigned.withColumn(_TASK, target), layout.num_partitions).drop(WORKER)


def without_messengers(placed: DataFrame, layout: ClusterLayout) -> DataFrame:
    """Moves placed rows to a layout without its messenger tasks, with an additional exchange."""
    count = layout.num_partitions - layout.messengers
    with_task = placed.withColumn(_TASK, F.spark_partition_id() - layout.messengers)
    return _exchanged(with_task.where(F.col(_TASK) >= 0), count)


def _exchanged(rows: DataFrame, count: int) -> DataFrame:
    """Moves rows to one of `count` partitions by their column `_TASK`, which is dropped."""
    if hasattr(rows, "repartitionById"):  # Spark 4.1
        return rows.repartitionById(count, F.col(_TASK)).drop(_TASK)
    key = F.element_at(F.lit(hash_keys(count)), F.col(_TASK) + 1)
    return rows.withColumn(_TASK, key).repartition(count, F.col(_TASK)).drop(_TASK)


def _row_number(partition_rows: Mapping[int, int]) -> Column:
    before = 0
    offsets = []
    for partition in range(max(partition_rows, default=-1) + 1):
        offsets.append(before)
        before += partition_rows.get(partition, 0)
    first = F.element_at(F.lit(offsets).cast("array<bigint>"), F.spark_partition_id() + 1)
    return first + place_in_partition()


def hash_keys(num_partitions: int) -> list[int]:
    """Returns for each partition an int that Spark's hash partitioning maps to it.

    Spark before 4.1 has no other way to choose the partition of a row.
    """
    keys: dict[int, int] = {}
    candidate = 0
    while len(keys) < num_partitions:
        keys.setdefault(_spark_hash(candidate) % num_partitions, candidate)
        candidate += 1
    return [keys[partition] for partition in range(num_partitions)]


def _spark_hash(value: int) -> int:
    """Spark's `hash(int)`: Murmur3_x86_32 of 4 bytes with seed 42, as a signed number."""
    mask = 0xFFFFFFFF
    k = value * 0xCC9E2D51 & mask
    k = (k << 15 | k >> 17) & mask
    h = 42 ^ k * 0x1B873593 & mask
    h = (h << 13 | h >> 19) & mask
    h = (h * 5 + 0xE6546B64) & mask
    h ^= 4  # the length in bytes
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
