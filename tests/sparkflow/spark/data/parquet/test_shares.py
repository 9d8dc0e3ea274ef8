"""Parquet files read without Spark: shares, columns of every kind, invalid rows, memory or disk."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkflow.spark.data.feed import worker_feed as worker_feed_module
from sparkflow.spark.data.feed.worker_feed import WorkerFeed
from sparkflow.spark.data.feed_plan import PERMUTED, FeedPlan
from sparkflow.spark.data.parquet import shares
from sparkflow.spark.data.parquet.footers import ParquetFiles, read_footers
from sparkflow.spark.data.parquet.shares import (
    ParquetShare,
    count_share,
    deal_groups,
    drawn_for_validation,
    read_share,
)
from sparkflow.spark.data.schema.row_format import (
    DENSE,
    RAGGED,
    ROW_NUMBER,
    SPARSE,
    Input,
    RowFormat,
)
from sparkflow.spark.data.schema.row_schema import ARRAY, SCALARS, VECTOR, InputColumns
from sparkflow_runtime.errors import InvalidArgumentError, OutOfRangeError

FEATURES = Input("features", DENSE, "float32", (2,))
LABEL = Input("label", DENSE, "int64", ())
COLUMNS = (
    InputColumns(FEATURES, SCALARS, ("x", "y")),
    InputColumns(LABEL, SCALARS, ("label",)),
)
FORMAT = RowFormat((FEATURES,), LABEL, None, named=False)


def _write(folder: Path, rows: int = 23, files: int = 3) -> ParquetFiles:
    """Files of unequal size with row groups of 4 rows; `label` is the row's number."""
    folder.mkdir()
    ends = [rows * number * number // (files * files) for number in range(files + 1)]
    for index, (first, last) in enumerate(itertools.pairwise(ends)):
        numbers = np.arange(first, last)
        table = pa.table(
            {
                "x": numbers.astype(np.float64),
                "y": numbers * 10,
                "label": numbers,
                "unused": pa.array(["text"] * len(numbers)),
                "flag": pa.array([bool(number % 5 == 0) for number in numbers], pa.bool_()),
            }
        )
        pq.write_table(table, folder / f"{index}.parquet", row_group_size=4)
    (folder / "_SUCCESS").touch()
    (folder / ".hidden").write_text("no Parquet")
    return read_footers(str(folder))


def _share(files: ParquetFiles, worker: int = 0, workers: int = 1, **more: Any) -> ParquetShare:
    pieces = deal_groups(files.groups, workers, seed=3)[worker]
    return ParquetShare(files.uri, pieces, COLUMNS, **more)


def _labels(share: ParquetShare) -> list[int]:
    found = []
    for batch in read_share(share):
        labels = batch.column("label").to_numpy()
        flat = batch.column("features").flatten().to_numpy().reshape(-1, 2)
        np.testing.assert_array_equal(flat, np.stack([labels, labels * 10], axis=1))
        np.testing.assert_array_equal(batch.column(ROW_NUMBER).to_numpy(), labels)
        found += labels.tolist()
    return found


def test_a_large_row_group_is_decoded_once_and_never_whole_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    numbers = np.arange(1000)
    columns = {"x": numbers.astype(np.float64), "y": numbers * 10, "label": numbers}
    pq.write_table(pa.table(columns), tmp_path / "data" / "one.parquet")
    files = read_footers(str(tmp_path / "data"))
    decoded = []
    tables = shares.group_tables

    def counted(*args: Any, **options: Any) -> Any:
        for table in tables(*args, **options):
            decoded.append(table.num_rows)
            yield table

    monkeypatch.setattr(shares, "group_tables", counted)
    monkeypatch.setattr(shares, "_MAX_GROUP_BYTES", files.groups[0].size_bytes // 10)
    assert _labels(_share(files)) == list(range(1000))
    assert sum(decoded) == 1000
    assert max(decoded) <= 100
    decoded.clear()
    assert sorted(_labels(_share(files, 0, 2)) + _labels(_share(files, 1, 2))) == [*range(1000)]
    assert sum(decoded) <= 1600  # the second worker decodes the first one's rows, too


@pytest.mark.parametrize(("groups", "by_column"), [(1, True), (10, False)])
def test_either_groups_or_columns_are_decoded_at_the_same_time(
    groups: int, by_column: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _write(tmp_path / "data", rows=40, files=1)
    share = _share(files)
    share = replace(share, pieces=share.pieces[:groups])
    ways = []
    table = shares.group_table

    def noted(*args: Any) -> Any:
        ways.append(args[-1])
        return table(*args)

    monkeypatch.setattr(shares, "group_table", noted)
    monkeypatch.setattr(pa, "cpu_count", lambda: 2)
    assert len(_labels(share)) == groups * 4
    assert ways == [by_column] * groups


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 23, 30])
def test_shares_are_equal_and_together_all_rows(tmp_path: Path, workers: int) -> None:
    files = _write(tmp_path / "data")
    shares = [_labels(_share(files, worker, workers)) for worker in range(workers)]
    assert sorted(sum(shares, [])) == list(range(23))  # noqa: RUF017  few of them
    lengths = [len(share) for share in shares]
    assert max(lengths) - min(lengths) <= 1
    assert lengths == [sum(p.count for p in each) for each in deal_groups(files.groups, workers, 3)]


def test_groups_are_dealt_in_an_order_of_the_seed(tmp_path: Path) -> None:
    files = _write(tmp_path / "data")
    assert deal_groups(files.groups, 2, 1) != deal_groups(files.groups, 2, 2)
    in_order = deal_groups(files.groups, 1, None)[0]
    assert [piece.number for piece in in_order] == sorted(piece.number for piece in in_order)


def test_a_share_survives_json(tmp_path: Path) -> None:
    share = _share(_write(tmp_path / "data"), invalid="skip", class_weights=((0.0, 2.0),))
    assert ParquetShare.from_json(json.loads(json.dumps(share.to_json()))) == share
    assert share.names == ["x", "y", "label"]


def test_footers_know_the_greatest_label(tmp_path: Path) -> None:
    files = _write(tmp_path / "data")
    assert (files.rows, files.range_of("label"), files.range_of("nothing")) == (23, (0, 22), None)
    labels = [value for part in files.read("label") for value in part.to_pylist()]
    assert labels == list(range(23))
    assert files.head(3).column("x").to_pylist() == [0, 1]


def test_large_row_groups_are_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _write(tmp_path / "data")
    monkeypatch.setattr("sparkflow.spark.data.parquet.shares._MAX_GROUP_BYTES", 100)
    assert sorted(_labels(_share(files, 0, 2)) + _labels(_share(files, 1, 2))) == list(range(23))
    assert max(batch.num_rows for batch in read_share(_share(files))) < 4


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_worker_feeds_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(worker_feed_module, "spare_bytes", lambda: 1 << 40 if in_memory else 0)
    share = _share(_write(tmp_path / "data"), 1, 2, indicator="flag")
    expected = sorted(_labels(_share(_write(tmp_path / "again"), 1, 2)))
    plan = FeedPlan(FORMAT, batch_size=4, order=PERMUTED, shuffle=False)
    feed = WorkerFeed(plan, 1)
    assert feed.take({"parquet": share.to_json()})
    train = _fed(feed.train, feed.rows)
    assert train == [number for number in expected if number % 5]
    assert _fed(feed.validation, feed.validation_rows) == [n for n in expected if n % 5 == 0]
    feed.close()


def _fed(source: Any, rows: int) -> list[int]:
    found: list[int] = []
    while len(found) < rows:
        found += source.next_batch()[1].tolist()
    return found


def test_rows_for_validation_depend_on_seed_and_number_only(tmp_path: Path) -> None:
    share = _share(_write(tmp_path / "data"), fraction=0.4, seed=7)
    piece = replace(share.pieces[0], number=0, count=10_000)
    drawn = drawn_for_validation(7, piece, 0.4)
    assert 0.38 < drawn.mean() < 0.42
    tail = drawn_for_validation(7, replace(piece, number=9_000, count=1_000), 0.4)
    np.testing.assert_array_equal(tail, drawn[9_000:])
    assert (drawn_for_validation(8, piece, 0.4) != drawn).any()
    train, validation = count_share(share)
    assert (train + validation, validation) == (23, int(drawn[:23].sum()))


def _table(tmp_path: Path, given: Input, form: str, **columns: Any) -> ParquetShare:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(columns), path)
    files = read_footers(str(path))
    column = InputColumns(given, form, tuple(columns))
    return ParquetShare(files.uri, deal_groups(files.groups, 1, None)[0], (column,))


