"""Training in this process, without Spark."""

import gc
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow.spark.cluster.events import RowsReady, TaskRegistered
from sparkflow.spark.cluster.task import JobConfig
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.control.checkpoints.fingerprint import Fingerprint, RowsPrint
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.data.schema.row_format import DENSE, ROW_NUMBER, Input, RowFormat
from sparkflow.spark.errors import LostTaskError, SparkTrainingError
from sparkflow.spark.graphs.digest import GraphDigest
from sparkflow.spark.graphs.model_fn import ModelInputs
from sparkflow.spark.graphs.training_graph import build_training_graph
from sparkflow.spark.launch.connect.lead import Leadership, picklable
from sparkflow.spark.launch.connect.outcome import Outcome
from sparkflow.spark.launch.in_process.one_task import OneTask
from sparkflow.spark.launch.in_process.task import train_here
from sparkflow.spark.params.config import FitConfig
from sparkflow_runtime.security import Credentials
from support.row_files import open_row_files

ROWS = RowFormat(
    (Input("features", DENSE, "float32", (2,)),), Input("label", DENSE, "float32", ()), None, False
)
COUNT = 20


@pytest.fixture(autouse=True)
def no_row_file_stays_open() -> Iterator[None]:
    """Spark's Python worker is reused for other tasks, and may not collect garbage for long."""
    gc.collect()
    assert open_row_files() == 0
    gc.disable()
    yield
    gc.enable()
    assert open_row_files() == 0


def _model_fn(features: Any, labels: Any, mode: str) -> Any:
    weights = tf.get_variable("weights", [2, 1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(features, weights), [1]) - labels))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _batches() -> list[pa.RecordBatch]:
    x = np.random.default_rng(0).normal(size=(COUNT, 2)).astype(np.float32)
    columns = {
        "features": pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 2),
        "label": pa.array(x @ np.float32([1, -2])),
        ROW_NUMBER: pa.array(np.arange(COUNT)),
    }
    return [pa.RecordBatch.from_pydict(columns)]


def _work(
    rows: int = COUNT, max_restarts: int = 3, name: str = "fit", **asked: Any
) -> tuple[JobConfig, Leadership]:
    layout = ClusterLayout.of(1, 1, "sync")
    config = FitConfig(sync_mode="sync", batch_size=5, **asked)
    graph = build_training_graph(_model_fn, ModelInputs(ROWS, {}, 42), layout, config)
    fingerprint = Fingerprint(
        {}, {}, GraphDigest.of(graph.graph_def), RowsPrint({}, COUNT, 0, "test:0")
    )
    plan = TrainingPlan(layout, graph, ("weights",), (rows,), fingerprint=fingerprint, name=name)
    work = Leadership(picklable(plan), plan.feed(ROWS), max_restarts)
    return JobConfig("", Credentials(), layout, ROWS), pickle.loads(pickle.dumps(work))  # noqa: S301


def _train(attempt: int = 0, **asked: Any) -> Outcome:
    return train_here(*_work(**asked), _batches(), attempt)


def test_it_learns() -> None:
    outcome = _train(epochs=60)
    np.testing.assert_allclose(outcome.values["weights"].ravel(), [1, -2], atol=1e-2)
    assert outcome.history["steps"] == 240


def test_other_rows_than_were_counted_are_an_error() -> None:
    job, work = _work(rows=COUNT - 1)
    with pytest.raises(SparkTrainingError, match="got 20 rows instead of 19"):
        train_here(job, work, _batches())


@pytest.mark.parametrize("resume", ["auto", "never"])
def test_a_task_that_spark_runs_again_goes_on(tmp_path: Path, resume: str) -> None:
    saved = {"checkpoint_dir": str(tmp_path), "resume": resume}
    whole = _train(epochs=3)
    _train(epochs=1, **saved)
    again = _train(attempt=1, epochs=3, **saved)
    np.testing.assert_array_equal(again.values["weights"], whole.values["weights"])
    (restart,) = again.history["restarts"]
    assert restart["step"] == 4
    assert "Spark started it again" in restart["reason"]


def test_a_task_that_spark_runs_again_knows_whose_checkpoints_are_its_own(tmp_path: Path) -> None:
    _train(name="before", epochs=1, checkpoint_dir=str(tmp_path))
    anew = _train(attempt=1, epochs=1, checkpoint_dir=str(tmp_path), resume="never")
    assert [each["step"] for each in anew.history["restarts"]] == [0]
    assert anew.history["steps"] == 4
    own = _train(attempt=2, epochs=2, checkpoint_dir=str(tmp_path), resume="never")
    # The first loss is already in the checkpoint.
    assert [each["step"] for each in own.history["restarts"]] == [0, 4]
    assert own.history["resumed"] is None


def test_a_task_that_is_lost_too_often_is_not_run_again() -> None:
    with pytest.raises(LostTaskError, match=r"lost 2 times, and maxRestarts=1"):
        _train(attempt=2, max_restarts=1)


def test_all_roles_are_posted_and_asked() -> None:
    job, work = _work()
    posted: list[Any] = []
    task = OneTask(job.layout)
    try:
        task.begin(posted.append, replace(work.feed), _batches())
        server, worker = TaskName("ps", 0), TaskName("worker", 0)
        assert [each.task for each in posted if isinstance(each, TaskRegistered)] == [
            server,
            worker,
        ]
        rows = {each.task: each.rows for each in posted if isinstance(each, RowsReady)}
        assert rows == {server: 0, worker: COUNT}
        assert task.progress()[worker].rows == COUNT
        assert task.states(0.0)[worker].steps == 0
        assert task.infos()[worker].pid > 0
        assert not task.has_active_tasks()
    finally:
        task.close()
        task.close()
