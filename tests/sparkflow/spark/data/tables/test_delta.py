"""Tables that the library deltalake writes, and logs of others that it cannot write."""

from __future__ import annotations

import datetime
import json
import struct
import uuid
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkflow.spark.data.parquet.footers import ParquetFiles
from sparkflow.spark.data.parquet.shares import ParquetShare, deal_groups, read_share
from sparkflow.spark.data.parquet.stored_bytes import column_digest
from sparkflow.spark.data.schema.row_format import DENSE, Input
from sparkflow.spark.data.schema.row_schema import SCALARS, InputColumns
from sparkflow.spark.data.tables.delta import delta_files
from sparkflow_runtime.errors import NotFoundError

deltalake = pytest.importorskip("deltalake", reason="pip install 'sparkflow-ml[delta]'")

DTYPES = {"string": "string", "double": "float32", "float": "float32"}


def share_of(files: ParquetFiles, *names: str, workers: int = 1, worker: int = 0) -> ParquetShare:
    """What a worker receives, after serialization."""
    kinds = {name: str(files.schema.field(name).type) for name in names}
    inputs = tuple(
        InputColumns(Input(name, DENSE, DTYPES.get(kind, "int64"), ()), SCALARS, (name,))
        for name, kind in kinds.items()
    )
    pieces = deal_groups(files.groups, workers, None)[worker]
    layouts = files.layouts.of_pieces(pieces, names)
    share = ParquetShare(
        files.uri, pieces, inputs, invalid="fill", fill=-1, layouts=layouts, origin=files.origin
    )
    return ParquetShare.from_json(json.loads(json.dumps(share.to_json())))


def rows_of(files: ParquetFiles, *names: str, workers: int = 1) -> list[tuple[Any, ...]]:
    """The rows of all workers, sorted."""
    found: list[tuple[Any, ...]] = []
    for worker in range(workers):
        for batch in read_share(share_of(files, *names, workers=workers, worker=worker)):
            found += zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    files.require_columns(names)
    return sorted(found)


def _table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def test_versions_are_pinned(tmp_path: Path) -> None:
    path = str(tmp_path / "a b%c")
    deltalake.write_deltalake(path, _table(x=[1, 2]))
    deltalake.write_deltalake(path, _table(x=[3]), mode="append")
    between = datetime.datetime.now(datetime.timezone.utc)
    pinned = delta_files(path)
    deltalake.write_deltalake(path, _table(x=[7, 8]), mode="overwrite")
    assert rows_of(delta_files(path), "x") == [(7,), (8,)]
    for files in (
        pinned,
        delta_files(path, 1),
        delta_files(path, between),
        delta_files(path, between.isoformat()),
        delta_files(deltalake.DeltaTable(path, version=1)),
        delta_files(f"file://{tmp_path}/a%20b%25c", 1),
    ):
        assert rows_of(files, "x") == [(1,), (2,), (3,)]
        assert files.origin.startswith("version 1 of the Delta table ")
    assert column_digest(pinned, ["x"]) == column_digest(delta_files(path, 1), ["x"])
    assert column_digest(pinned, ["x"]) != column_digest(delta_files(path), ["x"])


def test_a_file_that_vacuum_deleted_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, _table(x=[1, 2]))
    pinned = delta_files(path)
    deltalake.write_deltalake(path, _table(x=[3]), mode="overwrite")
    deltalake.DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(NotFoundError, match=r"of version 0 of the Delta table .*vacuum"):
        rows_of(pinned, "x")
    with pytest.raises(FileNotFoundError):
        delta_files(path, 0)


def test_partitions_have_the_types_of_the_table(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    days = [datetime.date(2026, 11, 24), datetime.date(2026, 11, 25), None]
    table = pa.table(
        {
            "x": pa.array([1, 2, 3], pa.int32()),
            "day": pa.array(days, pa.date32()),
            "name": ["a b", "c%d/e", "ä="],
            "code": ["01", "1", None],
            "at": pa.array([1_000_001, None, -1], pa.timestamp("us", "UTC")),
        }
    )
    deltalake.write_deltalake(path, table, partition_by=["day", "name", "code", "at"])
    files = delta_files(path)
    first = (days[0] - datetime.date(1970, 1, 1)).days
    assert rows_of(files, "x", "day", "name", "code", "at") == [
        (1, first, b"a b", b"01", 1_000_001),
        (2, first + 1, b"c%d/e", b"1", -1),
        (3, -1, "ä=".encode(), b"", -1),
    ]
    assert files.range_of("day") == (days[0], days[1])
    assert files.head(5).num_rows >= 1


def test_deletes_updates_and_changes_of_the_schema(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, _table(x=list(range(10)), y=[0.5] * 10))
    table = deltalake.DeltaTable(path)
    table.delete("x >= 7")
    table.update(new_values={"y": 2.5}, predicate="x = 3")
    more = pa.table({"x": [20], "y": [1.5], "z": ["new"], "s": [{"a": 1}]})
    deltalake.write_deltalake(path, more, mode="append", schema_mode="merge")
    files = delta_files(path)
    expected = [(x, 2.5 if x == 3 else 0.5, b"") for x in range(7)] + [(20, 1.5, b"new")]
    assert rows_of(files, "x", "y", "z") == expected
    assert rows_of(files, "x", "y", "z", workers=3) == expected
    assert files.schema.names == ["x", "y", "z"]
    assert sorted(files.head(64).column("x").to_pylist())[0] in (0, 20)
    assert [part.null_count for part in files.read("z")] in ([0, 7], [7, 0], [0, 1, 6], [1, 6, 0])


def _log(folder: Path, schema: list[Any], adds: list[Any], **protocol: Any) -> str:
    """Writes a table of one version by hand."""
    (folder / "_delta_log").mkdir(parents=True)
    configuration = protocol.pop("configuration", {})
    partitions = protocol.pop("partitions", [])
    meta = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": schema}),
        "partitionColumns": partitions,
        "configuration": configuration,
        "createdTime": 0,
    }
    facts = {"modificationTime": 0, "dataChange": True, "partitionValues": {}}
    lines = [{"protocol": protocol}, {"metaData": meta}]
    lines += [
        {"add": {**facts, "size": (folder / add["path"]).stat().st_size, **add}} for add in adds
    ]
    text = "\n".join(map(json.dumps, lines))
    (folder / "_delta_log" / f"{0:020}.json").write_text(text)
    return str(folder)


