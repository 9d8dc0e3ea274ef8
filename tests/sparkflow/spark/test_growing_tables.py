"""A growing table, trained from a DataFrame, and its form in the model."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkflow as tf
from sparkflow.export import InferenceModel
from sparkflow.export.mlflow import save_model
from sparkflow.export.values import feed_arrays
from sparkflow.spark import SparkTrainer, SparkTrainerModel
from support.spark_callbacks import OnFirstSteps

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

USERS = ["ada", "", "grace", "日本"]


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    rows = [
        (USERS[number % 4], (number % 3) * (1 << 60) - 5, float(number % 4 + number % 3))
        for number in range(96)
    ]
    return spark.createDataFrame(rows, ["user", "item", "label"]).cache()


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    start = tf.random_normal_initializer(stddev=0.5, seed=3)
    users = tf.get_embedding_variable(
        "users",
        3,
        key_dtype=tf.string,
        initializer=start,
        partitioner=tf.fixed_size_partitioner(2),
    )
    items = tf.get_embedding_variable("items", 3, initializer=start)
    found = tf.nn.embedding_lookup(users, features["user"])
    found += tf.nn.embedding_lookup(items, features["item"])
    predicted = tf.layers.dense(found, 1, kernel_initializer=tf.ones_initializer())[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        known = tf.reduce_any(tf.not_equal(found, 0.0), 1)
        return tf.estimator.EstimatorSpec(mode, {"prediction": predicted, "known": known})
    loss = tf.reduce_mean(tf.square(predicted - labels))
    train_op = tf.train.AdamOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def trainer(**params: Any) -> SparkTrainer:
    given = {"progress": False, "batchSize": 16, "epochs": 8, "syncMode": "sync", "numPs": 1}
    columns = {"user": "user", "item": "item"}
    return SparkTrainer(model_fn=model_fn, featuresCol=columns, **{**given, **params})


def test_every_form_of_the_model_has_the_table(
    spark: SparkSession, df: DataFrame, tmp_path: Path
) -> None:
    fitted = trainer(numWorkers=2).fit(df)
    assert fitted.history.epoch_loss[-1] < 0.2 * fitted.history.epoch_loss[0]
    variables = fitted.inference_model.variables
    assert variables["users/rows"].shape == (5, 3)
    assert variables["items/keys"].tolist()[:3] == [-5, (1 << 60) - 5, (2 << 60) - 5]
    strange = spark.createDataFrame([("nobody", 8, 0.0), ("ada", -5, 0.0)], df.schema)
    rows = df.limit(6).union(strange).select("user", "item").collect()
    inputs = {name: [row[name] for row in rows] for name in ("user", "item")}
    expected = fitted.inference_model.predict(inputs)
    assert expected["known"].tolist() == [True] * 6 + [False, True]

    asked = spark.createDataFrame(rows, "user string, item bigint").coalesce(1)

    def same(model: Any) -> None:
        found = model.transform(asked).collect()
        np.testing.assert_array_equal([row.prediction for row in found], expected["prediction"])
        assert [row.known for row in found] == expected["known"].tolist()

    same(fitted)
    fitted.write().overwrite().save(str(tmp_path / "model"))
    same(SparkTrainerModel.load(str(tmp_path / "model")))
    loaded = InferenceModel.load(tmp_path / "model")
    for name, value in loaded.predict(inputs).items():
        np.testing.assert_array_equal(value, expected[name])
    assert "users" in str(loaded.summary())

    save_model(loaded, tmp_path / "mlflow")
    mlflow = pytest.importorskip("mlflow")
    pandas = pytest.importorskip("pandas")
    found = mlflow.pyfunc.load_model(str(tmp_path / "mlflow")).predict(pandas.DataFrame(inputs))
    np.testing.assert_array_equal(found["prediction"], expected["prediction"])

    version = loaded.to_saved_model(tmp_path / "served")
    _same_in_a_session(loaded, version, inputs, expected)
    if os.environ.get("TENSORFLOW_PYTHON"):
        _same_in_tensorflow(loaded, version, inputs, expected, tmp_path)


def _feeds(model: InferenceModel, inputs: Any) -> dict[str, Any]:
    arrays, _ = feed_arrays(model.signature, inputs)
    names = [each.name for each in model.signature.inputs]
    return dict(zip(names, arrays, strict=True))


def _same_in_a_session(model: InferenceModel, version: Path, inputs: Any, expected: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        message = tf.saved_model.load(session, ["serve"], str(version))
        signature = message.signature_def["serving_default"]
        feeds = _feeds(model, inputs)
        found = session.run(
            {name: info.name for name, info in signature.outputs.items()},
            {signature.inputs[name].name: value for name, value in feeds.items()},
        )
    np.testing.assert_allclose(found["prediction"], expected["prediction"], 1e-6)


def _same_in_tensorflow(
    model: InferenceModel, version: Path, inputs: Any, expected: Any, folder: Path
) -> None:
    given = {}
    for name, value in _feeds(model, inputs).items():
        texts = value.dtype == object
        values = [each.decode() for each in value.ravel()] if texts else value.ravel().tolist()
        dtype = "<U" if texts else str(value.dtype)
        given[name] = {"values": values, "dtype": dtype, "shape": list(value.shape)}
    (folder / "feeds.json").write_text(json.dumps(given))
    program = Path(__file__).parents[1] / "export" / "tensorflow_program.py"
    python = os.environ["TENSORFLOW_PYTHON"]
    done = subprocess.run(
        [python, str(program), str(version), str(folder / "feeds.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])["outputs"]
    np.testing.assert_allclose(found["prediction"], expected["prediction"], 1e-5)
    assert found["known"] == expected["known"].tolist()


def test_stages_train_a_table_as_one_task_does(df: DataFrame) -> None:
    whole = trainer(numWorkers=1, epochs=2).fit(df).inference_model.variables
    divided = trainer(numWorkers=1, epochs=2, modelParallel=2, numPs=0).fit(df)
    assert divided.inference_model.variables.keys() == whole.keys()
    for name, value in divided.inference_model.variables.items():
        np.testing.assert_allclose(value, whole[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.nightly
def test_a_killed_server_loses_nothing_of_a_table(
    df: DataFrame, tmp_path: Path, child_processes: Callable[[], list[int]]
) -> None:
    whole = trainer(numWorkers=1, epochs=4).fit(df).inference_model.variables
    killing = trainer(
        numWorkers=1, epochs=4, checkpointDir=str(tmp_path), checkpointSteps=3, maxRestarts=3
    )
    killing.callbacks = (OnFirstSteps(lambda: os.kill(child_processes()[0], signal.SIGKILL)),)
    fitted = killing.fit(df)
    assert fitted.history.restarts
    for name, value in fitted.inference_model.variables.items():
        np.testing.assert_array_equal(value, whole[name], err_msg=name)
