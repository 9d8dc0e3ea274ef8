"""The time of whole fits, from the call of `fit` to the model, and what they wait for.

    python benchmarks/spark_fit.py [--cases 784x1 784x5 28x1 parquet memory] [--record]

`local[2]`, two workers that also hold the variables (`numPs=0`), batches of 128 (512 for the narrow
rows), random rows in Parquet files. For comparison, in the same rounds: `toPandas` or `toArrow` and
PyTorch in the driver's process, if PyTorch is installed; reading the same files with pyarrow alone,
and with a bare `mapInArrow`. The case `memory` feeds rows of five times the memory that may be
resident.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import local_spark
import machine
from report import Report, Table, add_options, rate_text, ratio_text, time_text
from spark_feed import DataSet, read_only, write
from timing import Measured, measured

SLOTS = 2
MEMORY_BYTES = 256 << 20
_MEMORY_PROGRAM = str(Path(__file__).with_name("feed_memory.py"))


@dataclass(frozen=True, slots=True)
class Case:
    """A training.

    Attributes:
        data: The rows.
        epochs: The number of epochs.
        batch: Rows per step of each worker.
        layers: Units of the dense layers.
        goal_s: The goal for the whole fit, in seconds.
        peer: How PyTorch gets the rows: `toPandas` or `toArrow`.
    """

    data: DataSet
    epochs: int
    batch: int
    layers: tuple[int, ...]
    goal_s: float
    peer: str


WIDE = DataSet(100_000, 784, scalars=False)
NARROW = DataSet(1_000_000, 28, scalars=True)
CASES = {
    "784x1": Case(WIDE, 1, 128, (256, 128, 10), 8.0, "toPandas"),
    "784x5": Case(WIDE, 5, 128, (256, 128, 10), 12.0, "toArrow"),
    "28x1": Case(NARROW, 1, 512, (64, 32, 10), 8.0, "toPandas"),
}


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=3)
    parser.add_argument("--shrink", type=int, default=1, help="divide the numbers of rows by this")
    known = [*CASES, "parquet", "memory"]
    parser.add_argument("--cases", nargs="+", choices=known, default=known)
    options = parser.parse_args()
    report = Report("spark_fit", local_spark.PACKAGES, options)
    tables: dict[str, Table] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        local_spark.started(Path(folder), SLOTS) as spark,
    ):
        paths = {}
        for whole in (WIDE, NARROW):
            data = DataSet(whole.rows // options.shrink, whole.dim, whole.scalars)
            paths[whole] = data, Path(folder) / f"{data.dim}.parquet"
            write(*paths[whole])
        fits = [name for name in CASES if name in options.cases]
        if fits:
            rows = [_fit_row(spark, CASES[name], paths, options.rounds) for name in fits]
            tables[f"Whole fits, median of {options.rounds} rounds"] = Table(_FIT_HEADINGS, rows)
        if "parquet" in options.cases:
            rows = [_parquet_row(spark, *paths[WIDE], options.rounds)]
            tables[f"fitOnParquet, median of {options.rounds} rounds"] = Table(
                _PARQUET_HEADINGS, rows
            )
    if "memory" in options.cases:
        tables["A worker that feeds more than its memory"] = _memory_table(options.shrink)
    report.finish(tables)


_FIT_HEADINGS = [
    "fit",
    "seconds",
    "goal",
    "peer",
    "peer's seconds",
    "peer / fit",
    "rows/s trained",
    "rows/s only reading",
    "waiting for data, epoch 1",
    "from epoch 2 (goal 5 %)",
]


def _fit_row(spark: Any, case: Case, paths: Any, rounds: int) -> list[str]:
    data, path = paths[case.data]
    seconds: list[float] = []
    peer_s: list[float] = []
    reading: list[float] = []
    first: list[float] = []
    later: list[float] = []
    for round_ in range(-1, rounds):
        frame = spark.read.parquet(str(path))
        bare = read_only(frame)
        began = time.perf_counter()
        model = _trainer(case, data.features).fit(frame)
        fitted = time.perf_counter() - began
        peer = _peer(frame, case, data)
        if round_ < 0:  # warms up the JVM, Spark's Python workers and the page cache
            continue
        seconds.append(fitted)
        reading.append(data.rows / bare)
        if peer is not None:
            peer_s.append(peer)
        shares = model.history.epoch_wait_share
        first.append(shares[0])
        later += shares[1:]
    fit = measured(seconds)
    return [
        f"{data}, {case.epochs} epoch(s)",
        time_text(fit),
        f"{case.goal_s:g} s",
        f"{case.peer} + torch" if peer_s else "torch is not installed",
        time_text(measured(peer_s)) if peer_s else "-",
        ratio_text(measured(peer_s).over(fit)) if peer_s else "-",
        rate_text(measured([data.rows * case.epochs / each for each in seconds])),
        rate_text(measured(reading)),
        f"{measured(first).median:.1%}",
        f"{measured(later).median:.1%}" if later else "-",
    ]


def _trainer(case: Case, features: str | list[str]) -> Any:
    from sparkflow.spark import SparkTrainer

    return SparkTrainer(
        model_fn=model_fn,
        modelParams={"layers": list(case.layers)},
        featuresCol=features,
        numWorkers=SLOTS,
        numPs=0,
        batchSize=case.batch,
        epochs=case.epochs,
        progress=False,
    )


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Dense layers with relu between them, softmax cross entropy, SGD."""
    import sparkflow as tf

    hidden = features
    *inner, last = params["layers"]
    for index, units in enumerate(inner):
        hidden = tf.layers.dense(hidden, units, activation=tf.nn.relu, name=f"dense_{index}")
    logits = tf.layers.dense(hidden, last, name="logits")
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {"prediction": tf.argmax(logits, axis=1)}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _peer(frame: Any, case: Case, data: DataSet) -> float | None:
    """Returns the seconds to collect the rows and train with PyTorch; None without PyTorch."""
    try:
        import torch
    except ModuleNotFoundError:
        return None
    import numpy as np

    began = time.perf_counter()
    if case.peer == "toArrow" and hasattr(frame, "toArrow"):
        table = frame.toArrow()
        labels = table.column("label").to_numpy()
        values = (
            np.stack([table.column(name).to_numpy() for name in data.features], axis=1)
            if data.scalars
            else table.column("features").combine_chunks().flatten().to_numpy()
        )
    else:
        pandas = frame.toPandas()
        labels = pandas["label"].to_numpy()
        values = (
            pandas[list(data.features)].to_numpy()
            if data.scalars
            else np.stack(pandas["features"].to_numpy())
        )
    x = torch.from_numpy(np.ascontiguousarray(values, np.float32).reshape(-1, data.dim).copy())
    y = torch.from_numpy(labels.astype(np.int64))
    parts: list[Any] = []
    sizes = (data.dim, *case.layers)
    for inputs, outputs in pairwise(sizes):
        parts += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    network = torch.nn.Sequential(*parts[:-1])
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for _ in range(case.epochs):
        for chosen in torch.randperm(len(x)).split(case.batch):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x[chosen]), y[chosen]).backward()
            optimizer.step()
    return time.perf_counter() - began