def _values(share: ParquetShare) -> list[Any]:
    (batch,) = read_share(share)
    values: list[Any] = batch.column(share.columns[0].input.name).to_pylist()
    return values


_DOUBLES = pa.list_(pa.float64())


@pytest.mark.parametrize(
    ("given", "form", "columns", "expected"),
    [
        (Input("a", DENSE, "float32", ()), SCALARS, {"a": [1, 2]}, [1, 2]),
        (Input("a", DENSE, "float32", (1,)), SCALARS, {"a": [1, 2]}, [[1], [2]]),
        (Input("a", DENSE, "string", ()), SCALARS, {"a": ["x", "y"]}, [b"x", b"y"]),
        (
            Input("a", DENSE, "string", (2,)),
            SCALARS,
            {"p": ["x", "y"], "q": ["z", "w"]},
            [[b"x", b"z"], [b"y", b"w"]],
        ),
        (Input("a", DENSE, "float32", (2,)), ARRAY, {"a": [[1.0, 2.0]]}, [[1, 2]]),
        (
            Input("a", DENSE, "float32", (2, 2)),
            ARRAY,
            {"a": [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]},
            [[1, 2, 3, 4], [5, 6, 7, 8]],
        ),
        (
            Input("a", RAGGED, "int64", ()),
            ARRAY,
            {"a": pa.array([[1, 2], [], [3]], pa.list_(pa.int32()))},
            [[1, 2], [], [3]],
        ),
        (Input("a", RAGGED, "string", ()), ARRAY, {"a": [["u"], [], ["v"]]}, [[b"u"], [], [b"v"]]),
        (
            Input("a", DENSE, "float32", (2,)),
            ARRAY,
            {"a": pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2))},
            [[1, 2], [3, 4]],
        ),
    ],
)
def test_columns_of_every_kind(
    tmp_path: Path, given: Input, form: str, columns: dict[str, Any], expected: list[Any]
) -> None:
    assert _values(_table(tmp_path, given, form, **columns)) == expected


