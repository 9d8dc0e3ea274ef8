"""Rows per second from a DataFrame of Parquet files to numpy batches in the workers' processes.

    python benchmarks/spark_feed.py [--record]

The rows take the paths of `SparkTrainer.fit`: "spooled" as in a local session, written once by the
tasks that read them and mapped by all workers; "exchanged" as on a cluster: profiled, cached,
placed, written by the workers' tasks and mapped by their child processes. In both cases they are
drawn in shuffled batches of 128, in the first epoch while they arrive. The baseline is a
`mapInArrow` that only reads the same files, in the same round. Exchanged rows have another
baseline, which only reads them after Spark has cached, counted and dealt them: the cost of any path
through Spark's shuffle. Features are random.

"feed" is the time from the DataFrame to the last batch, minus that of the same barrier job with the
same processes and no rows, which every training needs once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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
        rows: The number of rows.
        dim: Features per row.
        scalars: Whether each feature is a column; otherwise all are one array.
    """

    rows: int
    dim: int
    scalars: bool

    def __str__(self) -> str:
        """Returns the name of the data set in tables."""
        columns = f"{self.dim} float columns" if self.scalars else f"arrays of {self.dim} floats"
        return f"{self.rows:,} rows, {columns}"

    @property
    def features(self) -> str | list[str]:
        """Returns the value of `featuresCol`."""
        return [f"f{index}" for index in range(self.dim)] if self.scalars else "features"


@dataclass(frozen=True, slots=True)
class Phases:
    """The seconds from the DataFrame to the end of each phase."""

    arranged: float
    first_batch: float
    all_batches: float


DATA_SETS = (DataSet(100_000, 784, scalars=False), DataSet(1_000_000, 28, scalars=True))


def written(folder: Path, shrink: int) -> Iterator[tuple[DataSet, Path]]:
    """Returns each data set with rows divided by a factor, and its files."""
    for whole in DATA_SETS:
        data = DataSet(whole.rows // shrink, whole.dim, whole.scalars)
        path = folder / f"{data.dim}.parquet"
        write(data, path)
        yield data, path


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=5)
    parser.add_argument("--shrink", type=int, default=1, help="divide the numbers of rows by this")
    options = parser.parse_args()
    report = Report("spark_feed", local_spark.PACKAGES, options)
    rows = []
    with tempfile.TemporaryDirectory() as folder, local_spark.started(Path(folder)) as spark:
        for data, path in written(Path(folder), options.shrink):
            rows += [[str(data), *cells] for cells in _cells(spark, path, data, options.rounds)]
    headings = [
        "rows",
        "way",
        "rows/s only reading",
        "rows/s fed",
        "feed / reading (goal 0.9)",
        "reading exchanged rows / reading",
        "no rows",
        "until arranged",
        "until first batch",
        "until all batches",
    ]
    report.finish({f"Median of {options.rounds} rounds": Table(headings, rows)})


def write(data: DataSet, path: Path) -> None:
    """Writes random rows as Parquet files."""
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


def _cells(spark: Any, path: Path, data: DataSet, rounds: int) -> list[list[str]]:
    reading: list[float] = []
    exchanging: list[float] = []
    empty: list[float] = []
    found: dict[str, list[Phases]] = {"spooled": [], "exchanged": []}
    for round_ in range(-1, rounds):
        seconds = read_only(spark.read.parquet(str(path)))
        after_exchange = read_exchanged(spark.read.parquet(str(path)))
        nothing = _without_rows(spark)
        phases = {way: feed(spark.read.parquet(str(path)), data.features, way) for way in found}
        if round_ >= 0:  # the first ones warm up the JVM and the page cache
            reading.append(data.rows / seconds)
            exchanging.append(data.rows / after_exchange)
            empty.append(nothing)
            for way, each in phases.items():
                found[way].append(each)
    bare, without = measured(reading), measured(empty)
    floor = ratio_text(measured(exchanging).over(bare))
    rows = []
    for way, phases_of_way in found.items():
        fed = measured(
            [
                data.rows / max(each.all_batches - nothing, 1e-3)
                for each, nothing in zip(phases_of_way, empty, strict=True)
            ]
        )
        rows.append(
            [
                way,
                *map(rate_text, (bare, fed)),
                ratio_text(fed.over(bare)),
                floor if way == "exchanged" else "",
                time_text(without),
                time_text(measured([each.arranged for each in phases_of_way])),
                time_text(measured([each.first_batch for each in phases_of_way])),
                time_text(measured([each.all_batches for each in phases_of_way])),
            ]
        )
    return rows


