"""Tables whose rows are not just their Parquet files, recognised by what formats leave there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from sparkflow_runtime.files import system
from sparkflow_runtime.files.table_formats import table_of

TABLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "delta": ("Delta Lake", ("_delta_log/00000000000000000000.json", "day=1/part-0.parquet")),
    "hudi": ("Apache Hudi", (".hoodie/hoodie.properties", "day=1/a_0-1-0_1.parquet")),
    "iceberg": ("Apache Iceberg", ("metadata/v1.metadata.json", "data/day=1/00000-0.parquet")),
    "iceberg of a catalog": (
        "Apache Iceberg",
        ("metadata/00000-9c12.metadata.json", "data/00000-0.parquet"),
    ),
    "paimon": (
        "Apache Paimon",
        ("snapshot/snapshot-1", "schema/schema-0", "day=1/bucket-0/data-1.parquet"),
    ),
    "lance": ("Lance", ("_versions/1.manifest", "data/a.parquet")),
    "stream": ("Spark Structured Streaming", ("_spark_metadata/0", "day=1/part-0.parquet")),
    "hive": ("Hive ACID", ("day=1/delta_0000001_0000001_0000/000000_0.parquet",)),
    "compacted hive": ("Hive ACID", ("base_0000002/000000_0.parquet",)),
}
"""The name and the files of the smallest table of each, as named by its writer; data last."""


def make(folder: Path, files: tuple[str, ...]) -> Path:
    """Creates the table; returns its only data file."""
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".parquet"):
            pq.write_table(pa.table({"x": [1.0]}), path)
        else:
            path.write_text("{}")
    return path


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("scheme", ["", "file://", "s3://"])
def test_tables_are_known_from_everywhere_in_them(
    tmp_path: Path, kind: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(uri: str) -> tuple[Any, str]:
        return fs.LocalFileSystem(), uri.removeprefix("s3://")

    monkeypatch.setattr(system, "_elsewhere", elsewhere)
    name, files = TABLES[kind]
    data = make(tmp_path / "table", files)
    places = [tmp_path / "table", data.parent, data, data.parent / "not there"]
    for place in places[1:] if name == "Hive ACID" else places:
        found = table_of(f"{scheme}{place}")
        assert found is not None, place
        assert found.format.name == name
        assert found.refusal(str(place)).startswith(f"{place} is of a table of {name} (")


def test_a_link_into_a_table_leads_there(tmp_path: Path) -> None:
    data = make(tmp_path / "table", TABLES["delta"][1])
    (tmp_path / "link").symlink_to(data.parent)
    found = table_of(str(tmp_path / "link"))
    assert found is not None
    assert found.folder == str(tmp_path / "table")


@pytest.mark.parametrize(
    "file",
    [
        "metadata/notes.json",
        "snapshot/LATEST",
        "delta_report/part-0.parquet",
        "base_line/part-0.parquet",
        "_metadata",
        "_SUCCESS",
        "_temporary/0/part-0.parquet",
    ],
)
def test_what_only_looks_like_a_table_is_none(tmp_path: Path, file: str) -> None:
    make(tmp_path, (file, "day=1/part-0.parquet"))
    assert table_of(str(tmp_path / "day=1")) is None
    assert table_of(str((tmp_path / file).parent)) is None
