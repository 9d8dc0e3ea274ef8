"""Concurrent fits with few slots, and reports of their workers."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkflow as tf
from sparkflow.spark import Callback, SparkTrainer
from sparkflow.spark.cluster.worker_callbacks import WorkerEvent

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("child_processes")]

ROWS = 40


def regression(features: Any, labels: Any, mode: str) -> Any:
    """y = x w, printing output."""
    prediction = tf.squeeze(tf.layers.dense(features, 1, name="layer"), axis=[1])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, prediction)
    loss = tf.reduce_mean(tf.square(prediction - labels))
    loss = tf.Print(loss, [loss], "the loss is ")
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    x = np.random.default_rng(0).normal(size=(ROWS, 2))
    rows = [(v.tolist(), float(v[0] - v[1])) for v in x]
    return spark.createDataFrame(rows, "features array<double>, label double").cache()


def _trainer(**params: Any) -> SparkTrainer:
    return SparkTrainer(model_fn=regression, **{"progress": False, "batchSize": 10, **params})


class Waiting(Callback):
    """Records what was waited for; holds its fit until it may continue."""

    def __init__(self, hold: threading.Event | None = None) -> None:
        self.texts: list[str] = []
        self.begun = threading.Event()
        self.waits = threading.Event()
        self.hold = hold

    def on_waiting(self, text: str) -> None:
        self.texts.append(text)
        if "other fits" in text:
            self.waits.set()

    def on_train_begin(self, run: Any) -> None:
        self.begun.set()
        if self.hold is not None:
            assert self.hold.wait(60)


def test_a_fit_waits_for_another_one_that_has_the_slots(df: DataFrame) -> None:
    go_on = threading.Event()
    first, second = Waiting(hold=go_on), Waiting()
    models: dict[str, Any] = {}

    def fit(name: str, callback: Waiting) -> None:
        models[name] = _trainer(numWorkers=2, callbacks=[callback]).fit(df)

    threads = [
        threading.Thread(target=fit, args=("first", first)),
        threading.Thread(target=fit, args=("second", second)),
    ]
    threads[0].start()
    assert first.begun.wait(120)
    threads[1].start()
    assert second.waits.wait(120)
    assert not second.begun.is_set()
    go_on.set()
    for thread in threads:
        thread.join()
    assert [sum(models[name].history.rows) for name in ("first", "second")] == [ROWS, ROWS]
    assert any("3 task slots are needed, 3 of 4 are in use" in text for text in second.texts)


@pytest.mark.parametrize("sync_mode", ["async", "sync"])
def test_workers_hold_the_variables(
    df: DataFrame, sync_mode: str, child_processes: Callable[[], list[int]]
) -> None:
    counted: list[int] = []

    class Counts(Callback):
        def on_train_begin(self, run: Any) -> None:
            counted.append(len(child_processes()))

    model = _trainer(
        numPs=0, numWorkers=2, epochs=20, syncMode=sync_mode, callbacks=[Counts()]
    ).fit(df)
    assert counted == [2]
    assert model.history.epoch_loss[-1] < 0.1 * model.history.epoch_loss[0]


def test_lines_and_events_of_workers(
    df: DataFrame, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def note(event: WorkerEvent) -> None:
        # This runs in the Python process of a Spark task.
        with (tmp_path / f"worker {event.worker}").open("a") as file:
            file.write(f"{event.kind} {event.rows} {event.steps}\n")

    _trainer(numWorkers=2, workerLogs=True, workerCallbacks=[note]).fit(df)
    said = capfd.readouterr().err
    assert "[worker 0] the loss is " in said
    assert "[worker 1] the loss is " in said
    for worker in range(2):
        events = (tmp_path / f"worker {worker}").read_text().splitlines()
        assert [event.split()[0] for event in events[:1]] == ["start"]
        assert f"rows {ROWS // 2} 0" in events
        assert any(event.startswith("steps ") for event in events)
        assert events[-1] == f"end 0 {ROWS // 2 // 10}"