def read_only(frame: Any) -> float:
    """Returns the seconds of a job that only counts the rows in Python."""
    began = time.monotonic()
    frame.mapInArrow(_counter(), "rows bigint").collect()
    return time.monotonic() - began


def read_exchanged(frame: Any) -> float:
    """Returns the seconds for rows that Spark caches, counts by partition and deals to tasks."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    began = time.monotonic()
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        frame.groupBy(F.spark_partition_id()).agg(F.count(F.lit(1))).collect()
        task = F.monotonically_increasing_id() % NUM_WORKERS + NUM_PS
        dealt = frame.withColumn("task", task.cast("int"))
        dealt = dealt.repartitionById(NUM_PS + NUM_WORKERS, F.col("task")).drop("task")
        dealt.mapInArrow(_counter(), "rows bigint").collect()
        return time.monotonic() - began
    finally:
        frame.unpersist(blocking=True)


def _counter() -> Any:
    """Returns the counting function; created here so that workers need not import this module."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        rows = sum(batch.num_rows for batch in batches)
        yield pyarrow.RecordBatch.from_pydict({"rows": [rows]})

    return count


def feed(frame: Any, features_col: str | list[str], way: str) -> Phases:
    """Feeds the rows in the way of `SparkTrainer.fit`."""
    from unittest import mock

    from sparkflow.spark.data.plan import spooled
    from sparkflow.spark.data.plan.arrange import arranged_rows
    from sparkflow.spark.params.trainer_params import TrainerParams

    params = TrainerParams()._set(
        featuresCol=features_col, numPs=NUM_PS, numWorkers=NUM_WORKERS, batchSize=BATCH
    )
    is_spooled = way == "spooled"
    began = time.monotonic()  # the same clock in all processes
    with (
        mock.patch.object(spooled, "is_local", return_value=is_spooled),
        arranged_rows(frame, params.config(), None) as rows,
    ):
        prepared, (_, placed) = rows.prepared, rows.place(None)
        arranged = time.monotonic()
        workers = _run(placed.df, prepared.format)
    if sum(worker["rows"] for worker in workers) != prepared.num_rows:
        raise RuntimeError(f"The workers drew {workers}, there are {prepared.num_rows} rows")
    return Phases(
        arranged - began,
        min(worker["first"] for worker in workers) - began,
        max(worker["last"] for worker in workers) - began,
    )


def _without_rows(spark: Any) -> float:
    """Returns the seconds of the barrier job with all its processes but no rows."""
    from pyspark.sql import functions as F

    from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
    from sparkflow.spark.data.spool.spool import MESSAGE_COLUMN

    nothing = RowFormat((Input("features", DENSE, "float32", ()),), None, None, named=False)
    tasks = NUM_PS + NUM_WORKERS
    placed = spark.range(0, tasks, 1, tasks).select(F.lit("").alias(MESSAGE_COLUMN))
    began = time.monotonic()
    workers = _run(placed, nothing)
    return float(max(worker["last"] for worker in workers) - began)


def _run(placed: Any, row_format: Any) -> Any:
    from sparkflow.spark.data.feed_plan import FeedPlan

    plan = FeedPlan(row_format, BATCH, seed=0)
    schema = "first double, last double, rows bigint"
    return placed.mapInArrow(_task(plan, _READER), schema, barrier=True).collect()


def _task(plan: Any, reader: str) -> Any:
    """Handles rows like `sparkflow.spark.cluster.task`, with a reader as the child process."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import os

        import pyarrow
        from pyspark import BarrierTaskContext

        from sparkflow.spark.cluster.task import child_environment
        from sparkflow.spark.data.spool.spool import RowSpool, local_directories

        context = BarrierTaskContext.get()
        worker = context.partitionId() - NUM_PS
        if worker < 0:
            for batch in batches:
                if batch.num_rows and batch.num_columns > 1:
                    raise RuntimeError("A parameter server got rows")
            return
        child = subprocess.Popen(
            [sys.executable, reader],
            env=child_environment(os.environ, 1, NUM_PS + NUM_WORKERS),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stdin: Any = child.stdin

        def tell(message: Any) -> None:
            stdin.write(json.dumps(message) + "\n")
            stdin.flush()

        tell({"plan": plan.to_json(), "worker": worker})
        spool = RowSpool(plan.row_format, local_directories(os.environ), tell)
        spool.take(batches)
        answer, _ = child.communicate()
        spool.close()
        yield pyarrow.RecordBatch.from_pylist([json.loads(answer)])

    return run


if __name__ == "__main__":
    main()