def _field(name: str, kind: str, **metadata: Any) -> dict[str, Any]:
    known = {f"delta.columnMapping.{key}": value for key, value in metadata.items()}
    return {"name": name, "type": kind, "nullable": True, "metadata": known}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_have_other_names_in_files(tmp_path: Path, mode: str) -> None:
    """A renamed column, one that was dropped and created again, and one that older files lack."""
    ids = {"col-1": 1, "col-3": 3, "col-5": 5}
    for name, columns in (("a", {"col-1": [1, 2], "col-3": [5.0, 6.0]}), ("b", {"col-5": [7]})):
        table = pa.table(columns)
        fields = [
            each.with_name(each.name if mode == "name" else f"other {each.name}").with_metadata(
                {"PARQUET:field_id": str(ids[each.name])}
            )
            for each in table.schema
        ]
        pq.write_table(
            table.cast(pa.schema(fields))
            if mode == "name"
            else pa.Table.from_arrays(table.columns, schema=pa.schema(fields)),
            tmp_path / f"{name}.parquet",
        )
    path = _log(
        tmp_path,
        [
            _field("new name", "long", id=1, physicalName="col-1"),
            _field("x", "long", id=5, physicalName="col-5"),
            _field("day", "date", id=4, physicalName="col-4"),
        ],
        [
            {"path": "a.parquet", "partitionValues": {"col-4": "1970-01-03"}},
            {"path": "b.parquet", "partitionValues": {"col-4": None}},
        ],
        minReaderVersion=2,
        minWriterVersion=5,
        configuration={"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "5"},
        partitions=["day"],
    )
    files = delta_files(path)
    assert rows_of(files, "new name", "x", "day") == [(-1, 7, -1), (1, -1, 2), (2, -1, 2)]
    assert files.range_of("new name") == (1, 2)
    assert column_digest(files, ["new name"]) != column_digest(files, ["x"])


def _vector(folder: Path, places: list[int]) -> dict[str, Any]:
    """A file with a deletion vector: a roaring bitmap of 64 bits with one array."""
    array = struct.pack("<IIHHI", 12346, 1, 0, len(places) - 1, 16)
    array += np.array(places, "<u2").tobytes()
    data = struct.pack("<IQI", 1681511377, 1, 0) + array
    name = "d2c639aa-8816-431a-aaf6-d3fe2512ff61"
    (folder / "ab").mkdir()
    blob = b"\x01" + struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (folder / "ab" / f"deletion_vector_{name}.bin").write_bytes(blob)
    return {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": len(places),
    }


def test_deletion_vectors_are_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"x": pa.array(range(20), pa.int64())})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=8)
    pq.write_table(table.slice(0, 2), tmp_path / "b.parquet")
    gone = [0, 3, 7, *range(8, 16), 19]
    path = _log(
        tmp_path,
        [_field("x", "long")],
        [
            {
                "path": "a.parquet",
                "deletionVector": _vector(tmp_path, gone),
                "stats": '{"numRecords": 20}',
            },
            {"path": "b.parquet", "stats": '{"numRecords": 2}'},
        ],
        minReaderVersion=3,
        minWriterVersion=7,
        readerFeatures=["deletionVectors"],
        writerFeatures=["deletionVectors"],
    )
    files = delta_files(path)
    expected = sorted([(x,) for x in range(20) if x not in gone] + [(0,), (1,)])
    assert files.rows == len(expected) == 10
    assert [group.rows for group in files.groups] == [5, 3, 2]
    for workers in (1, 2, 3, 10):
        assert rows_of(files, "x", workers=workers) == expected
    assert files.range_of("x") is None
    assert files.head(3).column("x").to_pylist() == [1, 2]
    assert sum(len(part) for part in files.read("x")) == 10
    monkeypatch.setattr("sparkflow.spark.data.parquet.shares._MAX_GROUP_BYTES", 8)
    assert rows_of(files, "x", workers=3) == expected


