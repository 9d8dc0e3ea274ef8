"""Which parts of a table a file has, sent to a worker and applied there."""

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

from sparkflow.spark.data.parquet.file_layout import (
    FileLayout,
    FileLayouts,
    constant_text,
    constant_value,
    group_table,
    group_tables,
    open_parquet,
    packed,
    unpacked,
)

UTC = datetime.timezone.utc


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, pa.int32()),
        (-5, pa.int64()),
        (0.1, pa.float64()),
        (1e300, pa.float64()),
        (True, pa.bool_()),
        ("ä/%\0 ", pa.string()),
        ("", pa.string()),
        (b"\xff\x00a", pa.binary()),
        (Decimal("-12.340"), pa.decimal128(10, 3)),
        (datetime.date(1, 1, 1), pa.date32()),
        (datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), pa.timestamp("us")),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 1, UTC), pa.timestamp("us", "UTC")),
    ],
)
def test_constants_survive_as_text(value: Any, kind: pa.DataType) -> None:
    given = pa.scalar(value, kind)
    text = json.loads(json.dumps(constant_text(given)))
    assert constant_value(text, kind).equals(given)


@pytest.mark.parametrize("places", [[], [0], [5, 6, 2**32 + 7], list(range(10_000))])
def test_places_survive_as_text(places: list[int]) -> None:
    text = packed(np.array(places, np.int64))
    assert unpacked(text).tolist() == places
    assert len(text) < 200


def test_layouts_survive_json_and_keep_what_is_needed() -> None:
    schema = pa.schema([("x", pa.int64()), ("day", pa.date32()), ("y", pa.string())])
    layout = FileLayout({"x": "a"}, {"day": "2026-11-24", "y": None}, packed(np.array([3])), True)
    folder = FileLayout(constants={"day": None})
    layouts = FileLayouts(schema, {"one": layout, "two": folder, "three": layout})
    found = layouts.restricted(["one", "two"], ["x", "y"])
    assert found.schema.names == ["x", "y"]
    assert found.files == {"one": FileLayout({"x": "a"}, {"y": None}, layout.deleted, True)}
    again = FileLayouts.from_json(json.loads(json.dumps(layouts.to_json())))
    assert (again.schema, again.files) == (layouts.schema, layouts.files)
    assert found.of("two").is_plain


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_groups_are_read_as_the_table_has_them(tmp_path: Path, rows: int) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": pa.array(range(10), pa.int32())}), path, row_group_size=6)
    schema = pa.schema([("x", pa.int64()), ("p", pa.string())])
    gone = packed(np.array([0, 5, 6, 9]))
    layouts = FileLayouts(schema, {path: FileLayout({"x": "a"}, {"p": "v"}, gone, True)})
    with open(path, "rb") as source:
        file = open_parquet(source)
        for group, left in ((0, [1, 2, 3, 4]), (1, [7, 8])):
            whole = group_table(file, path, group, ["x", "p"], layouts)
            pieces = list(group_tables(file, path, group, ["x", "p"], layouts, rows))
            for found in (whole, pa.concat_tables(pieces)):
                assert found.to_pydict() == {"x": left, "p": ["v"] * len(left)}
                assert found.schema == schema
            only = list(group_tables(file, path, group, ["p"], layouts, rows))
            assert pa.concat_tables(only).column("p").to_pylist() == ["v"] * len(left)
