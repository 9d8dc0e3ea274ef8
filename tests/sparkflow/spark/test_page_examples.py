"""The blocks of pages about Spark that assume something: a `model_fn`, rows, a place.

It is provided here. The rest runs unchanged; addresses of clusters and stores become folders.
"""

import datetime
import io
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml import Pipeline
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import Imputer
from pyspark.ml.tuning import CrossValidator
from pyspark.sql import DataFrame, SparkSession

import sparkflow as tf
from sparkflow.spark import (
    SparkDNNClassifier,
    SparkTrainer,
    SparkTrainerModel,
    SparkWideDeepClassifier,
)
from support.pages import blocks, run

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    # pyspark's CrossValidator leaves its threads to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed running multiprocessing pool:ResourceWarning"),
]


def model_fn(features, labels, mode):
    """Two classes, with the metrics that the pages use."""
    logits = tf.layers.dense(features, 2)
    probability = tf.nn.softmax(logits)
    prediction = tf.argmax(logits, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {"prediction": prediction, "probability": probability}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    metrics = {
        "auc": tf.metrics.auc(labels, probability[:, 1]),
        "accuracy": tf.metrics.accuracy(labels, prediction),
    }
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    """Two features decide the label; `petal` has nulls."""
    return spark.range(240).selectExpr(
        "array(cast(id % 7 AS float), cast(id % 3 AS float)) AS features",
        "cast(id % 7 > 3 AS int) AS label",
        "cast(id % 7 > 3 AS int) AS species",
        "if(id % 5 = 0, NULL, cast(id AS double)) AS petal",
    )


@pytest.fixture
def flights(spark: SparkSession) -> DataFrame:
    return spark.range(200).selectExpr(
        "if(id % 2 = 0, 'UA', 'EV') AS carrier",
        "if(id % 3 = 0, 'IAH', 'RDU') AS dest",
        "cast(id % 24 AS int) AS hour",
        "cast(id AS double) AS distance",
        "cast(id % 2 AS int) AS late",
    )


@pytest.fixture
def given(spark: SparkSession, df: DataFrame) -> dict[str, Any]:
    return {
        "spark": spark,
        "df": df,
        "test_df": df,
        "model_fn": model_fn,
        "SparkSession": SparkSession,
        "SparkTrainer": SparkTrainer,
        "SparkTrainerModel": SparkTrainerModel,
        "CrossValidator": CrossValidator,
        "tf": tf,
    }


def test_the_trainer(given: dict[str, Any], tmp_path: Path) -> None:
    saved = str(tmp_path / "model")
    features = np.float32([[6, 0], [0, 2]])
    names = run(
        "docs/spark_trainer.md",
        {"/models/flights": saved},
        {**given, "path": saved, "features": features},
    )
    found = names["model"].predict(features)
    assert found["prediction"].tolist() == [1, 0]


def test_control_of_training(given: dict[str, Any], tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    smaller = {"numWorkers=8": "numWorkers=2", "s3a://bucket/flights/run-1": str(checkpoints)}
    easier = {"losses[-1] < 0.01": "losses[-1] < 100.0"}
    names = run("docs/spark_training_control.md", {**smaller, **easier}, given)
    assert list(checkpoints.iterdir())
    assert names["model"].history.stopped == "good enough"


def test_ready_made_estimators(
    given: dict[str, Any], df: DataFrame, flights: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    estimator = SparkDNNClassifier(labelCol="species", epochs=1)
    more = {
        "flights": flights,
        "test": df,
        "estimator": estimator,
        "grid": [{estimator.learningRate: 0.01}],
        "evaluator": MulticlassClassificationEvaluator(labelCol="species"),
        "imputer": Imputer(inputCols=["petal"], outputCols=["filled"]),
        "Pipeline": Pipeline,
    }
    smaller = {
        "[5.1, 3.5, 1.4, 0.2]": "[5.0, 1.0]",  # these rows have two features
        "epochs=20": "epochs=2",
        ").fit(flights)": "    epochs=2,\n).fit(flights)",
    }
    names = run("docs/spark_estimators.md", smaller, {**given, **more})
    assert set(names["model"].evaluate(df)) >= {"accuracy", "f1", "logLoss"}


def test_inputs(given: dict[str, Any], spark: SparkSession, tmp_path: Path) -> None:
    from PIL import Image

    for kind, color in (("cats", "red"), ("dogs", "blue")):
        for number in range(3):
            path = tmp_path / "pictures" / kind / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            content = io.BytesIO()
            Image.new("RGB", (80, 40 + number), color).save(content, "JPEG")
            path.write_bytes(content.getvalue())
    rest = """
    spec = given_model_fn(tf.reshape(images, [-1, 64 * 64 * 3]), labels, mode)
    return spec
"""
    written = blocks(
        "docs/spark_inputs.md", {'"pictures/"': f'"{tmp_path}/pictures/"', "    ...\n": rest}
    )
    names = {**given, "given_model_fn": model_fn}
    exec(written[0], names)  # noqa: S102  (what is run is our own documentation)
    with tf.Graph().as_default(), tf.Session() as session:
        names["features"] = {"pickup": tf.constant([1_767_225_600_000_000 + 3_600_000_000])}
        exec(written[1], names)  # noqa: S102
        assert session.run(names["hours"]) == [1.0]
    exec(written[2], names)  # noqa: S102
    with tf.Graph().as_default():
        words = tf.sparse_placeholder(tf.string, [None, None])
        names["model_fn"]({"words": words}, None, "train", {"vocabulary": ["a", "b"]})
        assert [each.shape.as_list() for each in tf.trainable_variables()] == [[3, 16]]
    exec(written[3], names)  # noqa: S102
    assert len(written) == 4
    found = names["model"].transform(names["df"]).select("label", "prediction").collect()
    assert len(found) == 6


def test_models(
    given: dict[str, Any], spark: SparkSession, flights: DataFrame, tmp_path: Path
) -> None:
    flights.write.parquet(f"{tmp_path}/rows")
    columns = ["carrier", "dest", "hour", "distance"]
    estimator = SparkWideDeepClassifier(
        wideCols=columns[:2], deepCols=columns, labelCol="late", epochs=2
    )
    more = {
        "model": estimator.fit(flights),
        "df": flights,
        "stream": spark.readStream.schema(flights.schema).parquet(f"{tmp_path}/rows"),
        "rows": {name: [row[name] for row in flights.head(5)] for name in columns},
    }
    own = {"hdfs:///models/flights": f"{tmp_path}/model"}
    # The third block, without Spark, is run by tests/sparkflow/export/test_documentation.py.
    names = run("docs/spark_model.md", own, {**given, **more}, only=[0, 1, 3])
    names["query"].processAllAvailable()
    assert names["query"].lastProgress["numInputRows"] == 200
    names["query"].stop()
    outputs = [each.name for each in names["session"].get_outputs()]
    probability = names["found"][outputs.index("probability")]
    expected = names["model"].inference_model.predict(more["rows"])["probability"]
    np.testing.assert_allclose(probability, expected, atol=1e-5)


def test_models_larger_than_a_task(spark: SparkSession) -> None:
    names = run("docs/spark_model_parallel.md")
    df = spark.range(200).selectExpr(
        "array(cast(id % 7 AS float)) AS features", "cast(id % 7 AS float) AS label"
    )
    model = names["trainer"].setEpochs(3).fit(df)
    assert np.isfinite(model.history.epoch_loss).all()
    assert model.transform(df).count() == 200


@pytest.mark.filterwarnings("ignore")  # they warn of each other's deprecated names
def test_monitoring(given: dict[str, Any], mlflow: Any, tmp_path: Path) -> None:
    told: list[str] = []
    more = {
        "mlflow": mlflow,
        "grid": [{}],
        "evaluator": MulticlassClassificationEvaluator(),
        "post": told.append,
    }
    own = {
        "/models/flights-mlflow": f"{tmp_path}/logged",
        "log_model(": "mlflow.start_run(); log_model(",
        "callbacks=[Slack()])": "validationFraction=0.2, callbacks=[Slack()]).fit(df)",
    }
    run("docs/spark_seeing.md", own, {**given, **more})
    assert mlflow.pyfunc.load_model(f"{tmp_path}/logged").predict(np.float32([[6, 0]]))
    assert mlflow.pyfunc.load_model("models:/flights/1").metadata.signature is not None
    assert told
    assert told[0].startswith("step ")


def test_rows_from_files_and_tables(
    given: dict[str, Any], df: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake = pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.utils.config import Config

    df = df.select("features", "label")
    df.write.parquet(f"{tmp_path}/parquet")
    table = df.toArrow()
    deltalake.write_deltalake(f"{tmp_path}/delta", table)
    deltalake.write_deltalake(f"{tmp_path}/delta", table, mode="append")
    time.sleep(0.01)  # versions are in milliseconds
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    uri = f"sqlite:///{tmp_path}/catalog.db"
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", uri)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it was read on import
    catalog = SqlCatalog("prod", uri=uri)
    catalog.create_namespace("lake")
    iceberg = catalog.create_table("lake.flights", table.schema, f"file://{tmp_path}/lake/flights")
    iceberg.append(table)
    own = {
        '"s3://bucket/flights/2026"': f'"{tmp_path}/parquet"',
        '"s3://bucket/flights"': f'"{tmp_path}/delta"',
        "version=12": "version=1",
        "2026-11-24T00:00:00Z": now,
        "s3://bucket/lake/flights/metadata/00007-1b2c.metadata.json": iceberg.metadata_location,
    }
    trainer = SparkTrainer(model_fn=model_fn, epochs=1)
    names = run("docs/spark_data.md", own, {**given, "trainer": trainer})
    assert names["model"].history.rows[-1] > 0
    catalog.close()


def test_clusters_for_ones_own_programs(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    names = run("docs/spark_cluster.md")
    assert names["last"] < 1e-3
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4
    slope, offset = map(float, re.findall(r"-?\d+\.\d+", printed[1]))
    assert abs(slope - 2) < 0.1
    assert abs(offset - 1) < 0.1


def test_tfrecord_files(given: dict[str, Any], df: DataFrame, tmp_path: Path) -> None:
    from sparkflow.spark import TFRecordDataSource

    given["spark"].dataSource.register(TFRecordDataSource)
    written = df.select("features", "label").write.format("tfrecord").mode("append")
    written.save(f"{tmp_path}/train")
    own = {"/data/train": f"{tmp_path}/train", "/data/copy": f"{tmp_path}/copy"}
    run("docs/tfrecord.md", own, given)
    assert given["spark"].read.format("tfrecord").load(f"{tmp_path}/copy").count() == 240


def test_streams(given: dict[str, Any], df: DataFrame, tmp_path: Path) -> None:
    df.write.parquet(f"{tmp_path}/clicks")
    own = {"hdfs://": str(tmp_path)}
    names = run("docs/deploy/streaming.md", own, {**given, "schema": df.schema})
    assert names["model"].transform(df).count() == 240


@pytest.mark.parametrize("page", ["docs/deploy/connect.md", "docs/deploy/locked_down.md"])
def test_sessions_of_connect(given: dict[str, Any], df: DataFrame, page: str) -> None:
    """On the session of the tests: fits on Connect are tested elsewhere."""
    df.createOrReplaceTempView("flights")
    names = run(page, {'.remote("sc://cluster:15002")': ""}, given)
    assert names["model"].transform(df).count() == 240


def test_gpus(given: dict[str, Any]) -> None:
    """The trainers are created; there are no GPUs for `fit` here."""
    names = run("docs/deploy/gpu.md", {").fit(df)": ")"}, given)
    assert names["workers"].taskResources["gpu"].amount == 1.0


def test_notebooks(given: dict[str, Any]) -> None:
    assert run("docs/notebooks.md", None, given)["spark"].range(3).count() == 3
