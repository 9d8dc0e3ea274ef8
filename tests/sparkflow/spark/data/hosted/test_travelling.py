"""Rows of several datasets in the partitions of one job's tasks."""

from pyspark.sql import functions as F

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.hosted.dataset_spool import DATASET_COLUMN, TravellingDataset
from sparkflow.spark.data.hosted.travelling import rows_for_tasks
from sparkflow.spark.data.plan.partitioning import WORKER
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow.spark.data.spool.spool import MESSAGE_COLUMN

LAYOUT = ClusterLayout(num_ps=1, num_workers=2)


def dataset(name, column):
    row_format = RowFormat((Input(column, DENSE, "int64", ()),), None, None, named=True)
    return TravellingDataset(name, row_format, (0, 0))


def by_partition(rows):
    return [tuple(row) for row in rows.select(F.spark_partition_id(), "*").collect()]


def test_without_datasets_each_task_has_a_row_that_is_none(spark):
    rows = rows_for_tasks(spark, LAYOUT, [])
    assert rows.columns == [MESSAGE_COLUMN]
    assert sorted(by_partition(rows)) == [(0, ""), (1, ""), (2, "")]


def test_rows_of_all_datasets_are_with_their_workers(spark):
    given = spark.range(4).withColumn("row_number", F.col("id"))
    dealt = given.withColumn(WORKER, F.col("id") % 2)
    one = dealt.withColumnRenamed("id", "a.b")
    two = dealt.where("id = 3").withColumnRenamed("id", "c")
    travelling = [(dataset("one", "a.b"), one), (dataset("two", "c"), two)]
    rows = rows_for_tasks(spark, LAYOUT, travelling)
    assert rows.columns == [DATASET_COLUMN, "0/a.b", "0/row_number", "1/c", "1/row_number"]
    found = {tuple(-1 if value is None else value for value in row) for row in by_partition(rows)}
    assert found == {
        (1, 0, 0, 0, -1, -1),
        (1, 0, 2, 2, -1, -1),
        (2, 0, 1, 1, -1, -1),
        (2, 0, 3, 3, -1, -1),
        (2, 1, -1, -1, 3, 3),
    }
