"""Trainings whose number of workers changes during the run."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkflow as tf
from sparkflow.spark import SparkTrainer
from support.standalone import standalone

pytestmark = [pytest.mark.timeout(400), pytest.mark.usefixtures("child_processes")]


def network(features: Any, labels: Any, mode: str) -> Any:
    """A hidden layer and Adam, whose slots must be preserved."""
    hidden = tf.layers.dense(features, 4, activation=tf.nn.tanh, name="hidden")
    prediction = tf.squeeze(tf.layers.dense(hidden, 1, name="out"), axis=[1])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, prediction)
    loss = tf.reduce_mean(tf.square(prediction - labels))
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    train_op = tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    x = np.random.default_rng(0).normal(size=(103, 3))
    rows = [(v.tolist(), float(v[0] - v[1] * v[2])) for v in x]
    return spark.createDataFrame(rows, "features array<double>, label double").cache()


def _slots(*counts: int) -> Callable[[], int]:
    """Returns slots for these numbers of workers, one after each epoch, repeating the last."""
    left = list(counts)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def _fit(
    rows: DataFrame | str, workers: Any, slots: Callable[[], int] | None = None, **params: Any
) -> Any:
    """Fits a DataFrame, or the Parquet files in a folder."""
    given = {"numPs": 1, "batchSize": 8, "epochs": 4, "syncMode": "sync", "seed": 5}
    trainer = SparkTrainer(
        model_fn=network, numWorkers=workers, progress=False, **{**given, **params}
    )
    trainer.count_workers = slots
    return trainer.fitOnParquet(rows) if isinstance(rows, str) else trainer.fit(rows)


def _assert_same(model: Any, other: Any) -> None:
    for name, value in other.inference_model.variables.items():
        np.testing.assert_allclose(
            model.inference_model.variables[name], value, rtol=1e-5, atol=1e-6
        )


def test_one_then_three_then_two_workers_learn_what_three_do(df: DataFrame) -> None:
    fixed = _fit(df, 3)
    model = _fit(df, (1, 3), _slots(1, 3, 2))
    assert [(each["before"], each["workers"]) for each in model.history.resized] == [(1, 3), (3, 2)]
    assert all(0 < each["pause_s"] < 120 for each in model.history.resized)
    assert model.history.steps == fixed.history.steps
    assert model.history.restarts == []
    _assert_same(model, fixed)


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Row groups of 7 rows in two files; some rows are invalid, some are for validation."""
    path = tmp_path_factory.mktemp("rows")
    x = np.random.default_rng(0).normal(size=(103, 3))
    for number, part in enumerate(np.array_split(np.arange(103), 2)):
        label = x[part, 0] - x[part, 1] * x[part, 2]
        label[part % 17 == 3] = np.nan
        columns = {"a": x[part, 0], "b": x[part, 1], "c": x[part, 2], "label": label}
        table = pa.table({**columns, "holds": part % 6 == 0})
        pq.write_table(table, path / f"{number}.parquet", row_group_size=7)
    return str(path)


FILES = {
    "featuresCol": ["a", "b", "c"],
    "handleInvalid": "skip",
    "validationIndicatorCol": "holds",
    "syncMode": "allreduce",
    "numPs": 0,
    "epochs": 3,
}


def test_workers_that_read_files_come_and_go(written: str) -> None:
    fixed = _fit(written, 3, **FILES)
    model = _fit(written, (1, 3), _slots(1, 3), **FILES)
    assert [(each["before"], each["workers"]) for each in model.history.resized] == [(1, 3)]
    assert model.history.epoch_rows == fixed.history.epoch_rows
    _assert_same(model, fixed)
    losses = [[each["loss"] for each in it.history.validation] for it in (model, fixed)]
    np.testing.assert_allclose(*losses, rtol=1e-4)


@pytest.mark.nightly
@pytest.mark.parametrize("params", [{"syncMode": "sync", "numPs": 1}, {"shuffle": False}])
def test_one_then_three_then_two_workers_read_files(written: str, params: dict[str, Any]) -> None:
    given = {**FILES, "epochs": 4, **params}
    fixed = _fit(written, 3, **given)
    model = _fit(written, (1, 3), _slots(1, 3, 2), **given)
    assert [each["workers"] for each in model.history.resized] == [3, 2]
    _assert_same(model, fixed)