def _vectors() -> pa.Array:
    kind = pa.struct(
        {"type": pa.int8(), "size": pa.int32(), "indices": pa.list_(pa.int32()), "values": _DOUBLES}
    )
    return pa.array(
        [
            {"type": 1, "size": None, "indices": None, "values": [1.0, 0.0, 2.0]},
            {"type": 0, "size": 3, "indices": [1], "values": [5.0]},
            {"type": 0, "size": 3, "indices": [], "values": []},
        ],
        kind,
    )


def test_vectors_of_spark_ml(tmp_path: Path) -> None:
    dense = Input("v", DENSE, "float32", (3,))
    expected = [[1.0, 0.0, 2.0], [0.0, 5.0, 0.0], [0.0, 0.0, 0.0]]
    assert _values(_table(tmp_path, dense, VECTOR, v=_vectors())) == expected
    assert _values(_table(tmp_path, dense, VECTOR, v=_vectors()[:1])) == expected[:1]
    sparse = Input("v", SPARSE, "float32", (3,))
    assert _values(_table(tmp_path, sparse, VECTOR, v=_vectors())) == [
        {"indices": [0, 2], "values": [1.0, 2.0]},
        {"indices": [1], "values": [5.0]},
        {"indices": [], "values": []},
    ]


@pytest.mark.parametrize(
    ("given", "form", "column"),
    [
        (Input("a", DENSE, "float32", ()), SCALARS, [1.0, None, float("nan"), 4.0]),
        (Input("a", DENSE, "int64", ()), SCALARS, [1, None, None, 4]),
        (
            Input("a", DENSE, "float32", (2,)),
            ARRAY,
            [[1.0, 1.0], None, [2.0, None], [4.0, 4.0]],
        ),
        (Input("a", RAGGED, "float32", ()), ARRAY, [[1.0], None, [float("nan")], [4.0, 4.0]]),
    ],
)
def test_rows_with_nulls_or_nans(
    tmp_path: Path, given: Input, form: str, column: list[Any]
) -> None:
    share = _table(tmp_path, given, form, a=column)
    with pytest.raises(InvalidArgumentError, match="2 of 4 rows from row 0 on have some in 'a'"):
        _values(share)
    assert _values(replace(share, invalid="skip")) == [column[0], column[3]]
    assert count_share(replace(share, invalid="skip")) == (2, 0)


