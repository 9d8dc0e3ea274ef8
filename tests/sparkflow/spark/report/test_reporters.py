"""What is seen of a real training, on `local[4]`."""

import itertools
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import sparkflow as tf
from sparkflow.spark import Callback, SparkTrainer
from sparkflow_runtime.events.event_file import read_events, read_scalars

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("child_processes"),
]


def _model_fn(features: Any, labels: Any, mode: str) -> Any:
    prediction = tf.squeeze(tf.layers.dense(features, 1), axis=[1])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"prediction": prediction})
    loss = tf.reduce_mean(tf.square(prediction - labels))
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class _Descriptions(Callback):
    """Reads what Spark's UI would show of the jobs."""

    def __init__(self, spark: SparkSession) -> None:
        self._store: Any = spark.sparkContext._jsc.sc().statusStore()  # type: ignore[attr-defined]
        self.while_running: list[str] = []
        self.at_the_end: list[str] = []

    def read(self) -> list[str]:
        jobs = self._store.jobsList(None).iterator()
        found = []
        while jobs.hasNext():
            description = jobs.next().description()
            found.append(description.get() if description.isDefined() else "")
        return found

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        self.while_running = self.read()


def test_a_fit_is_seen_everywhere(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [([float(i % 7), float(i % 5)], float(i % 3)) for i in range(60)]
    df = spark.createDataFrame(rows, "features array<float>, label float")
    descriptions = _Descriptions(spark)
    trainer = SparkTrainer(
        model_fn=_model_fn,
        numWorkers=2,
        numPs=1,
        batchSize=5,
        epochs=2,
        logDir=str(tmp_path),
        callbacks=[descriptions],
    )
    model = trainer.fit(df)

    assert model.history.steps == 24
    assert len(model.history.epoch_loss) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith(trainer.uid)]
    assert lines[0].startswith(f"{trainer.uid}: waiting for")
    assert ", step 24/24, " in lines[-1]
    assert ", done after " in lines[-1]
    assert len(lines) < 20

    (run,) = tmp_path.iterdir()
    assert run.name.endswith(trainer.uid)
    (file,) = (run / "train").iterdir()
    scalars = read_scalars(file)
    assert len(scalars["loss"]) == 24
    assert [value for _, value in scalars["epoch_loss"]] == pytest.approx(model.history.epoch_loss)
    graphs = [event.graph_def for event in read_events(file) if event.graph_def]
    assert b"dense/kernel" in graphs[0]

    ours = [text for text in descriptions.while_running if text.startswith(f"{trainer.uid}: ")]
    assert any("workers" in text or "epoch" in text or "waiting" in text for text in ours)
    assert any(", step 24/24, " in text and text.endswith("done") for text in descriptions.read())


def test_nothing_is_shown_when_nothing_is_wanted_and_fits_at_once_do_not_mix(
    spark: SparkSession,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [([float(i % 7)], float(i % 3)) for i in range(20)]
    df = spark.createDataFrame(rows, "features array<float>, label float").cache()
    number = itertools.count()
    failures: list[BaseException] = []

    def fit() -> None:
        log_dir = tmp_path / "logs"
        trainer = SparkTrainer(
            model_fn=_model_fn, numPs=1, progress=False, logDir=str(log_dir), seed=next(number)
        )
        try:
            trainer.fit(df)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=fit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    df.unpersist()
    assert failures == []
    assert "SparkTrainer" not in capfd.readouterr().err
    runs = list((tmp_path / "logs").iterdir())
    assert len(runs) == 2
    for run in runs:
        (file,) = (run / "train").iterdir()
        assert len(read_scalars(file)["loss"]) == 1
