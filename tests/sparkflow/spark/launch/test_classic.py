"""Fits on a classic session whose tasks start one by one, without a barrier stage."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import sparkflow as tf
from sparkflow.spark import Callback, SparkTrainer

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("child_processes")]


def regression(features: Any, labels: Any, mode: str) -> Any:
    """y = x w."""
    prediction = tf.squeeze(tf.layers.dense(features, 1, name="layer"), axis=[1])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, prediction)
    loss = tf.reduce_mean(tf.square(prediction - labels))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.fixture
def no_barrier(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session with the setting that makes tasks start one by one."""
    settings: Any = spark.sparkContext._conf
    settings.set("spark.sparkflow.barrier", "false")
    yield spark
    settings.set("spark.sparkflow.barrier", "auto")


class Killer(Callback):
    """Kills the process of a worker after the first steps."""

    def __init__(self, find: Callable[[], list[int]]) -> None:
        self.find = find
        self.killed = 0
        self.texts: list[str] = []

    def on_waiting(self, text: str) -> None:
        self.texts.append(text)

    def on_steps(self, update: Any) -> None:
        for pid in self.find() if not self.killed else ():
            if b"SPARKFLOW_TASK=worker 1" in Path(f"/proc/{pid}/environ").read_bytes():
                self.killed = pid
                os.kill(pid, signal.SIGKILL)


def test_it_ends_as_in_a_barrier_stage_and_survives_a_lost_process(
    no_barrier: SparkSession, child_processes: Callable[[], list[int]], tmp_path: Path
) -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    rows = [(v.tolist(), float(v[0] - v[1])) for v in x]
    df = no_barrier.createDataFrame(rows, "features array<double>, label double").cache()
    killer = Killer(child_processes)
    params: dict[str, Any] = {
        "model_fn": regression,
        "numWorkers": 2,
        "numPs": 1,
        "batchSize": 10,
        "epochs": 30,
        "syncMode": "sync",
        "checkpointDir": str(tmp_path),
        "progress": False,
    }
    model = SparkTrainer(**params, callbacks=[killer]).fit(df)
    assert killer.killed
    assert len(model.history.restarts) == 1
    assert model.history.tasks_started == (
        "an ordinary stage that waits for all tasks: spark.sparkflow.barrier=false"
    )
    assert killer.texts[0] == "waiting for 3 of 3 tasks"
    no_barrier.sparkContext._conf.set("spark.sparkflow.barrier", "auto")  # type: ignore[attr-defined]
    other = SparkTrainer(**{**params, "checkpointDir": ""}).fit(df)
    assert other.history.tasks_started.startswith("a barrier stage: ")
    for name, value in other.inference_model.variables.items():
        np.testing.assert_allclose(model.inference_model.variables[name], value, rtol=1e-5)
