"""What the driver counts in files before training."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sparkflow.spark import SparkTrainer
from sparkflow.spark.data.parquet.footers import read_footers
from sparkflow.spark.data.parquet.shares import ParquetShare, read_share
from sparkflow.spark.data.plan.parquet_rows import _class_rows, _num_classes, parquet_rows
from sparkflow.spark.data.plan.table_frame import frame_of
from sparkflow.spark.data.schema.row_format import DENSE, VALIDATES, Input, RowFormat
from sparkflow.spark.estimators.statistics import row_statistics

LABEL = RowFormat(
    (Input("x", DENSE, "float32", ()),), Input("label", DENSE, "int64", ()), None, named=False
)


@pytest.mark.parametrize(
    ("labels", "counted"),
    [
        ([Decimal(1), Decimal(3), Decimal(1), None], {1: 2, 3: 1}),
        ([datetime.date(1970, 1, 2), datetime.date(1970, 1, 4)], {1: 1, 3: 1}),
        ([False, True, True], {False: 1, True: 2}),
    ],
)
@pytest.mark.parametrize("statistics", [True, False])
def test_classes_are_numbers_whatever_the_labels_are(
    tmp_path: Path, labels: list[Any], counted: dict[Any, int], statistics: bool
) -> None:
    """Decimals and dates cannot be sent to the workers as JSON."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"label": labels}), path, write_statistics=statistics)
    files = read_footers(str(path))
    found = _class_rows(files, "label")
    assert found == counted
    json.dumps(list(found.items()))
    assert _num_classes(files, LABEL, "label") == max(counted) + 1


@pytest.mark.parametrize(
    ("given", "mean", "rows"),
    [
        ({"handleInvalid": "skip"}, 2.0, 3),
        ({"handleInvalid": "fill", "fillValue": 6.0}, 3.0, 4),
        ({"handleInvalid": "skip", "validationIndicatorCol": "holds"}, 1.5, 3),
    ],
)
def test_statistics_are_of_the_rows_that_train(
    spark: SparkSession, tmp_path: Path, given: dict[str, Any], mean: float, rows: int
) -> None:
    """An estimator that standardizes considers the rows that workers train on, not their NaNs."""
    columns = {
        "x": [1.0, float("nan"), 2.0, 3.0],
        "label": [0.0, 1.0, 0.0, 1.0],
        "holds": [False, False, False, True],
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    params = SparkTrainer(
        model_fn=lambda features, labels, mode: None, featuresCol="x", numWorkers=1, **given
    )
    prepared = parquet_rows(spark, str(path), params.config(), wants_rows=True).prepared
    found = row_statistics(prepared, of_features=True)
    (moments,) = found.features.values()
    assert float(np.ravel(moments.mean)[0]) == mean
    assert prepared.rows.count() == rows


@pytest.mark.parametrize("given", [{}, {"handleInvalid": "skip"}])
def test_rows_drawn_for_validation_are_in_no_statistics(
    spark: SparkSession, tmp_path: Path, given: dict[str, Any]
) -> None:
    numbers = np.arange(300.0)
    numbers[::50] = float("nan") if given else 0.0
    columns = {"x": numbers, "validates": [True] * 300, "label": numbers % 2}
    for part in range(2):
        table = pa.table(columns).slice(150 * part, 150)
        pq.write_table(table, tmp_path / f"{part}.parquet", row_group_size=40)
    params = SparkTrainer(
        model_fn=lambda features, labels, mode: None,
        featuresCol="x",
        numWorkers=2,
        validationFraction=0.3,
        seed=5,
        **given,
    )
    arranged = parquet_rows(spark, str(tmp_path), params.config(True), wants_rows=True)
    placed = arranged.place(2)[1]
    trained = []
    for message in filter(None, (row[0] for row in placed.df.collect())):  # of workers
        share = ParquetShare.from_json(json.loads(message)["parquet"])
        for batch in read_share(share):
            validates = np.array(batch.column(VALIDATES))
            x = np.concatenate([np.ravel(each) for each in batch.column(0).to_pylist()])
            trained += x[~validates].tolist()
    assert 150 < len(trained) < 250
    found = row_statistics(arranged.prepared, of_features=True)
    (moments,) = found.features.values()
    np.testing.assert_allclose(np.ravel(moments.mean), np.mean(trained), rtol=1e-6)
    np.testing.assert_allclose(np.ravel(moments.scale), np.std(trained), rtol=5e-3)


UNSIGNED = {
    "a": pa.array([250, 1, None], pa.uint8()),
    "b": pa.array([2**31, 2, 3], pa.uint32()),
    "c": pa.array([2**63 - 1, 2**64 - 1, 3], pa.uint64()),
    "d": pa.array([[1, 200], [3, 4], [5, 6]], pa.list_(pa.uint8())),
    "label": pa.array([0, 1, 1], pa.uint16()),
    "half": pa.array(np.ones(3, np.float16)),
}


def test_unsigned_numbers_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table(UNSIGNED), path)
    params = SparkTrainer(
        model_fn=lambda features, labels, mode: None,
        featuresCol={name: name for name in "abcd"},
        inputShapes={"d": [2]},
        numWorkers=1,
        handleInvalid="fill",
        fillValue=7,
    )
    arranged = parquet_rows(spark, path, params.config())
    kinds = {each.name: each.dtype for each in arranged.prepared.format.inputs}
    assert kinds == {**dict.fromkeys(["a", "b", "c", "d"], "int64"), "label": "int64"}
    assert arranged.prepared.num_classes == 2
    message = next(filter(None, (row[0] for row in arranged.place(1)[1].df.collect())))
    batches = list(read_share(ParquetShare.from_json(json.loads(message)["parquet"])))
    found = pa.Table.from_batches(batches).to_pydict()
    rows = sorted(zip(*(found[name] for name in "abcd"), strict=True))
    assert rows == [(1, 2, 7, [3, 4]), (7, 3, 3, [5, 6]), (250, 2**31, 2**63 - 1, [1, 200])]
    theirs = frame_of(spark, read_footers(path))
    (first, *_) = theirs.orderBy("b", ascending=False).collect()
    assert first.asDict() == {"a": 250, "b": 2**31, "c": 2**63 - 1, "d": [1, 200], "label": 0}
    signed = tmp_path / "signed.parquet"
    pq.write_table(pa.table(UNSIGNED).drop_columns(["half"]), signed)
    assert theirs.schema == spark.read.parquet(str(signed)).schema


def test_a_type_that_spark_lacks_is_told(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table(UNSIGNED), path)
    params = SparkTrainer(
        model_fn=lambda features, labels, mode: None, featuresCol=["a", "half"], numWorkers=1
    )
    with pytest.raises(TypeError, match=r"'half' of .*a\.parquet' is halffloat, a type that Spark"):
        parquet_rows(spark, path, params.config())
