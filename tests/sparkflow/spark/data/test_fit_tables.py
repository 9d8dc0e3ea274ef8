"""Whole fits on tables and on folders named after values: each row once, and no others."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sparkflow as tf
from sparkflow.spark import SparkLinearClassifier, SparkTrainer

DAY = datetime.date(2026, 11, 24)


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    """Learns nothing: the loss of a batch is the sum of all its numbers."""
    step = tf.train.get_or_create_global_step()
    x, day, shop = features["x"], features["day"], tf.strings.length(features["shop"])
    total = tf.cast(x + day + tf.cast(shop, tf.int64) * 1000, tf.float32)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"prediction": total})
    scale = tf.get_variable("scale", [], initializer=tf.ones_initializer())
    loss = tf.reduce_sum(total + tf.cast(labels, tf.float32)) * tf.stop_gradient(scale)
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=tf.group(tf.assign_add(step, 1), tf.assign(scale, scale)),
    )


def _trainer(**params: Any) -> SparkTrainer:
    return SparkTrainer(
        model_fn=model_fn,
        featuresCol={"x": "x", "day": "day", "shop": "shop"},
        labelCol="at",
        batchSize=100,
        progress=False,
        **params,
    )


def _rows(count: int) -> pa.Table:
    return pa.table(
        {
            "x": list(range(count)),
            "day": [DAY] * count,
            "shop": ["a b"] * count,
            "at": pa.array([3] * count, pa.timestamp("us", "UTC")),
        }
    )


def _expected(numbers: list[int]) -> float:
    days = (DAY - datetime.date(1970, 1, 1)).days
    return float(sum(number + days + 3000 + 3 for number in numbers))


def test_a_delta_table_is_trained_on(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "table")
    for _ in range(2):
        deltalake.write_deltalake(path, _rows(10), mode="append", partition_by=["day", "shop"])
    deltalake.DeltaTable(path).delete("x >= 4")
    model = _trainer().fitOnTable(path)
    assert model.history.rows_per_epoch == 8
    assert model.history.loss[-1] == pytest.approx(_expected([0, 1, 2, 3] * 2))
    model = _trainer().fitOnTable(path, version=0)
    assert model.history.loss[-1] == pytest.approx(_expected(list(range(10))))
    with pytest.raises(ValueError, match="or train by fitOnTable"):
        _trainer().fitOnParquet(path)


def test_an_iceberg_table_is_trained_on(spark: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", schema=_rows(1).schema.remove_metadata())
        table.append(_rows(10))
        table.delete("x >= 4")
        model = _trainer().fitOnTable(table.metadata_location)
        catalog.close()
    assert model.history.rows_per_epoch == 4
    assert model.history.loss[-1] == pytest.approx(_expected([0, 1, 2, 3]))


def test_folders_named_after_values_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    spark.createDataFrame(_rows(10)).write.partitionBy("day", "shop").parquet(path)
    one = _trainer().fitOnParquet(path)
    two = _trainer().fit(spark.read.parquet(path))
    assert one.history.loss == two.history.loss == [pytest.approx(_expected(list(range(10))))]


def test_estimators_that_look_at_all_rows_see_those_of_a_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "table")
    x = np.arange(40)
    table = pa.table({"x": x - 20.0, "day": [DAY] * 40, "label": (x > 20).astype(np.int64)})
    deltalake.write_deltalake(path, table, partition_by=["label"])
    deltalake.DeltaTable(path).delete("x > 15")
    classifier = SparkLinearClassifier(featuresCol=["x"], labelCol="label", epochs=1)
    model = classifier.fitOnTable(path)
    assert model.numClasses == 2


def test_times_of_any_year_and_labels_that_are_all_null(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = _rows(3).set_column(3, "at", pa.array([3, 2**62, None], pa.timestamp("us", "UTC")))
    rows = rows.append_column("label", pa.array([None] * 3, pa.int64()))
    pq.write_table(rows, tmp_path / "a.parquet")
    trainer = _trainer(handleInvalid="skip")
    assert trainer.fitOnParquet(str(tmp_path)).history.rows_per_epoch == 2
    with pytest.raises(ValueError, match="Found in label column 'label': 3 of 3 rows"):
        trainer.setParams(labelCol="label", handleInvalid="error").fitOnParquet(str(tmp_path))
