"""Rows per second from a DataFrame of Parquet files to numpy batches in the workers' processes.

    python benchmarks/spark_feed.py [--record]

The rows take the way that `SparkTrainer.fit` sends them: profiled, cached, placed, written by the
Spark task as an Arrow file, mapped by its child process, drawn in shuffled batches of 128. The
yardstick is a `mapInArrow` that only reads the same files. Features are random.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import local_spark
import machine
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from report import Report, Table, add_options, rate_text, ratio_text, time_text
from timing import measured

NUM_PS = 1
NUM_WORKERS = 2
BATCH = 128
FILES = 8
_READER = str(Path(__file__).with_name("feed_reader.py"))


@dataclass(frozen=True, slots=True)
class DataSet:
    """Random rows.

    Attributes:
        rows: How many.
        dim: Features per row.
        scalars: Whether each feature is a column, or all are one array.
    """

    rows: int
    dim: int
    scalars: bool

    def __str__(self) -> str:
        """The data set as tables call it."""
        columns = f"{self.dim} float columns" if self.scalars else f"arrays of {self.dim} floats"
        return f"{self.rows:,} rows, {columns}"

    @property
    def features(self) -> str | list[str]:
        """What `featuresCol` would be."""
        return [f"f{index}" for index in range(self.dim)] if self.scalars else "features"


@dataclass(frozen=True, slots=True)
class Phases:
    """Seconds from the DataFrame to the end of each phase."""

    profiled: float
    first_batch: float
    all_batches: float


DATA_SETS = (DataSet(100_000, 784, scalars=False), DataSet(1_000_000, 28, scalars=True))


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=5)
    parser.add_argument("--shrink", type=int, default=1, help="divide the numbers of rows by this")
    options = parser.parse_args()
    report = Report("spark_feed", local_spark.PACKAGES, options)
    rows = []
    with tempfile.TemporaryDirectory() as folder, local_spark.started(Path(folder)) as spark:
        for whole in DATA_SETS:
            data = DataSet(whole.rows // options.shrink, whole.dim, whole.scalars)
            path = Path(folder) / f"{data.dim}.parquet"
            write(data, path)
            rows.append([str(data), *_cells(spark, path, data, options.rounds)])
    headings = [
        "rows",
        "rows/s only reading",
        "rows/s to first batch",
        "rows/s to all batches",
        "first batch / reading",
        "all batches / reading",
        "profile and cache",
        "place and write",
        "all batches drawn",
    ]
    report.finish({f"Median of {options.rounds} rounds": Table(headings, rows)})


def write(data: DataSet, path: Path) -> None:
    """Random rows as Parquet files."""
    path.mkdir()
    generator = np.random.default_rng(0)
    for index in range(FILES):
        rows = data.rows // FILES
        values = generator.random((rows, data.dim), np.float32)
        columns: dict[str, Any] = {"label": generator.integers(0, 10, rows)}
        if data.scalars:
            columns |= dict(zip(data.features, np.ascontiguousarray(values.T), strict=True))
        else:
            offsets = np.arange(rows + 1, dtype=np.int32) * data.dim
            columns["features"] = pa.ListArray.from_arrays(offsets, values.ravel())
        pq.write_table(pa.table(columns), path / f"{index}.parquet")


def _cells(spark: Any, path: Path, data: DataSet, rounds: int) -> Sequence[str]:
    reading: list[float] = []
    found: list[Phases] = []
    for round_ in range(-1, rounds):
        seconds = read_only(spark.read.parquet(str(path)))
        phases = feed(spark.read.parquet(str(path)), data.features)
        if round_ >= 0:  # the first ones warm the JVM and the page cache up
            reading.append(data.rows / seconds)
            found.append(phases)
    bare = measured(reading)
    first = measured([data.rows / each.first_batch for each in found])
    every = measured([data.rows / each.all_batches for each in found])
    return [
        *map(rate_text, (bare, first, every)),
        ratio_text(first.over(bare)),
        ratio_text(every.over(bare)),
        time_text(measured([each.profiled for each in found])),
        time_text(measured([each.first_batch - each.profiled for each in found])),
        time_text(measured([each.all_batches - each.first_batch for each in found])),
    ]


def read_only(frame: Any) -> float:
    """Seconds of a job that does nothing with the rows but count them in Python."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        rows = sum(batch.num_rows for batch in batches)
        yield pyarrow.RecordBatch.from_pydict({"rows": [rows]})

    began = time.monotonic()
    frame.mapInArrow(count, "rows bigint").collect()
    return time.monotonic() - began


def feed(frame: Any, features_col: str | list[str]) -> Phases:
    """Takes the rows the way `SparkTrainer.fit` does."""
    from pyspark import StorageLevel

    from sparkflow.spark.job.layout import Layout
    from sparkflow.spark.rows.columns import find_features, find_label, select_rows
    from sparkflow.spark.rows.placement import place_rows
    from sparkflow.spark.rows.profile import profile_rows

    layout = Layout(NUM_PS, NUM_WORKERS)
    began = time.monotonic()  # the same clock in all processes
    features = find_features(frame.schema, features_col)
    label = find_label(frame.schema, "label")
    rows = select_rows(frame, features, label).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        profile = profile_rows(rows, features, label)
        profiled = time.monotonic()
        placed = place_rows(rows, profile.partition_rows, layout)
        task = _task(profile.dim, _READER)
        schema = "first double, last double, rows bigint"
        workers = placed.mapInArrow(task, schema, barrier=True).collect()
    finally:
        rows.unpersist()
    if sum(worker["rows"] for worker in workers) != profile.rows:
        raise RuntimeError(f"The workers drew {workers}, there are {profile.rows} rows")
    return Phases(
        profiled - began,
        min(worker["first"] for worker in workers) - began,
        max(worker["last"] for worker in workers) - began,
    )


def _task(dim: int, reader: str) -> Any:
    """What `sparkflow.spark.job.task` does with rows, with a reader as the child process."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import pathlib
        import tempfile as files

        import pyarrow
        from pyspark import BarrierTaskContext

        from sparkflow.spark.feed.feed import write_rows
        from sparkflow.spark.job.task import child_environment

        context = BarrierTaskContext.get()
        worker = context.partitionId() - NUM_PS
        if worker < 0:
            for _ in batches:
                raise RuntimeError("A parameter server got rows")
            return
        environment = child_environment(os.environ, 1, NUM_PS + NUM_WORKERS, None)
        with files.TemporaryDirectory() as folder:
            child = subprocess.Popen(
                [sys.executable, reader, str(worker), str(BATCH)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            path = pathlib.Path(folder) / "rows.arrow"
            write_rows(batches, path, dim)
            answer, _ = child.communicate(f"{path}\n")
        yield pyarrow.RecordBatch.from_pylist([json.loads(answer)])

    return run


if __name__ == "__main__":
    main()
