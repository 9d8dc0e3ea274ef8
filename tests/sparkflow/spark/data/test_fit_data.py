"""Whole fits: exact epochs and equal results, in whichever way rows arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

import sparkflow as tf
from sparkflow.spark import SparkTrainer
from sparkflow.spark.data.plan import spooled

pytestmark = pytest.mark.spark


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    """Linear regression."""
    value = tf.layers.dense(features, 1, name="line")[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"prediction": value})
    loss = tf.reduce_mean(tf.square(value - labels))
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _uneven(spark: SparkSession, sizes: list[int]) -> DataFrame:
    """Rows in partitions of these sizes."""
    parts = [[(part, place) for place in range(size)] for part, size in enumerate(sizes)]
    rdd = spark.sparkContext.parallelize(parts, len(sizes)).flatMap(lambda rows: rows)
    df = spark.createDataFrame(rdd, "part int, place int")
    x, y = F.sin(F.col("place") + F.col("part")), F.cos(F.col("place") * 2 - F.col("part"))
    return df.select(F.array(x, y).alias("features"), (x - y).alias("label"))


def _fit(df: DataFrame, **params: Any) -> Any:
    given = {"numWorkers": 2, "numPs": 1, "batchSize": 8, "epochs": 2, "progress": False}
    return SparkTrainer(model_fn=model_fn, **{**given, **params}).fit(df)


def _values(model: Any) -> list[npt.NDArray[Any]]:
    return [value for _, value in sorted(model.inference_model.variables.items())]


@pytest.mark.parametrize(
    ("mode", "is_local"),
    [
        ("async", True),
        ("sync", True),
        ("ssp", True),
        ("allreduce", True),
        ("async", False),
        ("allreduce", False),
    ],
)
def test_uneven_partitions_give_exact_epochs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mode: str, is_local: bool
) -> None:
    if not is_local:
        monkeypatch.setattr(spooled, "is_local", lambda dataset: False)
    servers = {"numPs": 0} if mode == "allreduce" else {}
    model = _fit(_uneven(spark, [50, 0, 0, 51]), syncMode=mode, **servers)
    assert sum(model.history.epoch_rows) == 202


def test_one_row_is_enough(spark: SparkSession) -> None:
    assert _fit(_uneven(spark, [0, 1])).history.epoch_rows == [1, 1]


def test_in_step_neither_partitions_nor_the_way_of_the_rows_change_the_result(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = _uneven(spark, [20, 0, 13])
    expected = _values(_fit(df, syncMode="sync"))
    monkeypatch.setattr(spooled, "is_local", lambda dataset: False)
    found = _values(_fit(df.repartition(5), syncMode="sync"))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_parquet_files_are_read_by_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    _uneven(spark, [30, 0, 7, 5]).write.parquet(path)
    trainer = SparkTrainer(
        model_fn=model_fn,
        numWorkers=2,
        batchSize=8,
        epochs=3,
        syncMode="sync",
        validationFraction=0.2,
        progress=False,
    )
    model = trainer.fitOnParquet(path)
    training = model.history.rows_per_epoch
    assert 22 < training < 42
    assert sum(model.history.epoch_rows) == 3 * training
    assert len(model.history.validation) == 3


@pytest.mark.parametrize("is_local", [True, False])
def test_names_of_inputs_may_hold_dots(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    def of_dots(features: Any, labels: Any, mode: str) -> Any:
        return model_fn(features["all.of them"], labels, mode)

    if not is_local:
        monkeypatch.setattr(spooled, "is_local", lambda df: False)
    df = _uneven(spark, [20, 20]).withColumnRenamed("features", "some.features")
    # Rows from Python are looked at by a task of Python.
    df = spark.createDataFrame(df.toPandas(), df.schema)
    model = SparkTrainer(
        model_fn=of_dots,
        featuresCol={"all.of them": "some.features"},
        inputShapes={"all.of them": [2]},
        numWorkers=1,
        epochs=1,
        batchSize=8,
        checkpointDir=str(tmp_path),
        validationFraction=0.2,
        progress=False,
    ).fit(df)
    assert model.transform(df).where("prediction is not null").count() == 40
