"""The first rows of a DataFrame, without a broken pipe behind them.

`take` ends a task as soon as it has its rows. Where a Python worker makes them, it is still writing
then, and Spark's daemon prints the traceback of its BrokenPipeError into the user's terminal. Such
DataFrames (of lists of Python, of functions in Python) are read to the end of a partition instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row

_BY_PYTHON: Final = re.compile(r"Python|Pandas|InArrow|ExistingRDD")


def first_rows(df: DataFrame, count: int) -> list[Row]:
    """Some of the first rows, for sessions that have a driver. Blocks for a Spark job or more.

    Args:
        df: The rows.
        count: How many are wanted. Of those that Python makes, they are of one partition: fewer
            where it has fewer, none only if all partitions are empty.
    """
    frame: Any = df
    plan = frame._jdf.queryExecution().executedPlan().toString()
    if not _BY_PYTHON.search(plan):
        return df.take(count)
    few: Any = df.mapInArrow(_first_of(count), df.schema).rdd
    context: Any = frame.sparkSession.sparkContext
    for partition in range(few.getNumPartitions()):
        found: list[Row] = context.runJob(few, list, [partition])
        if found:
            return found
    return []


def _first_of(count: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def first(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        left = count
        for batch in batches:
            if left and batch.num_rows:
                yield batch.slice(0, left)
                left -= min(left, batch.num_rows)

    return first
