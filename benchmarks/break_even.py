"""When a distributed fit pays off: `fit` compared with collecting all rows to train in the driver.

    python benchmarks/break_even.py [--torch-path SITE_PACKAGES_WITH_TORCH] [--record]

Random rows in Parquet files, `local[2]`, two workers that also hold the variables (`numPs=0`). In
the same rounds, the rows are collected as Arrow and trained on in the driver's process, on all
processors: in a local sparkflow session, and with PyTorch if installed (`--torch-path` adds the
packages of another environment). All three train on every row the same number of times, in shuffled
batches of the same size, with the same network and optimizer.

Two numbers of rows determine two figures: the cost of a fit independent of rows ("fixed") and the
cost per million rows. From these, the last table calculates (not measures) the number of rows from
which fits on more workers are faster, if the work divides as it did here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import local_spark
import machine
import numpy as np
from report import Report, Table, add_options, ratio_text, time_text
from spark_feed import DataSet, write
from spark_fit import SLOTS, model_fn
from timing import Measured, measured

WORKERS = (2, 4, 8, 16, 32)
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Training:
    """A network and its training rows.

    Attributes:
        name: Its name in tables.
        dim: Features per row.
        rows: The small and the large number of rows.
        layers: Units of the dense layers.
        batch: Rows per step.
        epochs: The number of epochs.
    """

    name: str
    dim: int
    rows: Sequence[int]
    layers: tuple[int, ...]
    batch: int
    epochs: int


TRAININGS = {
    "small": Training(
        "28 columns, MLP 28-64-32-10", 28, (10_000, 100_000, 1_000_000), (64, 32, 10), 512, 3
    ),
    "large": Training(
        "arrays of 784, MLP 784-1024-1024-10",
        784,
        (5_000, 20_000, 60_000),
        (1024, 1024, 10),
        128,
        3,
    ),
}


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds as a function of rows: `fixed + rows * per_row`.

    Attributes:
        fixed: Seconds independent of rows.
        per_row: Seconds per row, over all epochs.
    """

    fixed: float
    per_row: float

    @classmethod
    def through(cls, rows: Sequence[int], seconds: Sequence[float]) -> Line:
        """Returns the line through the smallest and the largest number of rows."""
        per_row = max((seconds[-1] - seconds[0]) / (rows[-1] - rows[0]), 0.0)
        return cls(max(seconds[0] - per_row * rows[0], 0.0), per_row)

    def rows_until_faster(self, alone: Line, workers: int) -> float | None:
        """Returns the rows from which `workers` are faster than one process; None for never."""
        shared = self.per_row * SLOTS / workers
        if shared >= alone.per_row:
            return None
        return max(self.fixed - alone.fixed, 0.0) / (alone.per_row - shared)


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=3)
    parser.add_argument("--shrink", type=int, default=1, help="divide the numbers of rows by this")
    parser.add_argument("--cases", nargs="+", choices=TRAININGS, default=list(TRAININGS))
    parser.add_argument("--torch-path", type=Path, help="site-packages with PyTorch in it")
    options = parser.parse_args()
    if options.torch_path:
        sys.path.append(str(options.torch_path))  # last: this environment takes precedence
    report = Report("break_even", local_spark.PACKAGES, options)
    measuring: list[list[str]] = []
    lines: list[list[str]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        local_spark.started(Path(folder), SLOTS) as spark,
    ):
        for name in options.cases:
            whole = TRAININGS[name]
            training = replace(whole, rows=[rows // options.shrink for rows in whole.rows])
            found = []
            for rows in training.rows:
                warm_up = not found  # the JVM, Spark's Python workers, compiled kernels
                found.append(_measure(spark, training, rows, Path(folder), options.rounds, warm_up))
            for rows, seconds in zip(training.rows, found, strict=True):
                measuring.append(_row(training, rows, seconds))
            lines += _break_even(training, found)
    caption = f"Seconds from a DataFrame to trained variables, median of {options.rounds} rounds"
    report.finish(
        {
            caption: Table(_HEADINGS, measuring),
            "Calculated from these: rows until n workers are faster than one process": Table(
                _LINE_HEADINGS, lines
            ),
        }
    )


_HEADINGS = [
    "training",
    "rows",
    "collected",
    "fit, 2 workers",
    "collect + Session",
    "collect + PyTorch",
    "fit / Session",
    "fit / PyTorch",
]
_LINE_HEADINGS = [
    "training",
    "beside",
    "fit: fixed, per million rows",
    "alone: fixed, per million rows",
    *(f"n = {workers}" for workers in WORKERS),
]

FIT, SESSION, TORCH = "fit", "session", "torch"


def _measure(
    spark: Any, training: Training, rows: int, folder: Path, rounds: int, warm_up: bool
) -> dict[str, Measured]:
    """Returns seconds by competitor; they alternate within each round."""
    data = DataSet(rows, training.dim, scalars=training.dim < 100)
    path = folder / f"{training.dim}-{rows}.parquet"
    write(data, path)
    competitors: dict[str, Callable[[Any], None]] = {
        FIT: lambda frame: _fit(frame, training, data),
        SESSION: lambda frame: _session(frame, training, data),
    }
    if _has_torch():
        competitors[TORCH] = lambda frame: _torch(frame, training, data)
    seconds: dict[str, list[float]] = {name: [] for name in competitors}
    for round_ in range(-1 if warm_up else 0, rounds):
        for name, train in competitors.items():
            frame = spark.read.parquet(str(path))
            began = time.perf_counter()
            train(frame)
            if round_ >= 0:
                seconds[name].append(time.perf_counter() - began)
    return {name: measured(each) for name, each in seconds.items()}


def _fit(frame: Any, training: Training, data: DataSet) -> None:
    from sparkflow.spark import SparkTrainer

    SparkTrainer(
        model_fn=model_fn,
        modelParams={"layers": list(training.layers)},
        featuresCol=data.features,
        numWorkers=SLOTS,
        numPs=0,
        batchSize=training.batch,
        epochs=training.epochs,
        progress=False,
    ).fit(frame)


def _session(frame: Any, training: Training, data: DataSet) -> None:
    import sparkflow as tf

    values, labels = _collect(frame, data)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, data.dim])
        y = tf.placeholder(tf.int64, [None])
        mode = tf.estimator.ModeKeys.TRAIN
        spec = model_fn(x, y, mode, {"layers": list(training.layers)})
        session.run(tf.global_variables_initializer())
        step = session.make_callable([spec.train_op, spec.loss], [x, y])
        for chosen in _batches(len(values), training):
            step(values[chosen], labels[chosen])