def test_deleted_rows_are_of_the_file_in_their_folder(tmp_path: Path) -> None:
    """Spark names files alike in all folders; they stay when a Hive table becomes a Delta table."""
    adds: list[dict[str, Any]] = []
    for folder in ("p=a b%2F", "q/p=a b%2F", "p=2"):
        (tmp_path / folder).mkdir(parents=True)
        pq.write_table(pa.table({"x": pa.array(range(4), pa.int64())}), tmp_path / folder / "a")
        adds.append({"path": folder, "stats": '{"numRecords": 4}'})
    adds[0]["deletionVector"] = _vector(tmp_path, [0, 3])
    features = ["deletionVectors"]
    path = _log(
        tmp_path,
        [_field("x", "long"), _field("p", "string")],
        [
            {**add, "path": f"{add['path']}/a", "partitionValues": {"p": add["path"]}}
            for add in adds
        ],
        minReaderVersion=3,
        minWriterVersion=7,
        readerFeatures=features,
        writerFeatures=features,
        partitions=["p"],
    )
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace("a b%2F/a", "a%20b%252F/a"))
    assert rows_of(delta_files(path), "p", "x") == [
        *((b"p=2", x) for x in range(4)),
        *((b"p=a b%2F", x) for x in (1, 2)),
        *((b"q/p=a b%2F", x) for x in range(4)),
    ]


def test_files_elsewhere_are_found_under_the_names_that_they_have(tmp_path: Path) -> None:
    """A shallow clone's log contains URIs of files of another table."""
    (tmp_path / "a%20 b").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a%20 b" / "a.parquet")
    (tmp_path / "t").mkdir()
    path = _log(tmp_path / "t", [_field("x", "long")], [], minReaderVersion=1, minWriterVersion=2)
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    where = f"file://{tmp_path}/a%2520%20b/a.parquet"
    facts = {"modificationTime": 0, "dataChange": True, "partitionValues": {}, "size": 400}
    log.write_text(log.read_text() + "\n" + json.dumps({"add": {**facts, "path": where}}))
    assert rows_of(delta_files(path), "x") == [(1,)]


def test_nanoseconds_are_cut_downwards(tmp_path: Path) -> None:
    times = pa.array([1, 1_001, -1, None], pa.timestamp("ns"))
    pq.write_table(pa.table({"x": times}), tmp_path / "a.parquet")
    path = _log(
        tmp_path,
        [_field("x", "timestamp")],
        [{"path": "a.parquet"}],
        minReaderVersion=1,
        minWriterVersion=2,
    )
    (found,) = delta_files(path).read("x")
    assert found.cast(pa.int64()).to_pylist() == [0, 1, -1, None]


def test_types_of_before_are_widened(tmp_path: Path) -> None:
    old = {"x": pa.array([2**31 - 1], pa.int32()), "d": pa.array([1], pa.date32())}
    new = {"x": pa.array([2**40], pa.int64()), "d": pa.array([86_400_000_001], pa.timestamp("us"))}
    pq.write_table(pa.table(old), tmp_path / "a.parquet")
    pq.write_table(pa.table(new), tmp_path / "b.parquet")
    features = ["typeWidening", "timestampNtz"]
    path = _log(
        tmp_path,
        [_field("x", "long"), _field("d", "timestamp_ntz")],
        [{"path": "a.parquet"}, {"path": "b.parquet"}],
        minReaderVersion=3,
        minWriterVersion=7,
        readerFeatures=features,
        writerFeatures=features,
    )
    files = delta_files(path)
    assert rows_of(files, "x", "d") == [(2**31 - 1, 86_400_000_000), (2**40, 86_400_000_001)]
    assert files.range_of("x") == (2**31 - 1, 2**40)
    assert files.range_of("d") is None


def test_what_is_not_read_is_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    path = _log(
        tmp_path,
        [_field("x", "long")],
        [{"path": "a.parquet"}],
        minReaderVersion=3,
        minWriterVersion=7,
        readerFeatures=["variantType"],
        writerFeatures=["variantType"],
    )
    with pytest.raises(ValueError, match=r"version 0 of .* does not support: variantType"):
        delta_files(path)
    with pytest.raises(ValueError, match="cannot be read"):
        delta_files(str(tmp_path / "nothing"))
    empty = str(tmp_path / "empty")
    deltalake.DeltaTable.create(empty, pa.schema([("x", pa.int64())]))
    with pytest.raises(ValueError, match="has no files: there is nothing to train on"):
        delta_files(empty)
    with pytest.raises(ValueError, match=r"cannot be read at version=5"):
        delta_files(empty, 5)
    with pytest.raises(
        ValueError, match=r"empty' cannot be read at version='main': Failed to parse"
    ):
        delta_files(empty, "main")
    with pytest.raises(ValueError, match="DeltaTable at version 0"):
        delta_files(deltalake.DeltaTable(empty), 0)
