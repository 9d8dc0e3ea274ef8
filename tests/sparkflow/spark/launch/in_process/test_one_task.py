"""Failures outside of training end it."""

from typing import Any

import pyarrow as pa
import pytest

from sparkflow.spark.cluster.events import TaskFailed
from sparkflow.spark.cluster.worker_callbacks import WorkerEvent
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.feed_plan import FeedPlan
from sparkflow.spark.data.schema.row_format import DENSE, ROW_NUMBER, Input, RowFormat
from sparkflow.spark.launch.in_process.one_task import OneTask
from sparkflow_runtime.errors import DataLossError

ROWS = RowFormat((Input("x", DENSE, "float32", ()),), None, None, False)


def _batch(values: list[Any]) -> pa.RecordBatch:
    numbers = pa.array(range(len(values)), pa.int64())
    return pa.RecordBatch.from_pydict({"x": pa.array(values, pa.float32()), ROW_NUMBER: numbers})


def test_a_worker_callback_that_fails_is_a_failed_task() -> None:
    def refuse(event: WorkerEvent) -> None:
        raise ZeroDivisionError(event.kind)

    posted: list[Any] = []
    task = OneTask(ClusterLayout.of(0, 1, "async"), (refuse,))
    try:
        task.begin(posted.append, FeedPlan(ROWS, 2), [_batch([1.0])])
    finally:
        task.close()
    (failed,) = [each for each in posted if isinstance(each, TaskFailed)]
    assert "ZeroDivisionError('start')" in failed.message
    assert "in refuse" in failed.traceback


def test_rows_that_are_none_are_refused() -> None:
    task = OneTask(ClusterLayout.of(0, 1, "async"))
    try:
        with pytest.raises(DataLossError):
            task.begin(lambda event: None, FeedPlan(ROWS, 2), [_batch([1.0, None])])
    finally:
        task.close()
