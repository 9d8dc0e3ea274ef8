"""Which rows belong to whom: every row once, according to Spark's hash, and through JSON."""

import json

import numpy as np
import pytest

from sparkflow.spark.data.feed_plan import (
    ARRIVAL,
    PERMUTED,
    FeedPlan,
    Shards,
    Share,
    workers_of,
    xxhash64,
)
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat

NUMBERS = np.array([0, 1, 2, 7, -5, 1 << 40, -(1 << 63)], np.int64)
FORMAT = RowFormat((Input("x", DENSE, "float32", (3,)),), None, None, named=False)


def test_hashes_are_those_of_spark() -> None:
    # SELECT xxhash64(0L), xxhash64(1L) in Spark 4.0
    assert xxhash64(np.array([0, 1], np.int64)).tolist() == [
        -5252525462095825812,
        -7001672635703045582,
    ]


@pytest.mark.parametrize("by_content", [False, True])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_each_row_has_one_worker(workers: int, by_content: bool) -> None:
    mine = [Share(each, workers, by_content).of(NUMBERS) for each in range(workers)]
    assert np.sum(mine, 0).tolist() == [1] * len(NUMBERS)
    chosen = workers_of(NUMBERS, workers, by_content)
    assert ((chosen >= 0) & (chosen < workers)).all()
    if not by_content:
        assert chosen[:4].tolist() == [0 % workers, 1 % workers, 2 % workers, 7 % workers]


def test_shards_are_dealt_to_workers() -> None:
    shards = Shards((4, 4, 4, 4, 4), workers=2, by_content=False)
    assert [list(shards.of_worker(each)) for each in range(2)] == [[0, 2, 4], [1, 3]]
    numbers = np.arange(10, dtype=np.int64)
    cut = shards.cut(1, numbers, numbers * 10)
    assert [shard for shard, _ in cut] == [1, 3]
    assert [positions.tolist() for _, positions in cut] == [[10, 60], [30, 80]]


def test_ranges_of_numbers_are_shards() -> None:
    shards = Shards((3, 4, 2), 1, False, ranges=((0, 2), (3, 0), (7, 1)))
    numbers = np.array([0, 2, 3, 6, 7, 8], np.int64)
    cut = {shard: positions.tolist() for shard, positions in shards.cut(0, numbers, numbers)}
    assert cut == {0: [3, 6], 1: [7, 8], 2: [0, 2]}


@pytest.mark.parametrize(
    "shards", [None, Shards((3, 4), 2, True), Shards((3, 4), 1, False, ((0, 1), (4, 0)))]
)
def test_json(shards: Shards | None) -> None:
    plan = FeedPlan(FORMAT, 32, 3, 10, PERMUTED, False, 7, ((1, 2), (0, 3)), shards)
    assert FeedPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_plans_of_earlier_versions_have_no_shards() -> None:
    said = FeedPlan(FORMAT, 32).to_json()
    del said["shards"]
    assert FeedPlan.from_json(said) == FeedPlan(FORMAT, 32)


def test_an_unknown_order_is_refused() -> None:
    assert FeedPlan(FORMAT, 32).order == ARRIVAL
    with pytest.raises(ValueError, match="There is no order 'sorted'"):
        FeedPlan.from_json(FeedPlan(FORMAT, 32).to_json() | {"order": "sorted"})


def test_workers_that_are_not_mentioned_begin_at_the_beginning() -> None:
    plan = FeedPlan(FORMAT, 32, start=((1, 2), (0, 3)))
    assert [plan.start_of(each) for each in range(3)] == [(1, 2), (0, 3), (0, 0)]
