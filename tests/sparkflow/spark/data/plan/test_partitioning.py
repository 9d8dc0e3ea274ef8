"""The placement of rows."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import DataFrame, Row, SparkSession, functions as F

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.feed_plan import xxhash64
from sparkflow.spark.data.plan.partitioning import (
    PlacedRows,
    hash_keys,
    place_rows,
    without_messengers,
)
from sparkflow.spark.data.plan.prepare import PreparedRows
from sparkflow.spark.data.schema.row_format import DENSE, ROW_NUMBER, Input, RowFormat

FORMAT = RowFormat((Input("part", DENSE, "int64", ()),), None, None, named=False)
LAYOUT = ClusterLayout(num_ps=2, num_workers=3)


def _uneven(spark: SparkSession, sizes: list[int]) -> PreparedRows:
    """Rows in partitions of these sizes; every fifth is for validation if there are 100 or more."""
    parts = [[(part, place) for place in range(size)] for part, size in enumerate(sizes)]
    rdd = spark.sparkContext.parallelize(parts, len(sizes)).flatMap(lambda rows: rows)
    df = spark.createDataFrame(rdd, "part int, place int")
    if sum(sizes) >= 100:
        df = df.withColumn("validates", F.col("place") % 5 == 0)
    counts = df.cache().groupBy(F.spark_partition_id().alias("p")).count().collect()
    return PreparedRows(df, FORMAT, {row["p"]: row["count"] for row in counts}, sum(sizes))


def _by_worker(placed: PlacedRows) -> list[list[Row]]:
    """The rows of each worker in the order of their numbers; checks that ps tasks have none."""
    rows = placed.df.withColumn("partition", F.spark_partition_id()).orderBy(ROW_NUMBER).collect()
    parts = [[r for r in rows if r["partition"] == p] for p in range(LAYOUT.num_tasks)]
    assert parts[: LAYOUT.num_ps] == [[]] * LAYOUT.num_ps
    assert placed.df.rdd.getNumPartitions() == LAYOUT.num_tasks
    return parts[LAYOUT.num_ps :]


def _content(parts: list[list[Row]]) -> list[list[tuple[int, int]]]:
    return [[(row["part"], row["place"]) for row in part] for part in parts]


@pytest.mark.parametrize("by_hash", [False, True], ids=["by id", "by hash"])
def test_shares_are_equal_and_rows_keep_their_order(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, by_hash: bool
) -> None:
    prepared = _uneven(spark, [5, 0, 1, 17, 2])
    if by_hash:  # as with Spark before 4.1
        monkeypatch.delattr(DataFrame, "repartitionById", raising=False)
        monkeypatch.delattr(type(prepared.rows), "repartitionById", raising=False)
    placed = place_rows(prepared, LAYOUT, seed=1, by_content=False)
    parts = _by_worker(placed)
    assert [len(part) for part in parts] == placed.worker_rows == [9, 8, 8]
    assert placed.validation_rows == [0, 0, 0]
    in_order = sorted((row for part in parts for row in part), key=lambda row: row[ROW_NUMBER])
    assert [row[ROW_NUMBER] for row in in_order] == list(range(25))
    assert [(r["part"], r["place"]) for r in in_order] == sorted(
        (r["part"], r["place"]) for r in in_order
    )
    assert placed.df.columns == ["part", "place", ROW_NUMBER]

    told = replace(LAYOUT, messengers=1)
    with_messenger = place_rows(prepared, told, seed=1, by_content=False)
    alone = without_messengers(with_messenger.df, told)
    assert alone.columns == placed.df.columns
    assert _content(_by_worker(replace(placed, df=alone))) == _content(parts)


def test_by_content_neither_share_nor_order_depends_on_the_partitions(spark: SparkSession) -> None:
    prepared = _uneven(spark, [50, 0, 0, 49])
    placed = place_rows(prepared, LAYOUT, seed=1, by_content=True)
    found = _content(_by_worker(placed))
    assert [len(part) for part in found] == placed.worker_rows
    assert min(placed.worker_rows) > 15
    other = PreparedRows(prepared.rows.repartition(5, "place"), FORMAT, {}, 99)
    assert _content(_by_worker(place_rows(other, LAYOUT, seed=1, by_content=True))) == found
    assert _content(_by_worker(place_rows(other, LAYOUT, seed=2, by_content=True))) != found
    assert sorted(sum(found, [])) == sorted(_content([prepared.rows.collect()])[0])  # noqa: RUF017


@pytest.mark.parametrize("by_content", [True, False])
def test_rows_that_validate_are_counted_apart(spark: SparkSession, by_content: bool) -> None:
    placed = place_rows(_uneven(spark, [60, 0, 60]), LAYOUT, seed=1, by_content=by_content)
    parts = _by_worker(placed)
    validating = [sum(row["validates"] for row in part) for part in parts]
    assert placed.validation_rows == validating
    assert sum(validating) == 24
    assert placed.worker_rows == [
        len(part) - count for part, count in zip(parts, validating, strict=True)
    ]


def test_equal_rows_are_dealt_with_a_warning(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    same = spark.range(0, 399, 1, 2).select(F.lit(1).alias("part"), F.lit(2).alias("place"))
    prepared = PreparedRows(same, FORMAT, {0: 199, 1: 200}, 399)
    with caplog.at_level(logging.WARNING):
        placed = place_rows(prepared, LAYOUT, seed=1, by_content=True)
    assert placed.worker_rows == [133, 133, 133]
    assert "one worker would train on 399 of 399 rows" in caplog.text


def test_hash_keys_hit_their_partitions(spark: SparkSession) -> None:
    keys = hash_keys(7)
    rows = spark.createDataFrame([(key,) for key in keys], "key int")
    found = rows.select(F.pmod(F.hash("key"), F.lit(7)).alias("partition")).collect()
    np.testing.assert_array_equal([row["partition"] for row in found], range(7))


def test_the_hash_of_numbers_is_that_of_spark(spark: SparkSession) -> None:
    numbers = np.array([0, 1, -1, 2**63 - 1, -(2**63), 123456789], np.int64)
    rows = spark.createDataFrame([(int(each),) for each in numbers], "number bigint")
    found = rows.select(F.xxhash64("number").alias("hash")).collect()
    assert [row["hash"] for row in found] == xxhash64(numbers).tolist()
