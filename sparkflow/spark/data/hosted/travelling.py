"""Sends the rows of several datasets to the tasks of one job, in a single DataFrame.

The columns of a dataset are null in the rows of others, so a single exchange suffices for all
datasets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, functions as F

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.hosted.dataset_spool import (
    DATASET_COLUMN,
    TravellingDataset,
    column_of_dataset,
)
from sparkflow.spark.data.plan.partitioning import WORKER, to_tasks
from sparkflow.spark.data.schema.frame import quoted
from sparkflow.spark.data.spool.spool import MESSAGE_COLUMN


def rows_for_tasks(
    session: SparkSession,
    layout: ClusterLayout,
    datasets: Sequence[tuple[TravellingDataset, DataFrame]],
) -> DataFrame:
    """Returns one partition per task, with its rows of all datasets.

    Args:
        session: Where the job runs.
        layout: The tasks of the job.
        datasets: The datasets, each with the result of `partitioning.deal_rows` for its rows.
            Without any, each task gets a placeholder row.
    """
    if not datasets:
        tasks = session.range(0, layout.num_partitions, 1, layout.num_partitions)
        return tasks.select(F.lit("").alias(MESSAGE_COLUMN))
    parts = [
        rows.select(
            F.lit(index).cast("int").alias(DATASET_COLUMN),
            *(
                quoted(name).alias(column_of_dataset(index, name))
                for name in dataset.row_format.schema.names
            ),
            F.col(WORKER),
        )
        for index, (dataset, rows) in enumerate(datasets)
    ]
    joined = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    return to_tasks(joined, layout)
