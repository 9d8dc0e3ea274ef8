"""Consecutive and concurrent fits: the driver keeps nothing of them."""

from __future__ import annotations

import gc
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from py4j.finalizer import ThreadSafeFinalizer
from pyspark.sql import DataFrame, SparkSession

import sparkflow as tf
from sparkflow.spark import SparkTrainer

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("child_processes")]

FEW = 2
OTHERS_A_FIT = 200
"""The number of Python's own objects per fit that is ignored: a graph alone has thousands."""
MOST_BYTES_A_FIT = 250_000
"""What the allocator may keep of a fit whose objects are all released; 70,000 on 2026-11-24."""


def classification(features: Any, labels: Any, mode: str) -> Any:
    logits = tf.layers.dense(features, 3, name="logits")
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=tf.argmax(logits, axis=1))
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    x = np.random.default_rng(0).normal(size=(60, 2))
    rows = [(v.tolist(), i % 3) for i, v in enumerate(x)]
    cached = spark.createDataFrame(rows, "features array<double>, label int").cache()
    cached.count()
    return cached


def _kind(thing: object) -> str:
    """Returns its class. Tuples and the like, of the interpreter and of these samples, vary."""
    kind = type(thing)
    if kind.__module__ in ("builtins", "collections", __name__):
        return "others"
    return f"{kind.__module__}.{kind.__qualname__}"


@dataclass(frozen=True)
class Held:
    """The objects, files and threads of the driver's process."""

    objects: Counter[str]
    java_references: int
    threads: int
    descriptors: int
    files: int
    resident_bytes: int

    @classmethod
    def now(cls, folder: Path) -> Held:
        gc.collect()
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            Counter(map(_kind, gc.get_objects())),
            len(ThreadSafeFinalizer.finalizers),
            threading.active_count(),
            len(os.listdir("/proc/self/fd")),
            sum(len(names) for _, _, names in os.walk(folder)),
            pages * os.sysconf("SC_PAGE_SIZE"),
        )

    def grown_since(self, before: Held, fits: int) -> dict[str, int]:
        """Returns what has grown by one or more per fit: other code keeps a few of its own."""
        grown = {key: count - before.objects[key] for key, count in self.objects.items()}
        grown["others"] //= OTHERS_A_FIT
        for each in ("java_references", "threads", "descriptors", "files"):
            grown[each] = getattr(self, each) - getattr(before, each)
        return {key: count for key, count in grown.items() if count >= fits}


@pytest.fixture
def held(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """What the driver holds, including its temporary files; Spark's own are elsewhere."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spark_files = Path(spark.sparkContext._temp_dir)

    def now() -> tuple[Held, Held]:
        return Held.now(tmp_path), Held.now(spark_files)

    return now


def repeat(fit: Callable[[], object], held: Any, fits: int) -> int:
    """Fits twice this many times, after some to warm up; fails if something grew with each fit.

    What grows only once, like caches of Spark and of the tests, has not grown in both halves.

    Returns:
        The bytes by which the process has grown per fit.
    """
    for _ in range(2):
        fit()
    samples = [held()]
    for _ in range(2):
        for _ in range(fits):
            fit()
        samples.append(held())
    for first, middle, last in zip(*samples, strict=True):
        grown = middle.grown_since(first, fits)
        again = last.grown_since(middle, fits)
        assert {key: (count, again[key]) for key, count in grown.items() if key in again} == {}
    return int((samples[2][0].resident_bytes - samples[0][0].resident_bytes) / (2 * fits))


def trainer(**params: Any) -> SparkTrainer:
    given = {"progress": False, "batchSize": 8, "numWorkers": 2, **params}
    return SparkTrainer(model_fn=classification, **given)


@pytest.mark.nightly
def test_nothing_is_kept_of_a_fit(df: DataFrame, held: Any, tmp_path: Path) -> None:
    # All features of a fit: a parameter server, validation, checkpoints, events, progress.
    folder = str(tmp_path / "run")
    params = {
        "syncMode": "sync",
        "checkpointDir": folder,
        "resume": False,
        "logDir": f"{folder}-logs",
        "validationFraction": 0.2,
    }

    def fit() -> None:
        trainer(**params).fit(df)
        shutil.rmtree(folder)
        shutil.rmtree(f"{folder}-logs")

    repeat(fit, held, FEW)


@pytest.mark.parametrize("make", [tf.Graph, lambda: [[] for _ in range(1000)]])
def test_what_is_kept_is_found(held: Any, make: Callable[[], object]) -> None:
    """Tests the measurement: a graph for each fit, and many small objects."""
    kept: list[Any] = []
    with pytest.raises(AssertionError, match=r"Graph|others"):
        repeat(lambda: kept.append(make()), held, FEW)


@pytest.mark.nightly
def test_thirty_fits(df: DataFrame, held: Any) -> None:
    assert repeat(lambda: trainer().fit(df), held, 15) < MOST_BYTES_A_FIT


@pytest.mark.nightly
def test_four_fits_at_once(df: DataFrame, held: Any) -> None:
    def four() -> None:
        with ThreadPoolExecutor(4) as pool:
            fits = [
                pool.submit(trainer(numWorkers=1, numPs=0, seed=seed).fit, df) for seed in range(4)
            ]
            assert all(each.result().history.steps == 8 for each in fits)

    assert repeat(four, held, 4) < 4 * MOST_BYTES_A_FIT