@pytest.mark.nightly
def test_on_their_own_workers_that_read_files_change_at_the_end_of_an_epoch(written: str) -> None:
    model = _fit(written, (1, 2), _slots(1, 2), **{**FILES, "syncMode": "async", "numPs": 1})
    assert [each["workers"] for each in model.history.resized] == [2]
    trained = sum(n % 17 != 3 and n % 6 != 0 for n in range(103))
    assert model.history.epoch_rows == [trained] * 3


@pytest.mark.nightly
def test_a_table_is_read_by_workers_that_come_and_go(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    x = np.random.default_rng(0).normal(size=(60, 2))
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "label": x[:, 0] - x[:, 1]})
    for first in (0, 30):
        deltalake.write_deltalake(str(tmp_path), table.slice(first, 30), mode="append")
    models = []
    for workers, slots in ((2, None), ((1, 2), _slots(1, 2))):
        given = {"featuresCol": ["a", "b"], "batchSize": 8, "epochs": 3, "seed": 5}
        trainer = SparkTrainer(
            model_fn=network, numWorkers=workers, numPs=1, syncMode="sync", progress=False, **given
        )
        trainer.count_workers = slots
        models.append(trainer.fitOnTable(str(tmp_path)))
    assert [each["workers"] for each in models[1].history.resized] == [2]
    _assert_same(*models)


@pytest.mark.nightly
def test_on_their_own_workers_change_at_the_end_of_an_epoch(df: DataFrame) -> None:
    model = _fit(df, (1, 2), _slots(1, 2), syncMode="async", epochs=3)
    assert [each["workers"] for each in model.history.resized] == [2]
    assert model.history.epoch_rows == [103, 103, 103]


@pytest.mark.nightly
def test_all_reduce_and_validation(df: DataFrame) -> None:
    params = {"syncMode": "allreduce", "numPs": 0, "validationFraction": 0.2}
    fixed = _fit(df, 3, **params)
    model = _fit(df, (1, 3), _slots(2, 3, 1), **params)
    assert [each["workers"] for each in model.history.resized] == [3, 1]
    _assert_same(model, fixed)
    losses = [[each["loss"] for each in it.history.validation] for it in (model, fixed)]
    np.testing.assert_allclose(*losses, rtol=1e-4)


@pytest.mark.nightly
def test_a_machine_that_comes_and_is_lost_with_dynamic_allocation(tmp_path: Path) -> None:
    program = Path(__file__).with_name("elastic_program.py")
    with standalone(tmp_path, workers=1, cores=1, memory="2g") as master:
        done = subprocess.run(
            [sys.executable, str(program), str(tmp_path), master],
            stdout=subprocess.PIPE,
            text=True,
            timeout=360,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
    assert done.returncode == 0
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("{"))
    found = json.loads(line)
    # The machine is lost between two segments. If Spark knows before the next one begins, training
    # continues with the other worker; if not, the segment fails and begins again.
    outcome = (found["resized"], found["restarts"])
    assert outcome in (([[1, 2]], 1), ([[1, 2], [2, 1]], 0))
    assert found["started"].startswith("an ordinary stage")
    # The later fit makes the epochs that the first one had not made.
    assert found["resumed"] is not None
    assert found["epochs"] == [60, 65, 65]
    assert found["steps"][1] == found["steps"][2]
    for name, value in found["whole"].items():
        np.testing.assert_allclose(found["later"][name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((3, 1), "the minimum is larger than the maximum"),
        ((0, 2), "numWorkers=\\(0, 2\\): a pair of numbers"),
        ((1, 2, 3), "a pair of numbers"),
        (("1", 2), "a pair of numbers"),
        ("1-3", "numWorkers: "),
        ([], "a pair of numbers"),
    ],
)
def test_numbers_that_are_no_pair(value: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        SparkTrainer(model_fn=network, numWorkers=value)


def test_what_does_not_go_together(df: DataFrame) -> None:
    trainer = SparkTrainer(model_fn=network, numWorkers=(2, 4))
    assert (trainer.getMinWorkers(), trainer.getNumWorkers()) == (2, 4)
    with pytest.raises(ValueError, match="minWorkers=2 is more than numWorkers=1"):
        trainer.setParams(numWorkers=1).fit(df)
    trainer.setParams(numWorkers=(1, 4), gradientAccumulation=2)
    with pytest.raises(ValueError, match="gradientAccumulation needs a fixed number of workers"):
        trainer.fit(df)
