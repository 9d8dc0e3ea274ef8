"""Rows of files as a DataFrame, as defined by their layouts."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import SparkSession

from sparkflow.spark.data.parquet.footers import read_footers
from sparkflow.spark.data.plan.table_frame import frame_of


def test_all_rows_come_once_with_spark_types(spark: SparkSession, tmp_path: Path) -> None:
    at = datetime.datetime(2026, 3, 29, 1, 30)
    for day in ("2026-11-23", "2026-11-24"):
        (tmp_path / f"day={day}").mkdir()
        table = pa.table(
            {
                "x": [1, 2, 3],
                "money": [Decimal("1.25"), None, Decimal("3.00")],
                "at": pa.array([at] * 3, pa.timestamp("us")),
                "ids": [[1], [], None],
                "unknown": pa.array([1, 2, 3], pa.time64("ns")),
            }
        )
        pq.write_table(table, tmp_path / f"day={day}" / "a.parquet", row_group_size=2)
    df = frame_of(spark, read_footers(str(tmp_path)))
    assert dict(df.dtypes) | {"unknown": ""} == {
        "x": "bigint",
        "money": "decimal(3,2)",
        "at": "timestamp_ntz",
        "ids": "array<bigint>",
        "day": "date",
        "unknown": "",
    }
    found = [
        tuple(row)
        for row in df.select("day", "x", "money", "at", "ids").orderBy("day", "x").collect()
    ]
    days = [datetime.date(2026, 11, 23), datetime.date(2026, 11, 24)]
    rows = [(1, Decimal("1.25"), at, [1]), (2, None, at, []), (3, Decimal("3.00"), at, None)]
    assert found == [(day, *row) for day in days for row in rows]


def test_vectors_are_those_of_spark_ml(spark: SparkSession, tmp_path: Path) -> None:
    """Also if the table is not written by Spark, whose footers describe the columns."""
    lists = {"indices": pa.list_(pa.int32()), "values": pa.list_(pa.float64())}
    kind = pa.struct({"type": pa.int8(), "size": pa.int32(), **lists})
    stored = [
        {"type": 1, "values": [1.0, 2.0]},
        {"type": 0, "size": 3, "indices": [1], "values": [5.0]},
        None,
    ]
    pq.write_table(pa.table({"v": pa.array(stored, kind)}), tmp_path / "a.parquet")
    df = frame_of(spark, read_footers(str(tmp_path)))
    assert isinstance(df.schema["v"].dataType, VectorUDT)
    expected = [Vectors.dense([1.0, 2.0]), Vectors.sparse(3, [1], [5.0]), None]
    assert [row.v for row in df.collect()] == expected


def test_times_that_python_lacks_are_no_range(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([1, 2**62], pa.timestamp("us"))}), tmp_path / "a")
    assert read_footers(str(tmp_path)).range_of("at") is None
