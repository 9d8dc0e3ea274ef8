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
