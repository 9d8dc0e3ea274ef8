"""The time of `fit` until the first training step, of a function, and Spark's part of them.

    python benchmarks/fit_start.py [--record]

256 cached rows, one parameter server, two workers and one step each on `local[4]`; then a function
of `SparkCluster.run` that makes one step in a session, in as many tasks. Spark's part is the time
of an empty barrier job with as many tasks in the same session.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import local_spark
import machine
from report import Report, Table, add_options, time_text
from timing import measured

NUM_PS = 1
NUM_WORKERS = 2
BATCH = 128
DIM = 28
STAGES = (
    "the job is submitted (rows counted and placed, graphs built)",
    "all tasks have registered",
    "variables are initialised",
    "the first step",
)


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=7)
    options = parser.parse_args()
    report = Report("fit_start", local_spark.PACKAGES, options)
    empty: list[float] = []
    stages: dict[str, list[float]] = {name: [] for name in (*STAGES, "the whole fit")}
    with tempfile.TemporaryDirectory() as folder, local_spark.started(Path(folder)) as spark:
        rows = _rows(spark)
        for round_ in range(-1, options.rounds):
            barrier, times = _empty_job(spark), _fit(rows)
            if round_ >= 0:  # the first ones warm up the JVM and Spark's Python workers
                empty.append(barrier)
                for name, seconds in times.items():
                    stages[name].append(seconds)
        functions = [_function(spark) for _ in range(1 + options.rounds)][1:]
    barrier, step = measured(empty), measured(stages[STAGES[-1]])
    table = Table(
        ["what", "time"],
        [
            [f"an empty barrier job of {NUM_PS + NUM_WORKERS} tasks", time_text(barrier)],
            *([f"fit to: {name}", time_text(measured(each))] for name, each in stages.items()),
            ["the first step, less the empty job", time_text(step.minus(barrier))],
            ["a function that makes one step", time_text(measured(functions))],
        ],
    )
    report.finish({f"Median of {options.rounds} rounds": table})


def _rows(spark: Any) -> Any:
    from pyspark.sql import functions as F

    features = F.array(*(F.rand(seed=i).cast("float") for i in range(DIM))).alias("features")
    label = (F.rand(seed=DIM) < 0.5).cast("int").alias("label")
    rows = spark.range(NUM_WORKERS * BATCH).select(features, label).cache()
    rows.count()
    return rows


def _empty_job(spark: Any) -> float:
    """Returns the seconds of a barrier job whose tasks do nothing."""

    def nothing(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    tasks = NUM_PS + NUM_WORKERS
    began = time.perf_counter()
    spark.range(0, tasks, 1, tasks).mapInArrow(nothing, "id bigint", barrier=True).collect()
    return time.perf_counter() - began


def _function(spark: Any) -> float:
    """Returns the seconds of a function that makes a step of its own in each task."""
    from sparkflow.spark import SparkCluster

    def make_step() -> float:
        import sparkflow as tf

        x = tf.Variable(1.0)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(x))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(train)
            return float(session.run(x))

    cluster = SparkCluster(spark, numWorkers=NUM_PS + NUM_WORKERS)
    began = time.perf_counter()
    cluster.run(make_step)
    return time.perf_counter() - began


def _fit(rows: Any) -> dict[str, float]:
    """Returns the seconds from the call of `fit` to the end of each stage."""
    from sparkflow.spark import Callback, SparkTrainer

    seen: dict[str, float] = {}

    def note(stage: str) -> None:
        seen.setdefault(stage, time.perf_counter() - began)

    class Stages(Callback):
        def on_waiting(self, text: str) -> None:
            note(STAGES[0])

        def on_train_begin(self, run: Any) -> None:
            note(STAGES[2])

        def on_steps(self, update: Any) -> None:
            note(STAGES[3])

    class Log(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "tasks after" in record.getMessage():
                note(STAGES[1])

    log, handler = logging.getLogger("sparkflow.spark.control"), Log()
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    trainer = SparkTrainer(
        model_fn=model_fn,
        numPs=NUM_PS,
        numWorkers=NUM_WORKERS,
        batchSize=BATCH,
        epochs=1,
        progress=False,
        callbacks=[Stages()],
    )
    began = time.perf_counter()
    trainer.fit(rows)
    note("the whole fit")
    log.removeHandler(handler)
    return seen


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    """Logistic regression."""
    import sparkflow as tf

    logits = tf.layers.dense(features, 2, name="logits")
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {"prediction": tf.argmax(logits, axis=1)}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


if __name__ == "__main__":
    main()
