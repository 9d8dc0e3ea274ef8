"""What the driver counts in files before training."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkflow.spark.data.parquet.footers import read_footers
from sparkflow.spark.data.plan.parquet_rows import _class_rows, _num_classes
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat

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
