"""Aggregates that come with a job, or need their own."""

from pyspark.sql import Column, SparkSession, functions as F

from sparkflow.spark.data.plan.profile import aggregated, observing


def wanted() -> dict[str, Column]:
    return {
        "sum": F.sum("x"),
        "tenth": F.max(F.col("x") / 10),
        "none": F.max(F.when(F.col("x") > 99, F.col("x"))),
        "list": F.array(F.count_if(F.col("x") > 1), F.count(F.lit(1))),
        "kinds": F.approx_count_distinct("x"),
    }


FOUND = {"sum": 6, "tenth": 0.3, "none": None, "list": [2, 4], "kinds": 4}


def test_aggregates_cost_a_job(spark: SparkSession) -> None:
    assert aggregated(spark.range(0, 4, 1, 3).withColumnRenamed("id", "x"), wanted()) == FOUND
    assert aggregated(spark.createDataFrame([(3,)], "x int"), {"x": F.sum("x")}) == {"x": 3}
    assert aggregated(spark.range(4), {}) == {}


def test_aggregates_come_with_another_job(spark: SparkSession) -> None:
    rows, found = observing(spark.range(0, 4, 1, 3).withColumnRenamed("id", "x"), wanted())
    assert sorted(row.x for row in rows.collect()) == [0, 1, 2, 3]
    assert found() == FOUND
