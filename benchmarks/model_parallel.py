"""A model divided among two tasks, compared with one task: rows per second and memory per task.

    python benchmarks/model_parallel.py [--record]

`local[4]`, one worker, one thread per task, on two cores. The single task has its variables on a
parameter server, so that it, too, has one thread; its memory is that of a fit with `numPs=0`. Two
stages hold the variables themselves. Because the pipeline must fill and drain, two stages with m
micro-batches can at best be 2 m / (m + 1) times as fast as one; "of the bound" is the fraction of
this that is reached. Memory is the peak of a task's process minus that with a model of a few bytes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import local_spark
import machine
import numpy as np
from report import Report, Table, add_options, rate_text, ratio_text
from timing import Measured, measured

ROWS = 2048
WIDTH = 1024
LAYERS = 8
BATCH = 512
EPOCHS = 24
PARTS = (4, 8, 16)


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=3)
    options = parser.parse_args()
    report = Report("model_parallel", local_spark.PACKAGES, options)
    with tempfile.TemporaryDirectory() as folder, local_spark.started(Path(folder)) as spark:
        features = np.random.default_rng(0).random((ROWS, WIDTH), np.float32)
        rows = [(each.tolist(), float(each.sum())) for each in features]
        frame = spark.createDataFrame(rows, "features array<float>, label float").cache()
        frame.count()
        empty = _fit(frame, 1, 0, width=4)[1]
        cases = [(1, 0), *((2, parts) for parts in PARTS)]
        rates: dict[tuple[int, int], list[float]] = {case: [] for case in cases}
        held: dict[tuple[int, int], list[float]] = {case: [] for case in cases}
        for _ in range(options.rounds):
            for case in cases:
                rate, megabytes = _fit(frame, *case)
                if case == (1, 0):
                    rate, _ = _fit(frame, *case, num_ps=1)
                rates[case].append(rate)
                held[case].append(megabytes - empty)
    one = measured(rates[1, 0])
    table = [_row(case, measured(rates[case]), one, measured(held[case])) for case in cases]
    headings = ["tasks", "micro-batches", "rows/s", "of one task", "of the bound", "MB per task"]
    name = f"{LAYERS} dense layers of {WIDTH}, Adam, batch {BATCH}, median of {options.rounds}"
    report.finish({name: Table(headings, table)})


def _row(case: tuple[int, int], rate: Measured, one: Measured, held: Measured) -> list[str]:
    tasks, parts = case
    speed = rate.over(one)
    bound = "" if tasks == 1 else f"{speed.median * (parts + 1) / (2 * parts):.2f}"
    return [
        str(tasks),
        str(parts or 1),
        rate_text(rate),
        ratio_text(speed),
        bound,
        f"{held.median:.0f}",
    ]


def _fit(
    frame: Any, tasks: int, parts: int, width: int = WIDTH, num_ps: int = 0
) -> tuple[float, float]:
    """Returns rows per second after the first epoch, and the MB of the largest task."""
    import sparkflow as tf
    from sparkflow.spark import Callback, SparkTrainer

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        h = features
        for _ in range(LAYERS):
            h = tf.layers.dense(h, width, tf.nn.relu)
        predicted = tf.reduce_mean(h, 1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"prediction": predicted})
        loss = tf.reduce_mean(tf.square(predicted - labels))
        train = tf.train.AdamOptimizer(1e-4).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    class Peak(Callback):
        megabytes = 0.0

        def on_steps(self, update: Any) -> None:
            self.megabytes = max(self.megabytes, *map(_resident, _children()), 0.0)

    peak = Peak()
    fitted = SparkTrainer(
        model_fn=model_fn,
        numWorkers=1,
        numPs=num_ps,
        modelParallel=tasks,
        microBatches=parts,
        batchSize=BATCH,
        epochs=EPOCHS,
        syncMode="sync",
        progress=False,
        callbacks=[peak],
    ).fit(frame)
    return fitted.history.rows_per_second, peak.megabytes


def _children() -> list[Path]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"sparkflow.spark.cluster.child" in (process / "cmdline").read_bytes():
                found.append(process)
        except OSError:  # it has ended
            continue
    return found


def _resident(process: Path) -> float:
    """Returns the peak memory of a process, in MB."""
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0.0
    return next(float(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
