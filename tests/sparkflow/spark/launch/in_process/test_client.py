"""One worker inside its Spark task learns the same as one in separate processes."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkflow as tf
from sparkflow.spark import Callback, SparkTrainer, SparkTrainingError
from sparkflow.spark.cluster.worker_callbacks import WorkerEvent
from sparkflow_runtime.errors import InvalidArgumentError

pytestmark = pytest.mark.timeout(240)

ROWS = 120


def classifier(features: Any, labels: Any, mode: str, params: Any, weights: Any) -> Any:
    """Two layers with dropout, an embedding of zeros, Adam: random ops, slots and metrics."""
    hidden = tf.layers.dense(features, 8, tf.nn.relu, name="hidden")
    if mode == tf.estimator.ModeKeys.TRAIN:
        hidden = tf.nn.dropout(hidden, keep_prob=0.9)
    logits = tf.layers.dense(hidden, 2, name="logits")
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"prediction": tf.argmax(logits, 1)})
    rows = 1.0 if weights is None else weights
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits, rows)
    step = tf.train.get_or_create_global_step()
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=tf.train.AdamOptimizer(0.02).minimize(loss, global_step=step),
        eval_metric_ops={"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))},
    )


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    generator = np.random.default_rng(3)
    x = generator.normal(size=(ROWS, 4))
    rows = [(each.tolist(), int(each[0] > each[1])) for each in x]
    return spark.createDataFrame(rows, "features array<double>, label long").repartition(3).cache()


def trainer(**params: Any) -> SparkTrainer:
    given = {
        "model_fn": classifier,
        "batchSize": 16,
        "epochs": 2,
        "progress": False,
        "inProcess": True,
        "syncMode": "sync",
    }
    return SparkTrainer(**{**given, **params})


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"syncMode": "sync"}, id="sync"),
        pytest.param({"syncMode": "async", "shuffle": False, "numPs": 2}, id="async with servers"),
        *(
            pytest.param(params, id=name, marks=pytest.mark.nightly)
            for name, params in {
                "allreduce": {"syncMode": "allreduce", "gradientAccumulation": 2},
                "ssp": {"syncMode": "ssp", "shuffle": False},
                "async alone": {"syncMode": "async", "shuffle": False, "numPs": 0},
            }.items()
        ),
    ],
)
def test_results_are_those_of_processes(df: DataFrame, params: dict[str, Any]) -> None:
    here = trainer(**params).fit(df)
    there = trainer(**params, inProcess=False).fit(df)
    assert here.history.loss == there.history.loss
    assert here.history.steps == there.history.steps > 0
    found, expected = here.inference_model.variables, there.inference_model.variables
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


class _Notes(Callback):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.heard: list[str] = []

    def on_waiting(self, text: str) -> None:
        self.said.append(text)

    def on_train_begin(self, run: Any) -> None:
        self.heard.append("begin")

    def on_validation(self, metrics: Any) -> None:
        assert set(metrics) == {"step", "loss", "accuracy"}
        self.heard.append("validation")

    def on_checkpoint(self, path: str) -> None:
        self.heard.append("checkpoint")

    def on_train_end(self, history: Any) -> None:
        self.heard.append("end")


def test_validation_early_stopping_weights_and_callbacks_work(
    df: DataFrame, caplog: pytest.LogCaptureFixture, child_processes: Callable[[], list[int]]
) -> None:
    notes = _Notes()
    with caplog.at_level(logging.WARNING, logger="sparkflow.spark"):
        model = trainer(
            epochs=40,
            validationFraction=0.3,
            classWeights="balanced",
            earlyStoppingPatience=2,
            earlyStoppingMinDelta=0.05,
            workerLogs=True,
            callbacks=[notes],
        ).fit(df)
    history = model.history
    assert history.stopped.startswith("early stopping")
    assert history.best is not None
    assert history.best["metrics"].keys() == {"loss", "accuracy"}
    assert notes.heard[0] == "begin"
    assert notes.heard[-1] == "end"
    assert notes.heard.count("validation") == len(history.validation) > 1
    text = "training inside one Spark task, without sockets or processes: inProcess is 'always'"
    assert notes.said == [text]
    assert text in caplog.text
    assert "workerLogs" in caplog.text
    assert model.transform(df).select("prediction").count() == ROWS
    assert child_processes() == []


def test_checkpoints_are_gone_on_from_bit_for_bit(df: DataFrame, tmp_path: Path) -> None:
    whole = trainer(epochs=4).fit(df).inference_model.variables
    saved = {"checkpointDir": str(tmp_path / "checkpoints")}
    first = trainer(epochs=2, **saved).fit(df)
    assert [each["step"] for each in first.history.checkpoints] == [8, 16]
    second = trainer(epochs=4, **saved).fit(df)
    assert second.history.resumed is not None
    assert second.history.steps == 32
    for name, value in whole.items():
        np.testing.assert_array_equal(second.inference_model.variables[name], value, err_msg=name)
    # Processes resume from what a task has left, and find nothing to do.
    third = trainer(epochs=4, inProcess=False, **saved).fit(df)
    assert third.history.resumed["finished"]


def test_worker_callbacks_run_in_the_task_and_may_end_it(df: DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "events"

    def note(event: WorkerEvent) -> None:
        with path.open("a") as file:
            file.write(f"{event.kind} {event.rows}\n")

    trainer(workerCallbacks=[note]).fit(df)
    kinds = path.read_text().splitlines()
    assert kinds[:2] == ["start 0", f"rows {ROWS}"]
    assert kinds[-1].startswith("end")

    def refuse(event: WorkerEvent) -> None:
        if event.kind == "steps":
            raise ZeroDivisionError("enough")

    with pytest.raises(SparkTrainingError, match="enough"):
        trainer(workerCallbacks=[refuse], epochs=10_000).fit(df)


def test_errors_of_the_graph_arrive_as_what_they_are(df: DataFrame) -> None:
    bad = df.selectExpr("features", "label + 2 as label")
    with pytest.raises(InvalidArgumentError, match="worker"):
        trainer().fit(bad)


def test_it_needs_one_worker_which_is_said_before_any_job(df: DataFrame) -> None:
    with pytest.raises(
        ValueError, match="needs numWorkers=1 and modelParallel=1; they are 2 and 1"
    ):
        trainer(numWorkers=2).fit(df)


def test_files_are_read_in_the_task(df: DataFrame, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    df.write.parquet(path)
    model = trainer().fitOnParquet(path)
    assert model.history.rows_per_epoch == ROWS
