"""Tables that the library pyiceberg writes, and deletes that others write."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkflow.spark.data.parquet.file_layout import FileLayouts
from sparkflow.spark.data.parquet.footers import ParquetFiles, open_location
from sparkflow.spark.data.parquet.shares import ParquetShare, deal_groups, read_share
from sparkflow.spark.data.schema.row_format import DENSE, Input
from sparkflow.spark.data.schema.row_schema import SCALARS, InputColumns
from sparkflow.spark.data.tables import iceberg
from sparkflow.spark.data.tables.iceberg import iceberg_files

pytest.importorskip("pyiceberg", reason="pip install 'sparkflow-ml[iceberg]'")
pytest.importorskip("sqlalchemy")

DTYPES = {"string": "string", "double": "float32", "float": "float32"}


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    """A catalog in a file, with the namespace `ns`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyiceberg.catalog.sql import SqlCatalog

        made = SqlCatalog("test", **_properties(tmp_path))
        made.create_namespace("ns")
        yield made
        made.close()


def _properties(folder: Path) -> dict[str, str]:
    return {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake house"}


def rows_of(files: ParquetFiles, *names: str, workers: int = 1) -> list[tuple[Any, ...]]:
    """The rows of all workers, sorted."""
    kinds = {name: str(files.schema.field(name).type) for name in names}
    inputs = tuple(
        InputColumns(Input(name, DENSE, DTYPES.get(kind, "int64"), ()), SCALARS, (name,))
        for name, kind in kinds.items()
    )
    found: list[tuple[Any, ...]] = []
    for pieces in deal_groups(files.groups, workers, None):
        layouts = FileLayouts.from_json(files.layouts.of_pieces(pieces, names).to_json())
        share = ParquetShare(files.uri, pieces, inputs, invalid="fill", fill=-1, layouts=layouts)
        for batch in read_share(share):
            found += zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    files.require_columns(names)
    return sorted(found)


def _rows(**columns: Any) -> pa.Table:
    return pa.table(columns)


@pytest.fixture
def evolved(catalog: Any) -> Any:
    """Columns renamed, widened, added, dropped and created again; a partition added later."""
    from pyiceberg.types import DoubleType, LongType

    first = _rows(x=pa.array([1, 2, 3], pa.int32()), name=["a b", "b", "c"], old=[7.0, 7.0, 7.0])
    table = catalog.create_table("ns.t", schema=first.schema)
    table.append(first)
    with table.update_schema() as change:
        change.rename_column("x", "y")
        change.add_column("z", DoubleType())
        change.delete_column("old")
    with table.update_schema() as change:
        change.update_column("y", field_type=LongType())
        change.add_column("old", LongType())
    with table.update_spec() as change:
        change.add_identity("name")
    table.append(_rows(y=[2**40], name=["d/e%"], z=[1.5], old=[9]))
    return table


def test_columns_are_known_by_number(evolved: Any) -> None:
    expected = [
        (1, b"a b", -1.0, -1),
        (2, b"b", -1.0, -1),
        (3, b"c", -1.0, -1),
        (2**40, b"d/e%", 1.5, 9),
    ]
    files = iceberg_files(evolved)
    for workers in (1, 2, 4):
        assert rows_of(files, "y", "name", "z", "old", workers=workers) == expected
    assert files.origin.startswith(f"snapshot {evolved.current_snapshot().snapshot_id} of the Ice")
    theirs = evolved.scan().to_arrow().sort_by("y").column("y").to_pylist()
    assert theirs == [row[0] for row in expected]
    assert files.head(10).num_rows >= 1


def test_snapshots_are_pinned_and_found(evolved: Any, catalog: Any, tmp_path: Path) -> None:
    first = evolved.snapshots()[0].snapshot_id
    pinned = iceberg_files(evolved.metadata_location)
    evolved.manage_snapshots().create_tag(first, "begin").commit()
    evolved.delete("y < 3")
    assert [row[0] for row in rows_of(pinned, "y")] == [1, 2, 3, 2**40]
    assert rows_of(iceberg_files(evolved), "y") == [(3,), (2**40,)]
    # A snapshot has the columns of its time.
    for version in (first, "begin"):
        assert rows_of(iceberg_files(evolved, version), "x", "old") == [
            (1, 7.0),
            (2, 7.0),
            (3, 7.0),
        ]
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
    assert rows_of(iceberg_files(evolved, now), "y") == [(3,), (2**40,)]
    properties = {"name": "test", "type": "sql", **_properties(tmp_path)}
    assert rows_of(iceberg_files("ns.t", catalog=properties), "y") == [(3,), (2**40,)]
    with pytest.raises(ValueError, match=r"has no snapshot at version=5; the newest are "):
        iceberg_files(evolved, 5)
    with pytest.raises(ValueError, match=r"There is no Iceberg table 'ns\.other'"):
        iceberg_files("ns.other", catalog=properties)
    with pytest.raises(ValueError, match=r"There is no Iceberg table '.*/no\.metadata\.json'"):
        iceberg_files(str(tmp_path / "no.metadata.json"))
    empty = catalog.create_table("ns.empty", schema=pa.schema([("x", pa.int64())]))
    with pytest.raises(ValueError, match="has no snapshot: there is nothing to train on"):
        iceberg_files(empty)


def test_the_current_snapshot_has_the_columns_of_now(evolved: Any) -> None:
    snapshot = evolved.current_snapshot().snapshot_id
    with evolved.update_schema() as change:
        change.rename_column("y", "renamed")
        change.delete_column("z")
    files = iceberg_files(evolved)
    assert files.schema.names == evolved.scan().to_arrow().column_names
    assert rows_of(files, "renamed") == [(1,), (2,), (3,), (2**40,)]
    assert rows_of(iceberg_files(evolved, snapshot), "y", "z")[-1] == (2**40, 1.5)


@pytest.mark.parametrize("scheme", ["gs", "file"])
def test_characters_of_locations_stand_for_themselves(scheme: str) -> None:
    """Folders are named after escaped values; object stores and pyarrow would look for others."""
    where = "bucket/name=a%2Fb c+?#ä/1.parquet"
    uri = iceberg._plain(f"{scheme}://{'/' if scheme == 'file' else ''}{where}")
    assert open_location(uri)[1].lstrip("/") == where


def test_values_of_hidden_partitions_are_in_the_files(catalog: Any, tmp_path: Path) -> None:
    from pyiceberg.transforms import DayTransform

    times = pa.array([1, 86_400_000_001], pa.timestamp("us", "UTC"))
    table = catalog.create_table("ns.t", schema=_rows(x=[1, 2], at=times).schema)
    with table.update_spec() as change:
        change.add_field("at", DayTransform(), "day")
    for place in range(2):  # which pyiceberg writes only with another package
        path = f"{tmp_path}/{place}.parquet"
        pq.write_table(_rows(x=[1, 2], at=times).slice(place, 1), path)
        table.add_files([f"file://{path}"])
    assert [task.file.partition[0] for task in table.scan().plan_files()] in ([0, 1], [1, 0])
    assert rows_of(iceberg_files(table), "x", "at") == [(1, 1), (2, 86_400_000_001)]
    assert iceberg_files(table).schema.names == ["x", "at"]


def test_files_that_were_added_know_columns_by_name(catalog: Any, tmp_path: Path) -> None:
    """Files of Hive: no field ids, and the partition's column only in the folder's name."""
    table = catalog.create_table(
        "ns.t", schema=pa.schema([("x", pa.int64()), ("day", pa.date32()), ("more", pa.int64())])
    )
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    table.add_files([f"file://{tmp_path}/a.parquet"])
    files = iceberg_files(table)
    assert rows_of(files, "x", "day") == [(1, -1), (2, -1)]
    known = iceberg._values(
        SimpleNamespace(specs=lambda: {0: _spec()}),
        table.schema(),
        SimpleNamespace(spec_id=0, partition=[20_781]),
        {"x": "x", "day": None, "more": None},
        pa.schema([("x", pa.int64()), ("day", pa.date32()), ("more", pa.int64())]),
    )
    assert known == {"day": "2026-11-24"}


def _spec() -> Any:
    return SimpleNamespace(fields=[SimpleNamespace(source_id=2, transform="identity")])


def test_deleted_rows_are_left_out(catalog: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """pyiceberg does not write position deletes, so one is added to the scan's plan."""
    schema = pa.schema([("x", pa.int64())])
    table = catalog.create_table("ns.t", schema=schema)
    table.append(_rows(x=list(range(10))))
    (task,) = table.scan().plan_files()
    data = task.file.file_path
    places = pa.table({"file_path": [data, data, "other"], "pos": [9, 0, 1]})
    pq.write_table(places, tmp_path / "deletes.parquet")

    def deletes(content: str, kind: str) -> Any:
        return SimpleNamespace(
            file_path=f"file://{tmp_path}/deletes.parquet",
            content=SimpleNamespace(name=content),
            file_format=SimpleNamespace(name=kind),
        )

    def planned(*files: Any) -> Any:
        found = SimpleNamespace(file=task.file, delete_files=list(files))
        scan = table.scan()
        monkeypatch.setattr(type(scan), "plan_files", lambda self: [found])

    planned(deletes("POSITION_DELETES", "PARQUET"))
    files = iceberg_files(table)
    assert files.rows == 8
    assert rows_of(files, "x", workers=3) == [(x,) for x in range(1, 9)]
    planned(deletes("EQUALITY_DELETES", "PARQUET"), deletes("POSITION_DELETES", "AVRO"))
    with pytest.raises(ValueError, match="not support: equality deletes, position deletes in AV"):
        iceberg_files(table)
