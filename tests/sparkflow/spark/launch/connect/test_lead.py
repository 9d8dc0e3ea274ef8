"""The chief's instructions survive pickling, and replicas keep their own parts."""

import pickle
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.callbacks import Callback, Callbacks
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow.spark.graphs.model_fn import ModelInputs
from sparkflow.spark.graphs.training_graph import build_training_graph
from sparkflow.spark.launch.connect.client import FinishedRun, tell
from sparkflow.spark.launch.connect.lead import Leadership, picklable
from sparkflow.spark.params.config import FitConfig

ROWS = RowFormat(
    (Input("features", DENSE, "float32", (2,)),), Input("label", DENSE, "float32", ()), None, False
)


def _model_fn(features: Any, labels: Any, mode: str) -> Any:
    prediction = tf.squeeze(tf.layers.dense(features, 1), axis=[1])
    loss = tf.reduce_mean(tf.square(prediction - labels))
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdamOptimizer().minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _plan(sync_mode: str) -> TrainingPlan:
    layout = ClusterLayout.of(1, 2, sync_mode)
    config = FitConfig(sync_mode=sync_mode, batch_size=5)
    graph = build_training_graph(_model_fn, ModelInputs(ROWS, {}, 42), layout, config)
    return TrainingPlan(layout, graph, ("dense/kernel",), (10, 10))


@pytest.mark.parametrize("sync_mode", ["async", "sync", "ssp", "allreduce"])
def test_every_kind_of_plan_travels(sync_mode: str) -> None:
    plan = _plan(sync_mode)
    feed = plan.feed(ROWS)
    work = Leadership(picklable(plan), feed, 3)
    travelled = pickle.loads(pickle.dumps(work))  # noqa: S301  our own
    assert travelled.feed == feed
    assert travelled.plan.epoch_steps == plan.epoch_steps
    for worker in range(2):
        assert travelled.plan.graph.replica(worker, 2) == plan.graph.replica(worker, 2)


class _Notes(Callback):
    def __init__(self) -> None:
        self.notes: list[Any] = []

    def on_train_begin(self, run: Any) -> None:
        self.notes.append(("begin", run.total_rows, sorted(run.values())))

    def on_steps(self, update: Any) -> None:
        self.notes.append(("steps", update.first_step, update.num_steps))

    def on_epoch_end(self, epoch: int, metrics: Any) -> None:
        self.notes.append(("epoch", epoch, metrics["loss"]))

    def on_validation(self, metrics: Any) -> None:
        self.notes.append(("validation", metrics))

    def on_train_end(self, history: Any) -> None:
        self.notes.append(("end", history.steps))


def test_callbacks_hear_of_a_finished_run_in_order() -> None:
    history = TrainingHistory(rows_per_epoch=20, num_workers=2)
    for step in range(4):
        history.loss.append(4.0 - step)
        history.rows.append(10)
        history.worker.append(-1)
        history.time.append(float(step + 1))
        history.count_epoch(step * 10, 4.0 - step, 10, float(step + 1), 0.0)
        history.steps += 1
    history.validation.append({"step": 2.0, "time": 2.5, "loss": 3.25})
    notes = _Notes()
    values = {"dense/kernel": np.zeros((2, 1), np.float32)}
    tell(Callbacks([notes]), FinishedRun(_plan("async"), history, values))
    assert notes.notes == [
        ("begin", 20, ["dense/kernel"]),
        ("steps", 0, 1),
        ("steps", 1, 1),
        ("validation", {"step": 2.0, "loss": 3.25}),
        ("epoch", 0, 3.5),
        ("steps", 2, 1),
        ("steps", 3, 1),
        ("epoch", 1, 1.5),
        ("end", 4),
    ]
