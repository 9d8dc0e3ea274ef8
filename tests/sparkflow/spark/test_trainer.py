"""`SparkTrainer` on `local[4]`: what it learns, and how its models behave."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import DenseVector
from pyspark.sql import DataFrame, SparkSession, functions as F

import sparkflow as tf
from sparkflow.export import InferenceModel
from sparkflow.spark import SparkTrainer, SparkTrainerModel
from sparkflow_runtime.events.event_file import read_scalars
from support.processes import left_after

pytestmark = [
    pytest.mark.timeout(300),
    # The progress bar of a finished training is closed by then.
    pytest.mark.usefixtures("child_processes"),
]

ROWS = 203
WEIGHTS = np.array([1.0, -2.0, 3.0], np.float32)
BIAS = 0.5


def regression(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    """y = x w + b, with plain gradient descent."""
    dim = features.shape.as_list()[1]
    weights = tf.get_variable("weights", [dim, 1], initializer=tf.zeros_initializer())
    bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
    prediction = tf.squeeze(tf.matmul(features, weights) + bias, axis=[1])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"prediction": prediction})
    loss = tf.reduce_mean(tf.square(prediction - labels))
    optimizer = tf.train.GradientDescentOptimizer(params.get("rate", 0.1))
    train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def classification(features: Any, labels: Any, mode: str) -> Any:
    """Two classes and everything that a model may return."""
    logits = tf.layers.dense(features, 2, name="logits")
    if mode == tf.estimator.ModeKeys.PREDICT:
        probability = tf.nn.softmax(logits)
        return tf.estimator.EstimatorSpec(
            mode,
            predictions={
                "prediction": tf.argmax(logits, axis=1),
                "probability": probability,
                "rawPrediction": logits,
                "margin": logits[:, 1] - logits[:, 0],
                "sure": tf.greater(tf.reduce_max(probability, axis=1), 0.9),
                "doubled": features * 2.0,
            },
        )
    assert labels.dtype == tf.int64
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=tf.train.AdamOptimizer(0.05).minimize(loss)
    )


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, 3)).astype(np.float32)
    return x, x @ WEIGHTS + BIAS


@pytest.fixture(scope="module")
def df(spark: SparkSession, data: tuple[np.ndarray, np.ndarray]) -> DataFrame:
    """In partitions of uneven sizes, some of them empty."""
    rows = [
        (i, x.tolist(), *x.tolist(), float(y), int(y > 0))
        for i, (x, y) in enumerate(zip(*data, strict=True))
    ]
    schema = "id int, features array<double>, a double, b double, c double, label double, class int"
    pieces = [rows[:3], [], rows[3:150], rows[150:]]
    rdd = spark.sparkContext.parallelize(pieces, len(pieces)).flatMap(lambda piece: piece)
    return spark.createDataFrame(rdd, schema).cache()


def _by_hand(
    data: tuple[np.ndarray, np.ndarray], batch_size: int, epochs: int
) -> tuple[list[float], np.ndarray]:
    """Losses and weights of gradient descent on batches in the order of the rows."""
    x = np.concatenate([data[0], np.ones((ROWS, 1), np.float32)], axis=1).astype(np.float64)
    y = data[1].astype(np.float64)
    weights = np.zeros(4)
    losses = []
    for _ in range(epochs):
        for start in range(0, ROWS, batch_size):
            part = slice(start, start + batch_size)
            error = x[part] @ weights - y[part]
            losses.append(float(np.mean(error**2)))
            weights = weights - 0.1 * 2 * x[part].T @ error / len(error)
    return losses, weights


def test_synchronous_workers_compute_what_one_process_would(
    df: DataFrame, data: tuple[np.ndarray, np.ndarray]
) -> None:
    trainer = SparkTrainer(
        model_fn=regression,
        numWorkers=3,
        numPs=1,
        batchSize=10,
        epochs=2,
        syncMode="sync",
        shuffle=False,
        progress=False,
    )
    model = trainer.fit(df)
    losses, weights = _by_hand(data, 30, 2)
    np.testing.assert_allclose(model.history.loss, losses, rtol=1e-5, atol=1e-7)
    assert model.history.rows == ([30] * 6 + [23]) * 2
    found = model.inference_model.variables
    np.testing.assert_allclose(found["weights"][:, 0], weights[:3], rtol=1e-5)
    np.testing.assert_allclose(found["bias"], weights[3:], rtol=1e-5)
    assert model.uid == trainer.uid


def test_a_model_is_learnt_saved_and_read_again(
    df: DataFrame, tmp_path: Path, data: tuple[np.ndarray, np.ndarray]
) -> None:
    trainer = SparkTrainer(
        model_fn=regression,
        numWorkers=2,
        numPs=2,
        batchSize=16,
        epochs=8,
        progress=False,
        logDir=str(tmp_path / "log"),
    )
    model = trainer.fit(df, {trainer.prediction_col: "y", trainer.model_params: {"rate": 0.05}})
    history = model.history
    assert sum(history.rows) == 8 * ROWS
    assert sorted(set(history.worker)) == [0, 1]
    assert history.epoch_loss[-1] < 1e-3 < history.epoch_loss[0]
    scalars = read_scalars(next((tmp_path / "log").glob("*/train/*")))
    found = [value for _, value in scalars["epoch_loss"]]
    np.testing.assert_allclose(found, history.epoch_loss, rtol=1e-6)

    path = str(tmp_path / "model")
    model.save(path)
    with pytest.raises(Exception, match=r"(?i)already exists"):
        model.save(path)
    model.write().overwrite().save(path)
    loaded = SparkTrainerModel.load(path)
    assert loaded.uid == model.uid
    assert loaded.getPredictionCol() == "y"
    assert loaded.history == history
    rows = loaded.transform(df).select("label", "y").collect()
    np.testing.assert_allclose([r["y"] for r in rows], [r["label"] for r in rows], atol=0.05)

    # Without Spark, only from the files.
    alone = InferenceModel.load(path)
    x, _ = data
    expected = x @ alone.variables["weights"][:, 0] + alone.variables["bias"]
    np.testing.assert_allclose(alone.predictor()(x)["prediction"], expected, rtol=1e-5)
    description = json.loads(Path(path, "model.json").read_text())
    assert description["params"]["batchSize"] == 16
    assert not any(b"\x80\x04\x95" in file.read_bytes() for file in Path(path).glob("*.*"))


def test_scalar_columns_and_class_labels_give_spark_ml_columns(
    df: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = SparkTrainer(
        model_fn=classification,
        featuresCol=["a", "b", "c"],
        labelCol="class",
        batchSize=32,
        epochs=20,
        progress=False,
    )
    model = trainer.fit(df)
    predicted = model.transform(df.where("id % 2 = 0"))
    types = dict(predicted.dtypes)
    assert [types[n] for n in ("prediction", "margin", "sure", "doubled")] == [
        "double",
        "double",
        "boolean",
        "array<float>",
    ]
    assert predicted.columns[: len(df.columns)] == df.columns
    rows = predicted.orderBy("id").collect()
    assert len(rows) == (ROWS + 1) // 2
    assert np.mean([r["prediction"] == r["class"] for r in rows]) > 0.95
    for row in rows[:20]:
        probability = row["probability"]
        assert isinstance(probability, DenseVector)
        assert probability.argmax() == row["prediction"] == row["rawPrediction"].argmax()
        assert sum(probability) == pytest.approx(1)
        assert row["sure"] == (max(probability) > 0.9)
        np.testing.assert_allclose(row["doubled"], np.multiply(row["features"], 2), rtol=1e-5)
    assert model.transform(df.limit(0)).collect() == []
    monkeypatch.delattr(F, "arrow_udf", raising=False)  # as with Spark before 4.1
    assert model.transform(df.where("id % 2 = 0")).orderBy("id").collect() == rows


def test_a_pipeline_with_vectors_is_saved_and_read_again(df: DataFrame, tmp_path: Path) -> None:
    assembler = VectorAssembler(inputCols=["a", "b", "c"], outputCol="vector")
    trainer = SparkTrainer(
        model_fn=regression, features_col="vector", batch_size=64, epochs=3, progress=False
    )
    fitted = Pipeline(stages=[assembler, trainer]).fit(df)
    fitted.save(str(tmp_path / "pipeline"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline"))
    first, second = (
        [row["prediction"] for row in each.transform(df).orderBy("id").collect()]
        for each in (fitted, loaded)
    )
    assert first == second


def test_training_repeats_itself(df: DataFrame) -> None:
    def losses(seed: int) -> list[float]:
        trainer = SparkTrainer(
            model_fn=regression,
            numWorkers=2,
            batchSize=16,
            syncMode="sync",
            seed=seed,
            progress=False,
        )
        return list(trainer.fit(df).history.loss)

    first = losses(1)
    assert losses(1) == first
    assert losses(2) != first


def test_rows_that_come_out_of_a_shuffle(df: DataFrame) -> None:
    """Spark may merge small partitions of a shuffle differently in each query; ours must agree."""
    joined = df.join(df.select("id", (F.col("id") + 1).alias("next")).repartition(7), "id")
    trainer = SparkTrainer(model_fn=regression, numWorkers=3, batchSize=8, progress=False)
    model = trainer.fit(joined.where("next % 3 > 0"))
    rows = sum((i + 1) % 3 > 0 for i in range(ROWS))
    assert sum(model.history.rows) == rows


def test_fewer_rows_than_workers(df: DataFrame) -> None:
    trainer = SparkTrainer(model_fn=regression, numWorkers=3, epochs=2, progress=False)
    model = trainer.fit(df.where("id < 2"))
    assert model.history.rows == [1] * 4


def test_the_bar_shows_step_loss_and_rows(
    df: DataFrame, capfd: pytest.CaptureFixture[str], child_processes: Callable[[], list[int]]
) -> None:
    SparkTrainer(model_fn=regression, batchSize=50, epochs=2).fit(df)
    shown = capfd.readouterr().err
    assert "waiting for 2 of 2 tasks" in shown
    assert "epoch 2/2, step 10/10, loss" in shown
    assert "rows/s" in shown
    assert left_after(child_processes) == []
