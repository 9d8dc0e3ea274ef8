"""The `tfrecord` format through Spark."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from sparkflow.io.tfrecord import TFRecordWriter, tf_record_iterator
from sparkflow_runtime.protos.example_pb2 import Example
from sparkflow_runtime.protos.feature_pb2 import BytesList, Feature, FloatList, Int64List

pytest.importorskip("pyspark.sql.datasource", reason="Python data sources came with pyspark 4.0")
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def registered(spark: SparkSession) -> SparkSession:
    from sparkflow.spark import TFRecordDataSource

    spark.dataSource.register(TFRecordDataSource)
    return spark


def _example(number: int) -> Example:
    example = Example()
    features = example.features.feature
    features["id"].int64_list.value.append(number)
    features["x"].float_list.value.extend([number / 2, 1.0, -1.0])
    features["words"].bytes_list.value.extend([b"w"] * (number % 3))
    if number % 2:
        features["name"].bytes_list.value.append(f"n{number}".encode())
    return example


def _write(path: Path, numbers: range, compression: str = "") -> None:
    with TFRecordWriter(str(path), compression) as writer:
        for number in numbers:
            writer.write(_example(number).SerializeToString())


def _read(spark: SparkSession, path: Any, **options: Any) -> DataFrame:
    return spark.read.format("tfrecord").options(**options).load(str(path))


def test_files_are_read_with_the_schema_found(registered: SparkSession, tmp_path: Path) -> None:
    _write(tmp_path / "a.tfrecord", range(5))
    _write(tmp_path / "b.tfrecord.gz", range(5, 8), "GZIP")
    df = _read(registered, tmp_path)
    assert df.schema.simpleString() == (
        "struct<id:bigint,name:binary,words:array<binary>,x:array<float>>"
    )
    rows = sorted(df.withColumn("part", F.spark_partition_id()).collect())
    assert [row.id for row in rows] == list(range(8))
    assert [row.x for row in rows] == [[n / 2, 1.0, -1.0] for n in range(8)]
    assert [row["name"] for row in rows] == [f"n{n}".encode() if n % 2 else None for n in range(8)]
    assert [len(row.words or ()) for row in rows] == [n % 3 for n in range(8)]
    assert len({row.part for row in rows[:5]}) == len({row.part for row in rows[5:]}) == 1
    assert df.count() == 8


def test_a_given_schema_chooses_and_converts(registered: SparkSession, tmp_path: Path) -> None:
    _write(tmp_path / "a.tfrecord", range(3))
    schema = "x array<double>, name string, id int, other float"
    reader = registered.read.format("tfrecord").schema(schema)
    assert [tuple(row) for row in reader.load(str(tmp_path)).collect()] == [
        ([0.0, 1.0, -1.0], None, 0, None),
        ([0.5, 1.0, -1.0], "n1", 1, None),
        ([1.0, 1.0, -1.0], None, 2, None),
    ]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_what_is_written_is_read_again(
    registered: SparkSession, tmp_path: Path, compression: str
) -> None:
    df = registered.createDataFrame(
        [(i, i / 4, f"t{i}" if i % 3 else None, [i] * i, i % 2 == 0) for i in range(10)],
        "i bigint, f double, t string, list array<int>, even boolean",
    ).repartition(3)
    out = tmp_path / "out"
    df.write.format("tfrecord").option("compression", compression).mode("append").save(str(out))
    assert (out / "_SUCCESS").is_file()
    assert not (out / "_temporary").exists()
    files = sorted(out.glob("part-*"))
    assert len(files) == 3
    kind = "GZIP" if compression == "gzip" else ""
    records = [r for file in files for r in tf_record_iterator(str(file), kind)]
    assert len(records) == 10
    examples = {e.features.feature["i"].int64_list.value[0]: e for e in map(_parsed, records)}
    assert examples[4] == Example(
        features={
            "feature": {
                "i": Feature(int64_list=Int64List(value=[4])),
                "f": Feature(float_list=FloatList(value=[1.0])),
                "t": Feature(bytes_list=BytesList(value=[b"t4"])),
                "list": Feature(int64_list=Int64List(value=[4] * 4)),
                "even": Feature(int64_list=Int64List(value=[1])),
            }
        }
    )
    assert "t" not in examples[3].features.feature
    back = registered.read.format("tfrecord").schema(df.schema).load(str(out))
    assert sorted(back.collect()) == sorted(df.collect())
    df.limit(2).write.format("tfrecord").mode("overwrite").save(str(out))
    assert _read(registered, out).count() == 2


def _parsed(record: bytes) -> Example:
    return Example.FromString(record)


def test_a_failed_write_leaves_nothing(registered: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    # One partition: Spark does not wait for other tasks before it aborts the write.
    ids = registered.range(0, 100, 1, 1)
    bad = ids.select(
        F.when(F.col("id") < 99, F.col("id"))
        .otherwise(F.raise_error(F.lit("row 99 is bad")).cast("bigint"))
        .alias("id")
    )
    with pytest.raises(Exception, match="row 99 is bad"):
        bad.write.format("tfrecord").mode("append").save(str(out))
    assert [path for path in out.rglob("*") if path.is_file()] == []


def test_types_that_no_feature_has(registered: SparkSession, tmp_path: Path) -> None:
    df = registered.range(1).select(F.current_date().alias("day"))
    with pytest.raises(Exception, match="Column 'day' is date"):
        df.write.format("tfrecord").mode("append").save(str(tmp_path / "out"))


def test_a_damaged_file_is_named(registered: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    _write(path, range(3))
    path.write_bytes(path.read_bytes()[:-3])
    df = registered.read.format("tfrecord").schema("id bigint").load(str(tmp_path))
    with pytest.raises(Exception, match=r"record at byte \d+ of \S*a\.tfrecord is damaged"):
        df.collect()


def test_whole_records(registered: SparkSession, tmp_path: Path) -> None:
    df = registered.createDataFrame([(b"one",), (b"",)], "byteArray binary")
    raw = {"recordType": "ByteArray"}
    df.write.format("tfrecord").options(**raw).mode("append").save(str(tmp_path / "out"))
    back = _read(registered, tmp_path / "out", **raw)
    assert sorted(bytes(row.byteArray) for row in back.collect()) == [b"", b"one"]