_PARQUET_HEADINGS = [
    "rows",
    "rows/s, pyarrow alone",
    "rows/s read and fed",
    "fed / pyarrow (goal 0.8)",
    "the whole fit",
]


def _parquet_row(spark: Any, data: DataSet, path: Path, rounds: int) -> list[str]:
    alone: list[float] = []
    fed: list[float] = []
    fits: list[float] = []
    case = Case(data, 1, 128, (256, 128, 10), 0.0, "")
    for round_ in range(-1, rounds):
        reading, feeding = _seconds(lambda: _read_alone(path)), _seconds(lambda: _feed(path, data))
        fitting = _seconds(lambda: _trainer(case, data.features).fitOnParquet(str(path)))
        if round_ >= 0:
            alone.append(data.rows / reading)
            fed.append(data.rows / feeding)
            fits.append(fitting)
    bare, ours = measured(alone), measured(fed)
    return [
        str(data),
        rate_text(bare),
        rate_text(ours),
        ratio_text(ours.over(bare)),
        time_text(measured(fits)),
    ]


def _seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _read_alone(path: Path) -> None:
    import pyarrow.parquet as pq

    for file in sorted(path.iterdir()):
        pq.read_table(file, columns=["features", "label"])


def _feed(path: Path, data: DataSet) -> None:
    """Runs one worker with all files, up to the last batch."""
    from sparkflow.spark.data.feed.worker_feed import WorkerFeed
    from sparkflow.spark.data.feed_plan import FeedPlan
    from sparkflow.spark.data.parquet.footers import read_footers
    from sparkflow.spark.data.parquet.shares import ParquetShare, deal_groups
    from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
    from sparkflow.spark.data.schema.row_schema import ARRAY, SCALARS, InputColumns
    from sparkflow_runtime.errors import OutOfRangeError

    features = Input("features", DENSE, "float32", (data.dim,))
    label = Input("label", DENSE, "int64", ())
    files = read_footers(str(path))
    columns = (
        InputColumns(features, ARRAY, ("features",)),
        InputColumns(label, SCALARS, ("label",)),
    )
    share = ParquetShare(str(path), deal_groups(files.groups, 1, 0)[0], columns)
    feed = WorkerFeed(FeedPlan(RowFormat((features,), label, None, named=False), 128), 0)
    feed.take({"parquet": share.to_json()})
    rows = 0
    try:
        while True:
            *_, count = feed.train.next_batch()
            rows += int(count)
    except OutOfRangeError:
        feed.close()
    if rows != data.rows:
        raise RuntimeError(f"{rows} of {data.rows} rows were fed")


def _memory_table(shrink: int) -> Table:
    memory = MEMORY_BYTES // shrink
    with tempfile.TemporaryDirectory() as folder:
        text = subprocess.run(
            [sys.executable, _MEMORY_PROGRAM, str(memory), str(5 * memory)],
            env={**os.environ, "SPARK_LOCAL_DIRS": folder},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    found = json.loads(text)
    cells = [_mib(each) for each in (5 * memory, memory, found["resident"], found["anonymous"])]
    headings = ["rows of", "memory for them", "most resident", "of it not mapped", "rows/s"]
    return Table(headings, [[*cells, rate_text(Measured((found["rows_per_s"],)))]])


def _mib(size_bytes: float) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB"


if __name__ == "__main__":
    main()