def test_nulls_in_features_are_filled(tmp_path: Path) -> None:
    share = _table(tmp_path, Input("a", DENSE, "float32", ()), SCALARS, a=[1.0, None])
    assert _values(replace(share, invalid="fill", fill=7.0)) == [1, 7]
    rows = [[1.0, None], [2.0, 3], None]
    share = _table(tmp_path, Input("a", DENSE, "float32", (2,)), ARRAY, a=rows)
    assert _values(replace(share, invalid="fill", fill=7.0)) == [[1, 7], [2, 3], [7, 7]]
    share = _table(tmp_path, Input("a", DENSE, "string", ()), SCALARS, a=["x", None])
    assert _values(replace(share, invalid="fill", fill=7.0)) == [b"x", b""]


def test_arrays_of_another_length_are_refused(tmp_path: Path) -> None:
    given = Input("a", DENSE, "float32", (2,))
    share = _table(tmp_path, given, ARRAY, a=[[1.0, 2.0], [1.0]])
    with pytest.raises(
        InvalidArgumentError, match=r"takes 2 elements per row for 'a', but 1 of 2 rows .* 'a': 1"
    ):
        _values(share)


def test_rows_are_weighted_by_their_class(tmp_path: Path) -> None:
    share = replace(
        _share(_write(tmp_path / "data")), class_column="label", class_weights=((3.0, 2.5),)
    )
    found: dict[int, float] = {}
    for batch in read_share(share):
        found |= dict(zip(*(batch.column(n).to_pylist() for n in ("label", "weight")), strict=True))
    assert found == {number: 2.5 if number == 3 else 1 for number in range(23)}


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="There is no"):
        read_footers(str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="There are no Parquet files"):
        read_footers(str(tmp_path))
    with pytest.raises(ValueError, match="pyarrow cannot read 'odd://x'"):
        read_footers("odd://x")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"x": ["text"]}), tmp_path / "2.parquet")
    files = read_footers(f"file://{tmp_path}")
    with pytest.raises(ValueError, match=r"The column 'x' is int64 in .* and string in"):
        files.require_columns(["x"])


@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("_delta_log/00000000000000000000.json", "Delta Lake"),
        (".hoodie/hoodie.properties", "Apache Hudi"),
        ("metadata/v1.metadata.json", "Apache Iceberg"),
        ("_spark_metadata/0", "Spark Structured Streaming"),
        ("delta_0000001_0000001/000000_0", "Hive ACID"),
    ],
)
def test_tables_of_other_formats_are_refused_by_name(
    tmp_path: Path, log: str, name: str, below: bool
) -> None:
    """At the table's own path, and at that of a folder that contains the table."""
    table = tmp_path / "lake" / "table"
    (table / log).parent.mkdir(parents=True)
    (table / log).write_text("{}")
    (table / "data").mkdir()
    pq.write_table(pa.table({"x": [1]}), table / "data" / "1.parquet")
    asked = tmp_path / "lake" if below else table
    with pytest.raises(ValueError, match=rf"is of a table of {name} \(.*lake/table\)") as caught:
        read_footers(str(asked))
    assert "and use fit(df)" in str(caught.value)


def test_files_that_spark_passes_over_are_passed_over(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2]})
    for name in ("_day=3/a", "_day=4/b", "_metadata", "_x/c.parquet", ".d", "e._COPYING_"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(rows, tmp_path / name)
    for name in ("_SUCCESS", ".a.parquet.crc", "empty.parquet"):
        (tmp_path / name).write_bytes(b"")
    files = read_footers(str(tmp_path))
    assert [Path(path).name for path, _ in files.footers] == ["a", "b"]
    with pytest.raises(ValueError, match="There are no Parquet files"):
        read_footers(str(tmp_path / "empty.parquet"))
    (tmp_path / "_day=3" / "notes.txt").write_text("no Parquet")
    with pytest.raises(ValueError, match=r"notes\.txt is not a Parquet file"):
        read_footers(str(tmp_path))


def test_what_is_wrong_with_the_rows_reaches_those_who_wait_for_them(tmp_path: Path) -> None:
    share = _table(tmp_path, Input("features", DENSE, "float32", ()), SCALARS, a=[1.0, None])
    one = RowFormat((share.columns[0].input,), None, None, named=False)
    feed = WorkerFeed(FeedPlan(one, 1), 0)
    with pytest.raises(InvalidArgumentError, match="Nulls, NaNs and infinities"):
        feed.take({"parquet": share.to_json()})
    with pytest.raises(InvalidArgumentError, match="Nulls, NaNs and infinities"):
        feed.train.next_batch()
    with pytest.raises((InvalidArgumentError, OutOfRangeError)):
        feed.validation.next_batch()
