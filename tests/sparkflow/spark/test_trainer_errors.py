"""What goes wrong in `fit`: a clear message, soon, nothing left behind, and the next fit works."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

import sparkflow as tf
from sparkflow.spark import SparkTrainer, SparkTrainingError
from sparkflow.spark.report.history import HistoryRecorder
from sparkflow_runtime.errors import InvalidArgumentError

pytestmark = pytest.mark.timeout(300)

# The issue asks for 30 s; this machine may be doing other things beside.
PATIENCE_S = 60
ROWS = 60


def classification(features: Any, labels: Any, mode: str) -> Any:
    """Three classes."""
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
    x = np.random.default_rng(0).normal(size=(ROWS, 2))
    rows = [(i, v.tolist(), *v.tolist(), i % 3) for i, v in enumerate(x)]
    return spark.createDataFrame(
        rows, "id int, features array<double>, a double, b double, label int"
    ).cache()


@pytest.fixture(autouse=True)
def soon(child_processes: Callable[[], list[int]]) -> Iterator[None]:
    """Every failure is there within the time, and leaves no process (see `child_processes`)."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < PATIENCE_S


def _trainer(**params: Any) -> SparkTrainer:
    model_fn = params.pop("model_fn", classification)
    return SparkTrainer(model_fn=model_fn, **{"progress": False, "batchSize": 8, **params})


def _null(df: DataFrame, column: str, value: Any = None) -> DataFrame:
    return df.withColumn(column, F.when(F.col("id") % 10 != 0, F.col(column)).otherwise(value))


def test_too_few_slots(df: DataFrame) -> None:
    with pytest.raises(
        SparkTrainingError, match=r"numWorkers=3 and numPs=2 need 5 task slots at once, .* has 4"
    ):
        _trainer(numWorkers=3, numPs=2).fit(df)


def test_no_rows(df: DataFrame) -> None:
    with pytest.raises(ValueError, match="The DataFrame has no rows"):
        _trainer().fit(df.where("id < 0"))


@pytest.mark.parametrize(
    ("column", "features", "text"),
    [
        ("features", "features", "features column 'features': 6 of 60 rows"),
        ("label", "features", "label column 'label': 6 of 60 rows"),
        ("b", ["a", "b"], "features column 'b': 6 of 60 rows"),
    ],
)
def test_nulls(df: DataFrame, column: str, features: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"Nulls cannot be trained on[.] Found in {text}"):
        _trainer(featuresCol=features).fit(_null(df, column))


def test_nulls_inside_arrays(df: DataFrame) -> None:
    hole = F.array(F.lit(1.0), F.lit(None))
    with pytest.raises(ValueError, match=r"arrays of the features column 'features': 6 of 60 rows"):
        _trainer().fit(_null(df, "features", hole))


def test_arrays_of_another_length(df: DataFrame) -> None:
    short = F.array(F.lit(1.0))
    with pytest.raises(
        ValueError,
        match="'features' holds arrays of different lengths: expected 2, as 54 of 60 rows have, "
        r"but 6 rows have another length: 1 \(6 rows\)",
    ):
        _trainer().fit(_null(df, "features", short))


@pytest.mark.parametrize(
    ("params", "kind", "text"),
    [
        ({"featuresCol": "x"}, ValueError, "There is no column 'x'; the DataFrame has id, feat"),
        ({"labelCol": "features"}, TypeError, "label column 'features' is array<double>"),
        ({"featuresCol": ["a", "features"]}, TypeError, "'features' is array<double>"),
        ({"featuresCol": "text"}, TypeError, "features column 'text' is string; it must hold"),
    ],
)
def test_wrong_columns(
    df: DataFrame, params: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        _trainer(**params).fit(df.withColumn("text", F.lit("abc")))


def test_model_fn_raises(df: DataFrame) -> None:
    def broken(features: Any, labels: Any, mode: str) -> Any:
        return {}["no such key"]

    with pytest.raises(KeyError, match="no such key") as caught:
        _trainer(model_fn=broken).fit(df)
    assert caught.traceback[-1].name == "broken"


def test_model_fn_returns_something_else(df: DataFrame) -> None:
    with pytest.raises(TypeError, match=r"must return a tf[.]estimator.EstimatorSpec"):
        _trainer(model_fn=lambda features, labels, mode: features).fit(df)


@pytest.mark.parametrize("sync_mode", ["async", "sync"])
def test_a_label_out_of_range(df: DataFrame, sync_mode: str) -> None:
    wrong = df.withColumn("label", F.when(F.col("id") == 41, 7).otherwise(F.col("label")))
    with pytest.raises(InvalidArgumentError) as caught:
        _trainer(numWorkers=2, syncMode=sync_mode).fit(wrong)
    text = str(caught.value)
    # Row 41 went to the second worker.
    assert text.startswith("In worker task 1: ")
    assert "7" in text
    assert "SparseSoftmaxCrossEntropyWithLogits" in text
    assert "test_trainer_errors.py:" in text
    assert "/job:worker/replica:0/task:1" in text


@pytest.mark.parametrize("sync_mode", ["async", "sync"])
def test_a_killed_process(
    df: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    child_processes: Callable[[], list[int]],
    sync_mode: str,
) -> None:
    add = HistoryRecorder.add
    killed: list[int] = []

    def add_and_kill(self: HistoryRecorder, *args: Any) -> int:
        if not killed:
            killed.extend(child_processes())
            os.kill(max(killed), signal.SIGKILL)
        return add(self, *args)

    monkeypatch.setattr(HistoryRecorder, "add", add_and_kill)
    with pytest.raises(
        SparkTrainingError,
        match=r"The process of \w+ task \d on \S+ was killed by signal 9 \(SIGKILL\)",
    ):
        _trainer(numWorkers=2, epochs=100_000, syncMode=sync_mode).fit(df)
    assert len(killed) == 3
    monkeypatch.undo()
    # The next one works, in the same session.
    assert sum(_trainer(numWorkers=2, syncMode=sync_mode).fit(df).history.rows) == ROWS


def test_ctrl_c(df: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(self: HistoryRecorder, *args: Any) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    monkeypatch.setattr(HistoryRecorder, "add", press)
    with pytest.raises(KeyboardInterrupt):
        _trainer(numWorkers=2, epochs=100_000).fit(df)
    monkeypatch.undo()
    assert _trainer(numWorkers=2).fit(df).history.steps == 8
