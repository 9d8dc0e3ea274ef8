"""Rows per second that one `fitOnTable` worker reads and feeds, compared with the library's read.

    python benchmarks/table_reading.py [--record]

The same tables with eight columns of floats, a label and a day, alternately in one process:
"library" is `DeltaTable.to_pyarrow_table` and `Table.scan().to_arrow()` of the same columns. "read"
plans the snapshot and reads the worker's share, up to the columns from which batches are taken;
"feed" also draws shuffled batches of 1,024 rows. "deleted" is the table with every seventh row
deleted, by the library's rewrite of its files.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pyarrow as pa
from report import Report, Table, add_options, rate_text, ratio_text
from timing import measured

ROWS = 1_000_000
WIDTH = 8
BATCH = 1024
NAMES = [f"x{index}" for index in range(WIDTH)]
COLUMNS = [*NAMES, "day", "label"]


def main() -> None:
    machine.clean_own_environment()
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=5)
    parser.add_argument("--shrink", type=int, default=1, help="divide the numbers of rows by this")
    options = parser.parse_args()
    report = Report("table_reading", ("deltalake", "pyiceberg", "pyarrow", "numpy"), options)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, ours, theirs in _tables(Path(folder), ROWS // options.shrink):
            rows.append([name, *_rates(ours, theirs, options.rounds)])
    headings = ["table", "library", "read", "feed", "read / library", "feed / library"]
    report.finish({f"Rows/s, median of {options.rounds} rounds": Table(headings, rows)})


def _tables(folder: Path, rows: int) -> Any:
    from deltalake import DeltaTable, write_deltalake
    from pyiceberg.catalog.sql import SqlCatalog

    table = _rows(rows)
    for name, partitions in (("Delta", None), ("Delta, by day", ["day"])):
        path = str(folder / name)
        write_deltalake(path, table, partition_by=partitions)
        yield name, path, functools.partial(_by_delta, path)
    DeltaTable(path).delete("label % 7 = 0")
    yield "Delta, deleted", path, functools.partial(_by_delta, path)
    lake = f"file://{folder}/lake"
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=lake)
    catalog.create_namespace("ns")
    found = catalog.create_table("ns.t", schema=table.schema)
    found.append(table)
    yield "Iceberg", found, lambda: found.scan(selected_fields=tuple(COLUMNS)).to_arrow()
    catalog.close()


def _by_delta(path: str) -> pa.Table:
    from deltalake import DeltaTable

    return DeltaTable(path).to_pyarrow_table(columns=COLUMNS)


def _rows(count: int) -> pa.Table:
    random = np.random.default_rng(0)
    columns: dict[str, Any] = {name: random.random(count, np.float32) for name in NAMES}
    columns["day"] = pa.array(np.arange(count) * 8 // count, pa.int32()).cast(pa.date32())
    columns["label"] = pa.array(np.arange(count))
    return pa.table(columns)


def _rates(ours: Any, theirs: Callable[[], pa.Table], rounds: int) -> list[str]:
    rows = theirs().num_rows
    found: dict[str, list[float]] = {"library": [], "read": [], "feed": []}
    calls: dict[str, Callable[[], int]] = {
        "library": lambda: theirs().num_rows,
        "read": lambda: _read(ours),
        "feed": lambda: _feed(ours),
    }
    for number in range(rounds + 1):
        for name, call in calls.items():
            began = time.perf_counter()
            seen = call()
            if seen != rows:
                raise RuntimeError(f"{name} had {seen} of {rows} rows")
            if number:  # the first round warms caches
                found[name].append(rows / (time.perf_counter() - began))
    library, read, feed = map(measured, found.values())
    ratios = [ratio_text(each.over(library)) for each in (read, feed)]
    return [*map(rate_text, (library, read, feed)), *ratios]


def _share(table: Any) -> Any:
    from sparkflow.spark.data.parquet.shares import ParquetShare, deal_groups
    from sparkflow.spark.data.schema.row_schema import SCALARS, InputColumns
    from sparkflow.spark.data.tables.opening import table_files

    files = table_files(table)
    features, day, label = _format().inputs
    columns = (
        InputColumns(features, SCALARS, tuple(NAMES)),
        InputColumns(day, SCALARS, ("day",)),
        InputColumns(label, SCALARS, ("label",)),
    )
    pieces = deal_groups(files.groups, 1, 0)[0]
    return ParquetShare(
        files.uri, pieces, columns, layouts=files.layouts.of_pieces(pieces, COLUMNS)
    )


def _format() -> Any:
    from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat

    features = Input("features", DENSE, "float32", (WIDTH,))
    day, label = (Input(name, DENSE, "int64", ()) for name in ("day", "label"))
    return RowFormat((features, day), label, None, named=True)


def _read(table: Any) -> int:
    from sparkflow.spark.data.parquet.shares import read_share

    return sum(batch.num_rows for batch in read_share(_share(table)))


def _feed(table: Any) -> int:
    from sparkflow.spark.data.feed.worker_feed import WorkerFeed
    from sparkflow.spark.data.feed_plan import FeedPlan
    from sparkflow_runtime.errors import OutOfRangeError

    feed = WorkerFeed(FeedPlan(_format(), BATCH), 0)
    feed.take({"parquet": _share(table).to_json()})
    rows = 0
    try:
        while True:
            *_, count = feed.train.next_batch()
            rows += int(count)
    except OutOfRangeError:
        feed.close()
    return rows


if __name__ == "__main__":
    main()
