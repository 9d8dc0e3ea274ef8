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
from sparkflow.spark.data.plan.parquet_rows import _class_rows, _num_classes, parquet_rows
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
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
    """Decimals and dates cannot travel to the workers as JSON."""
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
    """An estimator that standardizes looks at what the workers train on, not at its NaNs."""
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
