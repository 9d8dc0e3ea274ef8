"""Models divided among several tasks, trained from DataFrames."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkflow as tf
from sparkflow.spark import SparkTrainer, SparkTrainingError, stage
from support.spark_callbacks import OnFirstSteps

ROWS = 90
WIDTH = 5


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    features = np.random.default_rng(3).random((ROWS, WIDTH))
    labels = features @ np.arange(WIDTH)
    rows = [(each.tolist(), float(label)) for each, label in zip(features, labels, strict=True)]
    return spark.createDataFrame(rows, ["features", "label"]).cache()


def model(staged: bool) -> Callable[..., Any]:
    def place(number: int) -> Any:
        return tf.device(stage(number) if staged else None)

    def dense(x: Any, width: int, seed: int, activation: Any = None) -> Any:
        initial = tf.glorot_uniform_initializer(seed=seed)
        return tf.layers.dense(x, width, activation, kernel_initializer=initial)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        with place(0):
            h = dense(features, 8, 1, tf.tanh)
        with place(1):
            predicted = dense(dense(h, 8, 2, tf.tanh), 1, 3)[:, 0]
            if mode == tf.estimator.ModeKeys.PREDICT:
                return tf.estimator.EstimatorSpec(mode, predictions={"prediction": predicted})
            loss = tf.reduce_mean(tf.square(predicted - labels))
            error = {"mae": tf.metrics.mean_absolute_error(labels, predicted)}
        train = tf.train.AdamOptimizer(0.02).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops=error)

    return model_fn


def trainer(staged: bool = True, **params: Any) -> SparkTrainer:
    given = {"progress": False, "batchSize": 20, "epochs": 2, "syncMode": "sync", "numPs": 0}
    return SparkTrainer(model_fn=model(staged), **{**given, **params})


def predictions(fitted: Any, df: DataFrame) -> Any:
    return np.array([row.prediction for row in fitted.transform(df).collect()])


@pytest.fixture(scope="module")
def whole(df: DataFrame) -> Any:
    """What a single task learns."""
    return predictions(trainer(staged=False).fit(df), df)


@pytest.mark.parametrize(
    ("staged", "params"),
    [(True, {"modelParallel": 2}), (False, {"modelParallel": 3, "microBatches": 5})],
    ids=["by hand", "by itself"],
)
def test_two_tasks_learn_what_one_learns(
    df: DataFrame, whole: Any, staged: bool, params: dict[str, Any]
) -> None:
    found = predictions(trainer(staged, **params).fit(df), df)
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-5)


def test_two_replicas_of_two_tasks_with_validation(df: DataFrame) -> None:
    fitted = trainer(
        modelParallel=2, numWorkers=2, syncMode="async", validationFraction=0.3, epochs=12
    ).fit(df)
    history = fitted.history
    assert sum(history.rows) > 0
    values = [each["loss"] for each in history.validation]
    assert values[-1] < values[0]


def test_gradient_accumulation(df: DataFrame) -> None:
    alone = trainer(staged=False, gradientAccumulation=2).fit(df)
    divided = trainer(modelParallel=2, gradientAccumulation=2).fit(df)
    found, wanted = predictions(divided, df), predictions(alone, df)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_stage_that_is_killed(
    df: DataFrame, whole: Any, child_processes: Callable[[], list[int]]
) -> None:
    def kill() -> None:
        for pid in child_processes():
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if b"=stage1 0\0" in environment:
                os.kill(pid, signal.SIGKILL)

    killing = OnFirstSteps(kill)
    fitted = trainer(modelParallel=2, maxRestarts=1, callbacks=[killing]).fit(df)
    assert len(killing.restarts) == 1
    np.testing.assert_allclose(predictions(fitted, df), whole, rtol=1e-5, atol=1e-5)


def test_too_few_slots(df: DataFrame) -> None:
    text = r"numWorkers=2, modelParallel=3 and numPs=0 need 6 task slots at once, .* has 4"
    with pytest.raises(SparkTrainingError, match=text):
        trainer(modelParallel=3, numWorkers=2).fit(df)


def test_a_stage_that_there_is_not(df: DataFrame) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        with tf.device(stage(2)):
            return model(staged=True)(features, labels, mode)

    text = r"stage\(2\) was requested, but modelParallel=2 has stages 0 to 1"
    with pytest.raises(ValueError, match=text):
        SparkTrainer(model_fn=model_fn, modelParallel=2, progress=False).fit(df)
