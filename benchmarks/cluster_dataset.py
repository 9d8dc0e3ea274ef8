"""Rows per second of `SparkCluster.dataset` and of the feed that `fit` draws from; start times.

    python benchmarks/cluster_dataset.py [--record]

Both draw the same shuffled batches of 128 rows of the same files in the same processes,
alternately. "feed" reads arrays from the source, "dataset" runs a session step that draws the next
batch and fetches its number of rows, so the ratio includes the cost of a step. "start" is the time
from `SparkCluster` to the first result of its session, "stop" the time to end its tasks.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import local_spark
import machine
from report import Report, Table, add_options, rate_text, ratio_text, time_text
from spark_feed import BATCH, NUM_PS, NUM_WORKERS, DataSet, written
from timing import measured


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=5)
    parser.add_argument("--shrink", type=int, default=1, help="divide the numbers of rows by this")
    options = parser.parse_args()
    report = Report("cluster_dataset", local_spark.PACKAGES, options)
    rows = []
    with tempfile.TemporaryDirectory() as folder, local_spark.started(Path(folder)) as spark:
        for data, path in written(Path(folder), options.shrink):
            feed, dataset = _rates(spark, path, data, options.rounds)
            rows.append(
                [str(data), rate_text(feed), rate_text(dataset), ratio_text(dataset.over(feed))]
            )
        starts = _starts(spark, options.rounds)
    headings = ["rows", "rows/s of fit's feed", "rows/s of the dataset", "dataset / feed"]
    report.finish(
        {
            f"Median of {options.rounds} rounds": Table(headings, rows),
            "A cluster": Table(["start", "stop"], [list(map(time_text, starts))]),
        }
    )


def _rates(spark: Any, path: Path, data: DataSet, rounds: int) -> Any:
    from sparkflow.spark import SparkCluster

    cluster = SparkCluster(spark, numWorkers=NUM_WORKERS, numPs=NUM_PS)
    frame = spark.read.parquet(str(path))
    features = {"features": data.features, "label": "label"}
    shares = cluster.dataset(frame, features, batch_size=BATCH, shuffle=True)
    found = cluster.run(_drain, shares, rounds)
    cluster.close()
    return (
        measured([sum(each) for each in zip(*rates, strict=True)])
        for rates in zip(*found, strict=True)
    )


def _drain(shares: Any, rounds: int) -> Any:
    """Returns a worker's rows per second by round, for the feed and for the dataset."""
    import json
    import os

    import sparkflow as tf
    from sparkflow.spark.data.feed_plan import FeedPlan
    from sparkflow.spark.data.hosted.hosted_rows import HostedRows
    from sparkflow_runtime.errors import OutOfRangeError

    task = json.loads(os.environ["TF_CONFIG"])["task"]
    if task["type"] == "ps":
        return None
    worker = task["index"]
    dataset = shares[worker]
    source = dataset._variant_tensor.op.get_attr("source")
    text = source.decode() if isinstance(source, bytes) else source
    assert FeedPlan.from_json(json.loads(text)["plan"]).batch_size == BATCH
    hosted = HostedRows(worker)
    iterator = dataset.make_initializable_iterator()
    size = tf.shape(iterator.get_next()["label"])[0]
    rates: tuple[list[float], list[float]] = ([], [])
    with tf.Session() as session:
        for round_ in range(-1, rounds):  # the first ones warm up the page cache
            batches = hosted.find(text).iterate()
            began, rows = time.monotonic(), 0
            while (batch := batches.next(None)) is not None:
                rows += len(batch[-1])
            fed = rows / (time.monotonic() - began)
            batches.close()
            session.run(iterator.initializer)
            began, rows = time.monotonic(), 0
            try:
                while True:
                    rows += int(session.run(size))
            except OutOfRangeError:
                given = rows / (time.monotonic() - began)
            if round_ >= 0:
                rates[0].append(fed)
                rates[1].append(given)
    return rates


def _starts(spark: Any, rounds: int) -> Any:
    import sparkflow as tf
    from sparkflow.spark import SparkCluster

    starts: list[float] = []
    stops: list[float] = []
    for _ in range(rounds):
        began = time.monotonic()
        cluster = SparkCluster(spark, numWorkers=NUM_WORKERS, numPs=NUM_PS)
        with tf.Graph().as_default():
            with tf.device("/job:worker/task:1"):
                answer = tf.constant(1) + 1
            with tf.Session(cluster.target, credentials=cluster.credentials) as session:
                session.run(answer)
        starts.append(time.monotonic() - began)
        began = time.monotonic()
        cluster.close()
        stops.append(time.monotonic() - began)
    return measured(starts), measured(stops)


if __name__ == "__main__":
    main()
