"""What goes wrong in `fit`: a clear message, soon; nothing is left, and the next fit works."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

import sparkflow as tf
from sparkflow.spark import SparkTrainer, SparkTrainingError
from sparkflow.spark.cluster.worker_callbacks import WorkerEvent
from sparkflow.spark.errors import StalledError
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.testing.suspending import suspend
from support.processes import left_after
from support.spark_callbacks import OnFirstSteps

# No failure leaves a process behind.
pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("child_processes")]

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
    with pytest.raises(ValueError, match=r"Nulls .* features column 'features': 6 of 60 rows"):
        _trainer().fit(_null(df, "features", hole))


def test_arrays_of_another_length(df: DataFrame) -> None:
    short = F.array(F.lit(1.0))
    with pytest.raises(
        ValueError,
        match="'features' holds arrays of different lengths: expected 2, as 54 of 60 rows have, "
        r"but 6 rows have a different length: 1 \(6 rows\)",
    ):
        _trainer().fit(_null(df, "features", short))


@pytest.mark.parametrize(
    ("params", "kind", "text"),
    [
        ({"featuresCol": "x"}, ValueError, "There is no column 'x'; the DataFrame has id, feat"),
        ({"labelCol": "day"}, TypeError, "label column 'day' is map<string,int>; it must"),
        ({"featuresCol": ["a", "features"]}, TypeError, "'features' is array<double>"),
        ({"featuresCol": "day"}, TypeError, "features column 'day' is map<string,int>; it must"),
    ],
)
def test_wrong_columns(
    df: DataFrame, params: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        _trainer(**params).fit(df.withColumn("day", F.create_map(F.lit("a"), F.lit(1))))


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
    worker = re.match(r"In worker task ([01]): ", text)  # whoever got row 41
    assert worker is not None
    assert "7" in text
    assert "SparseSoftmaxCrossEntropyWithLogits" in text
    assert "test_trainer_errors.py:" in text
    assert f"/job:worker/replica:0/task:{worker[1]}" in text


@pytest.fixture
def kill(child_processes: Callable[[], list[int]]) -> Callable[[str], None]:
    """Kills the process of a task: `worker 1`."""

    def kill(task: str) -> None:
        roles = {_role(pid): pid for pid in child_processes()}
        os.kill(roles[task], signal.SIGKILL)

    return kill


def _role(pid: int) -> str:
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(each for each in environment if each.startswith(b"SPARKFLOW_TASK="))[15:].decode()


def test_a_killed_process_comes_back(df: DataFrame, kill: Callable[[str], None]) -> None:
    """See `cluster/test_recovery.py` for other processes, modes and checkpoints."""
    killing = OnFirstSteps(lambda: kill("worker 1"))
    trainer = _trainer(numWorkers=2, epochs=300, syncMode="sync", callbacks=[killing])
    history = trainer.fit(df).history
    assert history.epochs >= 300
    assert len(history.restarts) == len(killing.restarts) == 1


def test_a_killed_process_without_restarts(df: DataFrame, kill: Callable[[str], None]) -> None:
    killing = OnFirstSteps(lambda: kill("ps 0"))
    with pytest.raises(
        SparkTrainingError,
        match=r"The process of ps task 0 on \S+ was killed by signal 9 \(SIGKILL\)",
    ):
        _trainer(numWorkers=2, epochs=100_000, maxRestarts=0, callbacks=[killing]).fit(df)
    # The next one works, in the same session.
    assert sum(_trainer(numWorkers=2).fit(df).history.rows) == ROWS


def test_ctrl_c(
    df: DataFrame,
    child_processes: Callable[[], list[int]],
    listening_ports: Callable[[list[int]], set[int]],
    open_ports: Callable[[], set[int]],
) -> None:
    ports: set[int] = set()

    def press() -> None:
        ports.update(listening_ports(child_processes()))
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        _trainer(numWorkers=2, epochs=100_000, callbacks=[OnFirstSteps(press)]).fit(df)
    assert len(ports) >= 3
    assert left_after(child_processes) == []
    assert open_ports().isdisjoint(ports)
    assert _trainer(numWorkers=2).fit(df).history.steps == 8


def test_a_cancelled_job_group(df: DataFrame, child_processes: Callable[[], list[int]]) -> None:
    context = df.sparkSession.sparkContext
    cancelling = OnFirstSteps(lambda: context.cancelJobGroup("mine"))
    context.setJobGroup("mine", "a fit of a notebook cell")
    try:
        with pytest.raises(SparkTrainingError, match="cancelled"):
            _trainer(numWorkers=2, epochs=100_000, callbacks=[cancelling]).fit(df)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)
    assert cancelling.restarts == []
    assert left_after(child_processes) == []


@pytest.mark.nightly
def test_a_process_that_stands_still(
    df: DataFrame, child_processes: Callable[[], list[int]]
) -> None:
    def stop() -> None:
        roles = {_role(pid): pid for pid in child_processes()}
        suspend(roles["worker 1"])

    trainer = _trainer(
        numWorkers=2,
        epochs=100_000,
        syncMode="sync",
        stallTimeout=3,  # shorter than the time after which a suspended process is lost
        maxRestarts=0,
        callbacks=[OnFirstSteps(stop)],
    )
    with pytest.raises(StalledError) as caught:
        trainer.fit(df)
    text = str(caught.value)
    assert "No worker has made a step for 3 s (stallTimeout)" in text
    assert re.search(r"worker 1 on \S+ \(pid \d+\) does not answer and was last heard of", text)
    assert re.search(r"worker 0 on \S+ \(pid \d+\) waits for ps 0 for [\d.]+ s, in step \d+", text)
    assert "Thread " in text.split("Python stacks of those who answered:")[1]


def test_what_a_worker_callback_raises(df: DataFrame) -> None:
    def broken(event: WorkerEvent) -> None:
        raise KeyError(f"no such thing in {event.kind}")

    with pytest.raises(SparkTrainingError, match=r"(?s)no such thing in start.*in broken"):
        _trainer(workerCallbacks=[broken], epochs=100_000).fit(df)
