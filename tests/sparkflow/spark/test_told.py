"""What a whole `fit` reports: whose checkpoint it found, what went wrong; in a session."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession, functions as F

import sparkflow as tf
from sparkflow.spark import (
    NonFiniteError,
    OtherTrainingError,
    SparkDNNClassifier,
    SparkTrainer,
    SparkTrainingError,
    StreamingTrainer,
)
from sparkflow.spark.data.plan.spooled import first_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    x = np.random.default_rng(0).normal(size=(90, 3))
    rows = [(row.tolist(), float(row @ [1, -2, 0.5]), bool(row[0] > 0)) for row in x]
    columns = "features array<float>, label float, late boolean"
    return spark.createDataFrame(rows, columns).repartition(3).cache()


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    weights = tf.get_variable("weights", [3, 1], initializer=tf.zeros_initializer())
    prediction = tf.squeeze(tf.matmul(features, weights), 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"prediction": prediction})
    loss = tf.reduce_mean(tf.square(prediction - labels))
    optimizer = tf.train.GradientDescentOptimizer(params.get("rate", 0.05))
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def trainer(folder: Path | str, **params: Any) -> SparkTrainer:
    given = {"checkpointDir": f"{folder}/checkpoints", "progress": False, "batchSize": 30}
    return SparkTrainer(model_fn=model_fn, **{**given, **params})


def reversed_labels(df: DataFrame) -> DataFrame:
    return df.withColumn("label", -F.col("label"))


@pytest.mark.parametrize("way", ["spooled", "by content", "cached", "parquet"])
def test_each_way_of_the_rows_tells_them_from_others(
    df: DataFrame, tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    more = {
        "spooled": {},
        "by content": {"syncMode": "sync"},
        "cached": {"handleInvalid": "skip"},  # and a null, which the shortest way rejects
        "parquet": {},
    }[way]
    if way == "cached":
        df = df.withColumn("label", F.when(F.col("label") > -4, F.col("label")))

    def fit(rows: DataFrame, name: str) -> Any:
        if way != "parquet":
            return trainer(tmp_path, **more).fit(rows)
        rows.write.mode("overwrite").parquet(str(tmp_path / name))
        return trainer(tmp_path).fitOnParquet(str(tmp_path / name))

    first = fit(df, "rows")
    assert first.history.resumed is None
    with caplog.at_level(logging.WARNING):
        # In a different order, except for files, in which the order is significant.
        again = fit(df if way == "parquet" else df.orderBy("label"), "copy")
    assert again.history.resumed["finished"]
    assert "with the same parameters, graph and rows: returned unchanged" in caplog.text
    with pytest.raises(OtherTrainingError, match="rows: their content has changed"):
        fit(reversed_labels(df), "reversed")


def test_ready_made_estimators_are_told_apart_too(df: DataFrame, tmp_path: Path) -> None:
    def fit(**params: Any) -> Any:
        given = {"hiddenUnits": [4], "labelCol": "late", "epochs": 1, "progress": False}
        given["checkpointDir"] = str(tmp_path)
        return SparkDNNClassifier(**{**given, **params}).fit(df)

    fit()
    assert fit(maxRestarts=1).history.resumed["finished"]
    with pytest.raises(OtherTrainingError, match=r"learningRate: 0\.\d+ -> 0\.5"):
        fit(learningRate=0.5)
    with pytest.raises(OtherTrainingError, match=r"(?s)hiddenUnits: \[4\].*dnn.*in the checkpoint"):
        fit(hiddenUnits=[5])


def test_maps_of_parameters_have_folders_of_their_own(df: DataFrame, tmp_path: Path) -> None:
    estimator = trainer(tmp_path)
    maps = [{estimator.modelParams: {"rate": rate}} for rate in (0.01, 0.1)]
    for _ in range(2):
        models = estimator.fit(df, maps)
        assert [model.history.resumed for model in models] == [None, None]


def test_a_batch_whose_training_has_changed_is_trained_anew(
    df: DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def streaming(rate: float) -> StreamingTrainer:
        given = {"checkpointDir": "", "modelParams": {"rate": rate}}
        return StreamingTrainer(trainer(tmp_path, **given), str(tmp_path / "state"))

    streaming(0.01).foreachBatch(df, 0)
    before = shutil.copytree(tmp_path / "state", tmp_path / "before")
    streaming(0.01).foreachBatch(df, 1)
    # Killed before the state was written; then a driver with a different learning rate starts.
    shutil.copy(before / "stream.json", tmp_path / "state" / "stream.json")
    with caplog.at_level(logging.WARNING):
        streaming(0.1).foreachBatch(df, 1)
    assert "batch 1 is retrained" in caplog.text
    assert "modelParams.rate: 0.01 -> 0.1" in caplog.text
    assert streaming(0.1).state(df.sparkSession).batch_id == 1


@pytest.mark.parametrize("sync_mode", ["async", "allreduce"])
def test_a_training_that_diverges_says_so(df: DataFrame, tmp_path: Path, sync_mode: str) -> None:
    diverging = trainer(
        tmp_path, syncMode=sync_mode, epochs=300, modelParams={"rate": 50.0}, numWorkers=2
    )
    with pytest.raises(NonFiniteError, match=r"is (inf|nan) in step \d+.*lower learning rate"):
        diverging.fit(df)


def test_a_metric_without_a_direction_is_asked_for_before_a_job(
    df: DataFrame, tmp_path: Path
) -> None:
    wanted = trainer(
        tmp_path, validationFraction=0.2, earlyStoppingPatience=1, earlyStoppingMetric="quality"
    )
    context: Any = df.sparkSession.sparkContext
    jobs = len(context.statusTracker().getJobIdsForGroup(None))
    with pytest.raises(ValueError, match="earlyStoppingMode='max'"):
        wanted.fit(df)
    assert len(context.statusTracker().getJobIdsForGroup(None)) == jobs


def test_the_summary_is_of_the_model_that_is_returned(df: DataFrame, tmp_path: Path) -> None:
    model = trainer(
        tmp_path,
        epochs=6,
        modelParams={"rate": 0.9},  # gets worse, but stays finite that long
        validationFraction=0.3,
        earlyStoppingPatience=2,
    ).fit(df)
    best = model.history.best
    assert best["step"] < model.history.steps
    text = str(model.summary())
    assert f"{best['step']:,}, the best" in text
    assert f"(step {model.history.steps:,}, not the model's)" in text
    again = trainer(
        tmp_path,
        epochs=6,
        modelParams={"rate": 0.9},
        validationFraction=0.3,
        earlyStoppingPatience=2,
    ).fit(df)
    assert again.history.resumed["finished"]
    assert again.history.best == best


def test_boolean_labels_can_be_evaluated(df: DataFrame) -> None:
    model = SparkDNNClassifier(hiddenUnits=[4], labelCol="late", epochs=1, progress=False).fit(df)
    assert 0 <= model.evaluate(df)["accuracy"] <= 1
    assert dict(model.transform(df).dtypes)["late"] == "boolean"


def test_wrong_columns_say_what_was_meant(df: DataFrame, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Did you mean 'label'"):
        trainer(tmp_path, labelCol="lable").fit(df)
    with pytest.raises(ValueError, match="Did you mean 'features'"):
        trainer(tmp_path, featuresCol="feature").fit(df)
    with pytest.raises(TypeError, match="must hold numbers"):
        trainer(tmp_path).fit(df.withColumn("label", F.lit("a")))
    with pytest.raises(TypeError, match="must hold vectors, numbers, dates, timestamps"):
        trainer(tmp_path).fit(df.withColumn("features", F.create_map(F.lit("a"), F.lit(1))))
    with pytest.raises(SparkTrainingError, match="need 9 task slots"):
        trainer(tmp_path, numWorkers=8).fit(df)


def test_rows_of_python_are_sampled(spark: SparkSession) -> None:
    rows = [(Vectors.dense([float(i), 1.0]), float(i)) for i in range(5000)]
    frame = spark.createDataFrame(rows, ["features", "label"])
    for each in (frame, frame.repartition(3), spark.range(50).toDF("label")):
        assert len(first_rows(each, 20)) == 20
    assert first_rows(frame.where("label < 0"), 20) == []


@pytest.mark.slow
def test_no_pipe_is_broken_by_looking_at_them(tmp_path: Path) -> None:
    """Spark's daemon writes to the stderr of the JVM, so this is a separate program."""
    program = """
import time
from pyspark.sql import SparkSession
from sparkflow.spark.data.plan.spooled import first_rows
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = [([float(i)] * 3, float(i)) for i in range(60000)]
frame = session.createDataFrame(rows, "features array<float>, label float")
print(len(first_rows(frame, 64)))
time.sleep(2)
session.stop()
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert found.stdout.split()[-1] == "64"
    assert "BrokenPipeError" not in found.stderr
