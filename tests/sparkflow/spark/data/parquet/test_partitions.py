"""Columns in folders' names: values, nulls, escapes and types, as in Spark."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession, functions as F

from sparkflow.spark.data.parquet.footers import read_footers
from sparkflow.spark.data.parquet.partitions import inferred, partition_values
from sparkflow.spark.data.parquet.shares import ParquetShare, deal_groups, read_share
from sparkflow.spark.data.parquet.stored_bytes import column_digest
from sparkflow.spark.data.schema.row_format import DENSE, Input
from sparkflow.spark.data.schema.row_schema import SCALARS, InputColumns


def test_values_are_what_the_folders_below_the_root_say() -> None:
    found = partition_values(
        "/a=1/root", ["/a=1/root/day=2026-11-24/x%3Dy=b%2Fc%25/1", "/a=1/root/day=/x%3Dy=d/other/2"]
    )
    assert list(found.values()) == [
        {"day": "2026-11-24", "x=y": "b/c%"},
        {"day": None, "x=y": "d"},
    ]
    null = "__HIVE_DEFAULT_PARTITION__"
    assert partition_values("r", [f"r/a={null}/b=1/1", "r/a=2/2"]) == {
        f"r/a={null}/b=1/1": {"a": None},
        "r/a=2/2": {"a": "2"},
    }


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "01", "-3", None], pa.int64()),
        (["1", str(2**63)], pa.float64()),
        (["1", "2.5e3", ".5"], pa.float64()),
        (["2026-11-24", None], pa.date32()),
        (["2026-02-31"], pa.string()),
        (["2026-11-24", "1"], pa.string()),
        (["1", "x"], pa.string()),
        (["nan"], pa.string()),
        ([None], pa.string()),
    ],
)
def test_types_are_inferred_from_all_values(texts: list[str | None], kind: pa.DataType) -> None:
    assert inferred(texts) == kind


def _share(path: Path, *columns: tuple[str, str]) -> ParquetShare:
    files = read_footers(str(path))
    inputs = tuple(
        InputColumns(Input(name, DENSE, dtype, ()), SCALARS, (name,)) for name, dtype in columns
    )
    pieces = deal_groups(files.groups, 1, None)[0]
    names = [name for name, _ in columns]
    layouts = files.layouts.of_pieces(pieces, names)
    share = ParquetShare(files.uri, pieces, inputs, invalid="fill", layouts=layouts)
    return ParquetShare.from_json(json.loads(json.dumps(share.to_json())))


def _rows(share: ParquetShare) -> list[tuple[Any, ...]]:
    names = [each.input.name for each in share.columns]
    found = pa.Table.from_batches(list(read_share(share)))
    return sorted(zip(*(found.column(name).to_pylist() for name in names), strict=True))


def test_rows_have_the_values_of_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in ("2026-11-23", "2026-11-24", "__HIVE_DEFAULT_PARTITION__"):
        for shop in ("a b", "ä/%"):
            folder = (
                tmp_path / f"day={day}" / f"shop={shop.replace('%', '%25').replace('/', '%2F')}"
            )
            folder.mkdir(parents=True)
            # The folder's name takes precedence over the file.
            pq.write_table(pa.table({"x": [1, 2, 3], "day": ["?"] * 3}), folder / "1.parquet")
    share = _share(tmp_path, ("x", "int64"), ("day", "int64"), ("shop", "string"))
    days = [0, (datetime.date(2026, 11, 23) - datetime.date(1970, 1, 1)).days]
    days.append(days[1] + 1)
    shops = [b"a b", "ä/%".encode()]
    expected = sorted((x, day, shop) for x in (1, 2, 3) for day in days for shop in shops)
    assert _rows(share) == expected
    assert len(set(_rows(_share(tmp_path, ("day", "int64"))))) == 3
    monkeypatch.setattr("sparkflow.spark.data.parquet.shares._MAX_GROUP_BYTES", 1)
    assert _rows(share) == expected
    files = read_footers(str(tmp_path))
    assert next(part.to_pylist() for part in files.read("shop")) == ["a b"] * 3
    assert files.range_of("day") == (datetime.date(2026, 11, 23), datetime.date(2026, 11, 24))
    assert set(files.head(2).column_names) == {"x", "day", "shop"}
    files.require_columns(["x", "day", "shop"])


def test_the_digest_knows_the_folders_that_are_used(tmp_path: Path) -> None:
    digests = []
    for value in ("1", "2"):
        folder = tmp_path / value / f"p={value}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [1]}), folder / "1.parquet")
        files = read_footers(str(tmp_path / value))
        digests.append([column_digest(files, names) for names in (["x"], ["x", "p"])])
    assert digests[0][0] == digests[1][0]
    assert digests[0][1] != digests[1][1]


def test_spark_has_the_same_values_and_kinds(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    df = spark.range(12).select(
        "id",
        F.when(F.col("id") > 3, F.col("id") % 3).alias("whole"),
        (F.col("id") % 2 + 0.5).alias("real"),
        F.date_add(F.lit("2026-11-24").cast("date"), (F.col("id") % 2).cast("int")).alias("day"),
        F.when(F.col("id") % 3 == 0, "a=b/c%d").otherwise("e:f").alias("text"),
    )
    df.write.partitionBy("whole", "real", "day", "text").parquet(path)
    files = read_footers(path)
    theirs = spark.read.parquet(path)
    kinds = {field.name: field.type for field in files.schema}
    assert kinds["whole"] == pa.int64()
    assert [str(kinds[name]) for name in ("real", "day", "text")] == [
        "double",
        "date32[day]",
        "string",
    ]
    assert dict(theirs.dtypes) == {
        "id": "bigint",
        "whole": "int",
        "real": "double",
        "day": "date",
        "text": "string",
    }
    names = [field.name for field in files.schema]
    columns = [[value for part in files.read(name) for value in part.to_pylist()] for name in names]
    found = set(zip(*columns, strict=True))
    assert found == {tuple(row) for row in theirs.select(*names).collect()}


@pytest.mark.parametrize(
    "names",
    [
        ["a", "more/b", "a/b"],
        ["day=3/a", "day=4/more/b"],
        ["more/day=3/a"],
    ],
)
def test_the_files_are_those_that_spark_reads(
    spark: SparkSession, tmp_path: Path, names: list[str]
) -> None:
    for name in names:
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [1]}), path)
    theirs = [
        each.removeprefix("file://") for each in spark.read.parquet(str(tmp_path)).inputFiles()
    ]
    for uri in (str(tmp_path), f"{tmp_path}/", f"file://{tmp_path}"):
        files = read_footers(uri)
        assert [path for path, _ in files.footers] == sorted(theirs)


def test_files_that_spark_does_not_find_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "more").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "more" / "a.parquet")
    with pytest.raises(ValueError, match=r"no Parquet files in .* itself.*more/a\.parquet"):
        read_footers(str(tmp_path))
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
    assert read_footers(str(tmp_path)).rows == 1
    assert "1 files in folders below" in caplog.text
    (tmp_path / "day=3").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "day=3" / "c.parquet")
    with pytest.raises(ValueError, match=r"day=3/c\.parquet is in a folder named after a value"):
        read_footers(str(tmp_path))
