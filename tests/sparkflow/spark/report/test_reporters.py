"""The reports of a real training, on `local[4]`."""

import itertools
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
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
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class _Descriptions(Callback):
    """Reads what Spark's UI would show for the jobs."""

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


# MLflow and its dependencies warn of each other's deprecated names.
@pytest.mark.filterwarnings("ignore")
def test_a_fit_is_seen_everywhere(
    spark: SparkSession, mlflow: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
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
        validationFraction=0.2,
        logDir=str(tmp_path),
        mlflow=True,
        callbacks=[descriptions],
    )
    with mlflow.start_run() as parent:
        model = trainer.fit(df)

    steps = model.history.steps
    assert len(model.history.epoch_loss) == 2
    validation_loss = model.history.validation[-1]["loss"]
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith(trainer.uid)]
    assert lines[0].startswith(f"{trainer.uid}: waiting for")
    assert f", step {steps}/{steps}, " in lines[-1]
    assert ", done after " in lines[-1]
    assert len(lines) < 20

    (run,) = tmp_path.iterdir()
    assert run.name.endswith(trainer.uid)
    (file,) = (run / "train").iterdir()
    scalars = read_scalars(file)
    assert len(scalars["loss"]) == steps
    assert [value for _, value in scalars["epoch_loss"]] == pytest.approx(model.history.epoch_loss)
    graphs = [event.graph_def for event in read_events(file) if event.graph_def]
    assert b"dense/kernel" in graphs[0]
    (file,) = (run / "validation").iterdir()
    assert read_scalars(file)["loss"][-1] == (steps, pytest.approx(validation_loss))

    (child,) = mlflow.search_runs(
        filter_string=f"tags.mlflow.parentRunId = '{parent.info.run_id}'", output_format="list"
    )
    assert child.info.status == "FINISHED"
    assert child.data.params["batchSize"] == "5"
    assert child.data.metrics["val_loss"] == pytest.approx(validation_loss)
    loaded = mlflow.pyfunc.load_model(f"runs:/{child.info.run_id}/model")
    found = loaded.predict(np.float32([[1, 2], [3, 4]]))["prediction"]
    expected = model.inference_model.predictor()(np.float32([[1, 2], [3, 4]]))["prediction"]
    np.testing.assert_allclose(found, expected)

    # The initial description, or already the metrics.
    ours = [text for text in descriptions.while_running if text.startswith("SparkTrainer")]
    assert any("workers" in text or "epoch" in text or "waiting" in text for text in ours)
    assert any(
        f", step {steps}/{steps}, " in text and text.endswith("done")
        for text in descriptions.read()
    )


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
