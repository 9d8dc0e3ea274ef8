"""Models in files: single, in pipelines and after tuning, loaded in a fresh process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml import PipelineModel
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.tuning import CrossValidatorModel
from pyspark.sql import SparkSession

import sparkflow as tf
from sparkflow.export import InferenceModel, Output, Signature
from sparkflow.graph.nodes import reach
from sparkflow.spark import SparkTrainer, SparkTrainerModel
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.model.model_files import download, local_folder, read_model_file, upload
from sparkflow.spark.model.persistence import ALLOWED_OPS, ModelReader
from sparkflow_runtime.checkpoint.sealed import open_json, seal_json
from sparkflow_runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

X = [[1.0, 2.0, 3.0], [-1.0, 0.0, 4.0]]


def _model(inference_model: InferenceModel, **params: Any) -> SparkTrainerModel:
    history = TrainingHistory.from_dict(inference_model.extra["history"])
    return SparkTrainerModel(inference_model, history).setParams(**params)


def test_a_model_comes_back_as_it_was(
    mixed: InferenceModel, spark: SparkSession, tmp_path: Path
) -> None:
    columns = {"age": "a", "id": "b", "nums": ["c", "d"]}
    model = _model(mixed, featuresCol=columns, handleInvalid="skip", predictionCol="p")
    path = str(tmp_path / "model")
    model.save(path)
    with pytest.raises(Exception, match=r"(?i)already exists"):
        model.save(path)
    model.write().overwrite().save(f"file:{path}")
    loaded = SparkTrainerModel.load(path)
    assert loaded.uid == model.uid
    assert loaded.getFeaturesCol() == columns
    assert (loaded.getHandleInvalid(), loaded.getPredictionCol()) == ("skip", "p")
    assert loaded.history == model.history
    assert loaded.history.loss == [2.0, 1.0]
    assert loaded.inference_model.signature == mixed.signature
    # Without Spark, in a process without the code that created it.
    program = (
        "import sys; from sparkflow.export import InferenceModel\n"
        f"model = InferenceModel.load({path!r})\n"
        "assert 'pyspark' not in sys.modules\n"
        "print([each.name for each in model.signature.inputs])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=100
    )
    assert done.stdout.strip() == str([each.name for each in mixed.signature.inputs])


def test_a_strange_model_reaches_only_what_is_allowed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 1], name="x")
        read = tf.strings.length(tf.read_file("/etc/hostname"))
        tf.multiply(x, tf.cast(read, tf.float32) * 0.0 + 2.0, name="y")
    signature = Signature.of_features("x:0", 1, (Output("prediction", "y:0", "float32", (1,)),))
    inference_model = InferenceModel.build(graph.as_graph_def(), {}, signature, {"history": {}})
    path = str(tmp_path / "model")
    PipelineModel([_model(inference_model, featuresCol=["a"])]).save(path)
    monkeypatch.setattr(reach, "_ours", set())
    alone = f"{path}/stages/{os.listdir(f'{path}/stages')[0]}"
    for load in (PipelineModel.load, SparkTrainerModel.load):
        with pytest.raises(PermissionDeniedError, match=r"allowed_ops=\['ReadFile'\]"):
            load(path if load == PipelineModel.load else alone)
    rows = spark.createDataFrame([(3.0,)], "a double")
    loaded = SparkTrainerModel.load(alone, allowed_ops=["ReadFile"])
    assert loaded.transform(rows).first()["prediction"] == 6.0
    spark.conf.set(ALLOWED_OPS, "WriteFile, ReadFile")
    try:
        assert PipelineModel.load(path).transform(rows).first()["prediction"] == 6.0
    finally:
        spark.conf.unset(ALLOWED_OPS)


def test_a_model_in_a_pipeline_and_after_tuning(
    classifier: InferenceModel, spark: SparkSession, tmp_path: Path
) -> None:
    def unused(features: Any) -> Any:
        raise AssertionError(features)

    trainer = SparkTrainer(model_fn=unused, epochs=7, featuresCol=["a", "b", "c"])
    model = _model(classifier, featuresCol=["a", "b", "c"])
    best = PipelineModel([model])
    tuned = CrossValidatorModel(best, avgMetrics=[1.0])
    tuned._set(
        estimator=trainer,
        evaluator=MulticlassClassificationEvaluator(),
        estimatorParamMaps=[{trainer.epochs: 7}],
    )
    tuned.save(str(tmp_path / "tuned"))
    loaded = CrossValidatorModel.load(str(tmp_path / "tuned"))
    df = spark.createDataFrame(X, ["a", "b", "c"])
    expected = classifier.predict(np.array(X, np.float32))["prediction"].tolist()
    assert [row["prediction"] for row in loaded.transform(df).collect()] == expected
    again = loaded.getEstimator()
    assert isinstance(again, SparkTrainer)
    assert (again.uid, again.getEpochs()) == (trainer.uid, 7)
    with pytest.raises(FailedPreconditionError, match=r"set trainer\.model_fn before fit"):
        again.model_fn(None)


def test_files_go_through_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    """As if the path were not on this machine."""
    source, found = tmp_path / "source", tmp_path / "found"
    source.mkdir()
    found.mkdir()
    content = {"graph.pb": b"\x00\xff" * 1000, "variables.safetensors": b"", "model.json": b"{}"}
    for name, value in content.items():
        (source / name).write_bytes(value)
    target = f"file:{tmp_path}/new/target"
    upload(spark, source, target)
    download(spark, target, content, found)
    assert {each.name: each.read_bytes() for each in found.iterdir()} == content
    with pytest.raises(NotFoundError, match="does not contain a model; it lacks c"):
        download(spark, target, ["graph.pb", "c"], found)
    assert read_model_file(spark, target) == b"{}"
    assert read_model_file(spark, f"{target}/nowhere") is None
    # Another model's files have different names; those of the first one are deleted when it is
    # complete.
    (source / "graph.pb").rename(source / "graph-0123abcd.pb")
    upload(spark, source, target)
    names = {each.name for each in (tmp_path / "new/target").iterdir() if each.name[0] != "."}
    assert names == {"graph-0123abcd.pb", "variables.safetensors", "model.json"}
    assert local_folder(spark, target) == tmp_path / "new" / "target"
    spark.sparkContext._jsc.hadoopConfiguration().set(
        "fs.elsewhere.impl", "org.apache.hadoop.fs.ftp.FTPFileSystem"
    )
    assert local_folder(spark, "elsewhere://nobody:none@localhost/path") is None


def test_what_is_no_model_is_refused(
    classifier: InferenceModel, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "model"
    _model(classifier).save(str(path))
    with pytest.raises(InvalidArgumentError, match=r"holds a .*SparkTrainerModel, not a Special"):
        ModelReader(type("Special", (SparkTrainerModel,), {})).load(str(path))
    (path / ".model.json.crc").unlink(missing_ok=True)
    description, _ = open_json((path / "model.json").read_bytes(), "")
    (path / "model.json").write_bytes(seal_json(description | {"format_version": 99}))
    with pytest.raises(InvalidArgumentError, match="version 99, this version of sparkflow reads"):
        SparkTrainerModel.load(str(path))
    (path / "model.json").write_bytes(seal_json(description))
    (path / "graph.pb").unlink()
    with pytest.raises(NotFoundError, match=r"does not contain a model; it lacks graph\.pb"):
        SparkTrainerModel.load(str(path))
