"""Training on a stream of files."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

import sparkflow as tf
from sparkflow.spark import (
    SparkLinearRegressor,
    SparkTrainer,
    SparkTrainerModel,
    SparkTrainingError,
    StreamingTrainer,
)
from sparkflow.spark.streaming import StreamState
from sparkflow_runtime.checkpoint.sealed import seal_json
from sparkflow_runtime.errors import DataLossError
from support.damage import damages

pytestmark = [pytest.mark.spark, pytest.mark.timeout(420)]

ROWS = 64
WEIGHTS = np.array([1.5, -2.0])
RATE, MOMENTUM = 0.1, 0.9


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    """y = x w, with an optimizer that has slots, so that losing them is noticed."""
    weights = tf.get_variable("weights", [2], initializer=tf.zeros_initializer())
    prediction = tf.reduce_sum(features * weights, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, prediction)
    loss = tf.reduce_mean(tf.square(prediction - labels))
    optimizer = tf.train.MomentumOptimizer(RATE, MOMENTUM)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _rows(batch: int) -> tuple[np.ndarray, np.ndarray]:
    features = np.random.default_rng(batch).normal(size=(ROWS, 2)).astype(np.float32)
    return features, features @ WEIGHTS.astype(np.float32)


def _write(spark: SparkSession, folder: Path, batch: int) -> None:
    features, labels = _rows(batch)
    pairs = [(x.tolist(), float(y)) for x, y in zip(features, labels, strict=True)]
    df = spark.createDataFrame(pairs, "features array<float>, label float")
    df.coalesce(1).write.mode("append").parquet(str(folder))


def _by_hand(batches: int) -> np.ndarray:
    """Computes one step per batch on all of its rows, with persistent momentum."""
    weights, velocity = np.zeros(2), np.zeros(2)
    for batch in range(batches):
        features, labels = _rows(batch)
        gradient = 2 * features.T @ (features @ weights - labels) / ROWS
        velocity = MOMENTUM * velocity + gradient
        weights = weights - RATE * velocity
    return weights


def _trainer(**params: Any) -> SparkTrainer:
    given = {"model_fn": model_fn, "batchSize": ROWS, "syncMode": "sync", "progress": False}
    return SparkTrainer(**{**given, **params})


def _run(spark: SparkSession, source: Path, folder: Path, streaming: StreamingTrainer) -> None:
    stream = (
        spark.readStream.schema("features array<float>, label float")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(source))
    )
    query = (
        stream.writeStream.foreachBatch(streaming.foreachBatch)
        .option("checkpointLocation", str(folder / "query"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_batches_go_on_where_the_one_before_left_off(spark: SparkSession, tmp_path: Path) -> None:
    source, state = tmp_path / "source", tmp_path / "state"
    seen: list[int] = []

    def on_batch(model: SparkTrainerModel, batch_id: int) -> None:
        seen.append(batch_id)
        found = model.inference_model.variables["weights"]
        np.testing.assert_allclose(found, _by_hand(batch_id + 1), rtol=1e-4)

    for batch in range(2):
        _write(spark, source, batch)
    _run(spark, source, tmp_path, StreamingTrainer(_trainer(), str(state), on_batch))
    assert seen == [0, 1]
    # A new driver: only the directories are left of the previous one.
    _write(spark, source, 2)
    again = StreamingTrainer(_trainer(), str(state), on_batch, keepModels=2)
    _run(spark, source, tmp_path, again)
    assert seen == [0, 1, 2]
    assert again.state(spark) == StreamState(2, (1, 2), 3 * ROWS)
    model = StreamingTrainer(_trainer(), str(state)).model(spark)
    assert model is not None
    np.testing.assert_allclose(model.inference_model.variables["weights"], _by_hand(3), rtol=1e-4)
    assert sorted(path.name for path in state.iterdir()) == [
        "batch-000000001",
        "batch-000000002",
        "stream.json",
    ]


@pytest.mark.nightly
def test_a_batch_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    def frame(batch: int) -> DataFrame:
        features, labels = _rows(batch)
        pairs = [(x.tolist(), float(y)) for x, y in zip(features, labels, strict=True)]
        return spark.createDataFrame(pairs, "features array<float>, label float")

    streaming = StreamingTrainer(_trainer(), str(tmp_path))
    assert streaming.model(spark) is None
    broken = frame(0).withColumn("label", F.lit(None).cast("float"))
    with pytest.raises(ValueError, match="label"):
        streaming.foreachBatch(broken, 0)
    assert streaming.state(spark) == StreamState()
    streaming.foreachBatch(frame(0), 0)
    streaming.foreachBatch(frame(0), 0)
    streaming.foreachBatch(frame(1).limit(0), 1)
    assert streaming.state(spark) == StreamState(1, (0,), ROWS)
    # Killed after training, before the state was written: the batch arrives again and is not
    # trained on twice.
    before = (tmp_path / "stream.json").read_bytes()
    streaming.foreachBatch(frame(1), 2)
    (tmp_path / "stream.json").write_bytes(before)
    again = StreamingTrainer(_trainer(), str(tmp_path))
    again.foreachBatch(frame(1), 2)
    model = again.model(spark)
    assert model is not None
    np.testing.assert_allclose(model.inference_model.variables["weights"], _by_hand(2), rtol=1e-4)


def _numbers(spark: SparkSession, rows: int, seed: int, shift: float = 0.0) -> DataFrame:
    x = np.random.default_rng(seed).normal(size=rows) + shift
    pairs = [(float(each), 3.0 + 2.0 * float(each), 1.0 + shift) for each in x]
    return spark.createDataFrame(pairs, "x double, label double, weight double")


def test_batches_of_other_statistics_continue_the_same_model(
    spark: SparkSession, tmp_path: Path
) -> None:
    def streaming(rate: float, **params: Any) -> StreamingTrainer:
        given = {"featuresCol": ["x"], "weightCol": "weight", "learningRate": rate, "epochs": 2}
        return StreamingTrainer(
            SparkLinearRegressor(syncMode="sync", progress=False, **{**given, **params}),
            str(tmp_path),
        )

    def predictions(stream: StreamingTrainer) -> list[float]:
        model: Any = stream.model(spark)
        return [model.predict([x]) for x in (-2.0, 0.0, 2.0)]

    first = streaming(0.05)
    first.foreachBatch(_numbers(spark, 100, seed=0), 0)
    before = predictions(first)
    # A new driver. At this rate nothing is learnt from the rows, one or many.
    again = streaming(1e-12)
    again.foreachBatch(_numbers(spark, 1, seed=1, shift=40.0), 1)
    assert predictions(again) == pytest.approx(before, abs=1e-4)
    kept = again.state(spark).facts
    assert kept is not None
    assert kept == first.state(spark).facts == streaming(1.0).state(spark).facts
    assert kept["mean_weight"] == 1.0
    other = streaming(0.05, standardization=False)
    with pytest.raises(ValueError, match="the stream began with standardization=True"):
        other.foreachBatch(_numbers(spark, 10, seed=2), 2)
    named = _numbers(spark, 10, seed=2).withColumnRenamed("x", "z")
    with pytest.raises(ValueError, match="begin with another checkpointDir"):
        streaming(0.05, featuresCol={"z": "z"}).foreachBatch(named, 2)


def test_a_batch_that_leaves_no_rows_to_train_on_is_passed_over(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    estimator = SparkLinearRegressor(
        featuresCol=["x"], handleInvalid="skip", epochs=1, syncMode="sync", progress=False
    )
    stream = StreamingTrainer(estimator, str(tmp_path))
    rows = _numbers(spark, 20, seed=0)
    with caplog.at_level(logging.WARNING):
        stream.foreachBatch(rows.limit(0), 0)
        stream.foreachBatch(rows.withColumn("x", F.lit(float("nan"))), 1)
    assert "batch 0 is not trained on: The DataFrame has no rows" in caplog.text
    assert "batch 1 is not trained on: handleInvalid='skip' leaves none of the 20" in caplog.text
    assert stream.state(spark) == StreamState(1)
    stream.foreachBatch(rows, 2)
    marked = StreamingTrainer(
        estimator.copy({"validationIndicatorCol": "validates"}), str(tmp_path)
    )
    marked.foreachBatch(rows.withColumn("validates", F.lit(True)), 3)
    state = marked.state(spark)
    assert (state.batch_id, state.trained, state.rows) == (3, (2,), 20)


def test_what_cannot_work_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="checkpointDir is empty"):
        StreamingTrainer(_trainer(), "")
    with pytest.raises(ValueError, match="give the directory to StreamingTrainer only"):
        StreamingTrainer(_trainer(checkpointDir=str(tmp_path)), str(tmp_path))
    with pytest.raises(ValueError, match="keepModels=0"):
        StreamingTrainer(_trainer(), str(tmp_path), keepModels=0)


def test_states_that_are_none() -> None:
    state = StreamState(7, (5, 7), 100)
    assert StreamState.from_json(state.to_json(), "stream.json") == state
    with pytest.raises(SparkTrainingError, match=r"stream\.json is not the state of a stream"):
        StreamState.from_json(b'{"version": 1}', "stream.json")
    first = {"version": 1, "batch_id": 7, "trained": [5, 7], "rows": 100}
    assert StreamState.from_json(json.dumps(first).encode(), "stream.json") == state
    later = seal_json({**first, "version": 4})
    with pytest.raises(SparkTrainingError, match="of version 4"):
        StreamState.from_json(later, "stream.json")


def test_no_damage_gives_another_state() -> None:
    state = StreamState(7, (5, 7), 100, {"mean_weight": 0.5})
    said = []
    for damaged in damages(state.to_json()):
        try:
            assert StreamState.from_json(damaged, "stream.json") == state
        except (DataLossError, SparkTrainingError) as error:
            said.append(str(error))
    assert said
    assert all("stream.json" in each for each in said)
