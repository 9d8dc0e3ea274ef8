"""The predictions of a model are the same in every export format, in values and in shape."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import sparkflow as tf
from sparkflow.export import InferenceModel
from sparkflow.export.mlflow import save_model
from sparkflow.spark import SparkTrainerClassificationModel
from sparkflow.spark.data.schema.row_format import Input, RowFormat
from sparkflow.spark.estimators.heads import Objective, classifier_model_fn
from sparkflow.spark.graphs.inference_graph import build_inference_graph
from sparkflow.spark.graphs.model_fn import ModelInputs

# MLflow and its dependencies warn of each other's deprecated names.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

ROWS = np.float32([[1.0, 2.0], [-3.0, 0.5], [0.25, -1.0]])
Found = dict[str, np.ndarray]


def _logits(width: int) -> Any:
    def logits_fn(features: Any, mode: str) -> Any:
        factors = np.float32([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]])[:, :width]
        return tf.matmul(features, tf.constant(factors))

    return logits_fn


def _one_number(features: Any, mode: str) -> Any:
    """A user's model_fn that computes only one probability."""
    r = tf.squeeze(_logits(1)(features, mode), [1])
    found = {
        "probability": tf.sigmoid(r),
        "rawPrediction": r,
        "prediction": tf.cast(r > 0, tf.int64),
    }
    return tf.estimator.EstimatorSpec(mode, predictions=found)


OBJECTIVE = Objective(lambda loss: loss)
MODELS: dict[str, tuple[Any, int]] = {
    "one logit": (classifier_model_fn(_logits(1), 2, OBJECTIVE), 2),
    "two logits": (classifier_model_fn(_logits(2), 2, OBJECTIVE), 2),
    "three classes": (classifier_model_fn(_logits(3), 3, OBJECTIVE), 3),
    "model_fn": (_one_number, 2),
}


def _built(model_fn: Any) -> InferenceModel:
    row_format = RowFormat((Input("features", "dense", "float32", (2,)),), None, None, False)
    made = build_inference_graph(model_fn, ModelInputs(row_format, {}, 0))
    return InferenceModel.build(made.graph_def, {}, made.signature)


def _by_numpy(model: InferenceModel, folder: Path) -> Found:
    return model.predict(ROWS)


def _saved_and_loaded(model: InferenceModel, folder: Path) -> Found:
    model.save(folder / "model")
    return InferenceModel.load(folder / "model").predict(ROWS)


def _by_onnx(model: InferenceModel, folder: Path) -> Found:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    model.to_onnx(folder / "model.onnx")
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, {"features": ROWS}), strict=True))


def _by_mlflow(model: InferenceModel, folder: Path) -> Found:
    mlflow = pytest.importorskip("mlflow")
    save_model(model, folder / "mlflow")
    found: Found = mlflow.pyfunc.load_model(str(folder / "mlflow")).predict(ROWS)
    return found


def _by_saved_model(model: InferenceModel, folder: Path) -> Found:
    written = model.to_saved_model(folder / "serving")
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], str(written)).signature_def
        info = signature["serving_default"]
        fetched = {name: each.name for name, each in info.outputs.items()}
        found: Found = session.run(fetched, {info.inputs["features"].name: ROWS})
    return found


def _by_graph(model: InferenceModel, folder: Path) -> Found:
    outputs = model.signature.outputs
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = tf.import_graph_def(
            model.to_graph_def(), return_elements=[each.tensor for each in outputs], name="model"
        )
        fed = f"model/{model.signature.feeds[0]}"
        values = session.run(tensors, {fed: ROWS})
    return {each.name: value for each, value in zip(outputs, values, strict=True)}


EXITS: tuple[Callable[[InferenceModel, Path], Found], ...] = (
    _by_numpy,
    _saved_and_loaded,
    _by_onnx,
    _by_mlflow,
    _by_saved_model,
    _by_graph,
)


@pytest.mark.parametrize("leave", EXITS)
@pytest.mark.parametrize("name", MODELS)
def test_without_spark(name: str, leave: Callable[..., Found], tmp_path: Path) -> None:
    model_fn, classes = MODELS[name]
    found = leave(_built(model_fn), tmp_path)
    _check(found, name, classes)


@pytest.mark.parametrize("name", MODELS)
def test_with_spark(name: str, spark: SparkSession) -> None:
    model_fn, classes = MODELS[name]
    model = SparkTrainerClassificationModel(_built(model_fn))
    df = spark.createDataFrame([(row.tolist(),) for row in ROWS], "features array<float>")
    rows = model.transform(df.coalesce(1)).collect()
    names = ("prediction", "probability", "rawPrediction")
    _check({each: np.array([row[each] for row in rows]) for each in names}, name, classes)
    assert model.numClasses == classes
    one = {
        "prediction": [model.predict(row) for row in ROWS],
        "probability": [model.predictProbability(row).toArray() for row in ROWS],
        "rawPrediction": [model.predictRaw(row).toArray() for row in ROWS],
    }
    _check({each: np.array(values) for each, values in one.items()}, name, classes)


def _check(found: Found, name: str, classes: int) -> None:
    raw = ROWS @ np.float32([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]])
    if name in ("one logit", "model_fn"):
        expected = np.stack([-raw[:, 0], raw[:, 0]], 1)
        p = 1 / (1 + np.exp(-expected))
    else:
        expected = raw[:, :classes]
        p = np.exp(expected) / np.exp(expected).sum(1, keepdims=True)
    assert found["probability"].shape == found["rawPrediction"].shape == (3, classes)
    np.testing.assert_allclose(found["rawPrediction"], expected, rtol=1e-5)
    np.testing.assert_allclose(found["probability"], p, rtol=1e-5)
    np.testing.assert_array_equal(found["prediction"], p.argmax(1))