def _torch(frame: Any, training: Training, data: DataSet) -> None:
    import torch  # type: ignore[import-not-found]  # optional, often of another environment

    found, numbers = _collect(frame, data)
    values, labels = torch.from_numpy(found.copy()), torch.from_numpy(numbers.copy())
    parts: list[Any] = []
    for inputs, outputs in pairwise((data.dim, *training.layers)):
        parts += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    network = torch.nn.Sequential(*parts[:-1])
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for chosen in _batches(len(values), training):
        optimizer.zero_grad()
        rows = torch.from_numpy(chosen)
        torch.nn.functional.cross_entropy(network(values[rows]), labels[rows]).backward()
        optimizer.step()


def _collect(frame: Any, data: DataSet) -> tuple[np.ndarray, np.ndarray]:
    """Collects all rows in the driver: float32 [rows, dim] and int64 [rows]."""
    table = frame.toArrow()
    labels = table.column("label").to_numpy()
    if data.scalars:
        columns = [table.column(name).to_numpy() for name in data.features]
        return np.stack(columns, axis=1), labels
    values = table.column("features").combine_chunks().flatten().to_numpy()
    return values.reshape(-1, data.dim), labels  # Arrow's memory, which is read-only


def _batches(rows: int, training: Training) -> Iterator[np.ndarray]:
    random = np.random.default_rng(1)
    for _ in range(training.epochs):
        order = random.permutation(rows)
        for first in range(0, rows, training.batch):
            yield order[first : first + training.batch]


def _has_torch() -> bool:
    try:
        import torch  # noqa: F401  (only whether it is there)
    except ModuleNotFoundError:
        return False
    return True


def _row(training: Training, rows: int, seconds: dict[str, Measured]) -> list[str]:
    fit = seconds[FIT]
    alone = [seconds.get(name) for name in (SESSION, TORCH)]
    return [
        f"{training.name}, {training.epochs} epochs",
        f"{rows:,}",
        f"{rows * (training.dim * 4 + 8) / (1 << 20):,.0f} MiB",
        time_text(fit),
        *(time_text(each) if each else "-" for each in alone),
        *(ratio_text(fit.over(each)) if each else "-" for each in alone),
    ]


def _break_even(training: Training, found: Sequence[dict[str, Measured]]) -> list[list[str]]:
    lines = {
        name: Line.through(training.rows, [each[name].median for each in found])
        for name in found[0]
    }
    return [
        [
            training.name,
            "Session" if name == SESSION else "PyTorch",
            _line_text(lines[FIT]),
            _line_text(lines[name]),
            *(_rows_text(lines[FIT].rows_until_faster(lines[name], n)) for n in WORKERS),
        ]
        for name in lines
        if name != FIT
    ]


def _line_text(line: Line) -> str:
    return f"{line.fixed:.1f} s, {line.per_row * MILLION:,.1f} s"


def _rows_text(rows: float | None) -> str:
    return "never" if rows is None else f"{rows:,.0f}"


if __name__ == "__main__":
    main()
