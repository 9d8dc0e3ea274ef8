"""Where rows go."""

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from sparkflow.spark.job.layout import Layout
from sparkflow.spark.rows.placement import NUMBER, hash_keys, place_rows


def _uneven(spark: SparkSession, sizes: list[int]) -> tuple[DataFrame, dict[int, int]]:
    """A DataFrame with partitions of these sizes, and their sizes."""
    parts = [[(part, place) for place in range(size)] for part, size in enumerate(sizes)]
    rdd = spark.sparkContext.parallelize(parts, len(sizes)).flatMap(lambda rows: rows)
    df = spark.createDataFrame(rdd, "part int, place int").cache()
    counts = df.groupBy(F.spark_partition_id().alias("p")).count().collect()
    return df, {row["p"]: row["count"] for row in counts}


@pytest.mark.parametrize("by_hash", [False, True], ids=["by id", "by hash"])
def test_shares_are_equal_and_rows_keep_their_order(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, by_hash: bool
) -> None:
    df, counts = _uneven(spark, [5, 0, 1, 17, 2])
    if by_hash:  # as with Spark before 4.1
        monkeypatch.delattr(DataFrame, "repartitionById")
        monkeypatch.delattr(type(df), "repartitionById", raising=False)
    layout = Layout(num_ps=2, num_workers=3)
    placed = place_rows(df, counts, layout)
    rows = placed.withColumn("partition", F.spark_partition_id()).collect()
    by_partition = [[r for r in rows if r["partition"] == p] for p in range(layout.num_tasks)]
    assert [len(part) for part in by_partition] == [0, 0, 9, 8, 8]
    in_order = sorted(rows, key=lambda row: row[NUMBER])
    assert [row[NUMBER] for row in in_order] == list(range(25))
    assert [(r["part"], r["place"]) for r in in_order] == sorted(
        (r["part"], r["place"]) for r in rows
    )
    assert placed.columns == ["part", "place", NUMBER]
    assert placed.rdd.getNumPartitions() == layout.num_tasks


def test_hash_keys_hit_their_partitions(spark: SparkSession) -> None:
    keys = hash_keys(7)
    rows = spark.createDataFrame([(key,) for key in keys], "key int")
    found = rows.select(F.pmod(F.hash("key"), F.lit(7)).alias("partition")).collect()
    np.testing.assert_array_equal([row["partition"] for row in found], range(7))
