"""Trained models as files, and running them without `model_fn`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Output, Signature
from sparkflow.export.freeze import freeze_graph, prune_graph
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, NotFoundError
from sparkflow_runtime.protos.graph_pb2 import GraphDef

WEIGHTS = np.array([[1.0], [2.0]], np.float32)
BIAS = np.array([0.5], np.float32)


@pytest.fixture
def graph_def() -> GraphDef:
    """y = x w + b, and an initializer that inference does not need."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        weights = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
        bias = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
        tf.get_variable("unused", [3], initializer=tf.zeros_initializer())
        tf.add(tf.matmul(x, weights), bias, name="y")
        tf.global_variables_initializer()
    return graph.as_graph_def()


def _model(graph_def: GraphDef, **variables: Any) -> InferenceModel:
    signature = Signature.of_features("x:0", 2, (Output("prediction", "y:0", "float32", (1,)),))
    values = {"w": WEIGHTS, "b": BIAS, "unused": np.zeros(3, np.float32), **variables}
    return InferenceModel.build(graph_def, values, signature, {"note": "kept"})


def test_a_model_keeps_only_what_its_outputs_need(graph_def: GraphDef) -> None:
    model = _model(graph_def)
    assert sorted(model.variables) == ["b", "w"]
    ops = {node.op for node in model.graph_def.node}
    assert "Placeholder" in ops
    assert not {"Assign", "NoOp"} & ops


def test_a_predictor_computes_and_refuses_other_shapes(graph_def: GraphDef) -> None:
    predictor = _model(graph_def).predictor()
    x = np.array([[1, 1], [2, 0], [0, 3]], np.float32)
    np.testing.assert_allclose(predictor(x)["prediction"], x @ WEIGHTS + BIAS)
    assert predictor(x[:0])["prediction"].shape == (0, 1)
    with pytest.raises(InvalidArgumentError, match=r"features of shape \(batch, 2\), got \(3, 1\)"):
        predictor(x[:, :1])
    predictor.close()
    predictor.close()


def test_files_are_open_and_read_back(graph_def: GraphDef, tmp_path: Path) -> None:
    model = _model(graph_def)
    model.save(tmp_path / "model")
    loaded = InferenceModel.load(tmp_path / "model")
    assert loaded.signature == model.signature
    assert loaded.extra == {"note": "kept"}
    assert loaded.graph_def == model.graph_def
    x = np.ones((1, 2), np.float32)
    np.testing.assert_allclose(loaded.predictor()(x)["prediction"], [[3.5]])
    description = json.loads((tmp_path / "model" / "model.json").read_text())
    assert description["signature"]["inputs"][0]["tensors"] == ["x:0"]
    assert loaded.to_files() == model.to_files()


@pytest.mark.parametrize(
    ("name", "content", "error", "text"),
    [
        ("model.json", b"{", DataLossError, "files are damaged"),
        ("model.json", b"[]", DataLossError, "files are damaged"),
        ("graph.pb", b"\xff\xff", DataLossError, "files are damaged"),
        ("variables.safetensors", b"12345678", DataLossError, "files are damaged"),
    ],
)
def test_damaged_files_are_refused(
    graph_def: GraphDef, name: str, content: bytes, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        InferenceModel.from_files({**_model(graph_def).to_files(), name: content})


def test_missing_and_later_files_are_refused(graph_def: GraphDef, tmp_path: Path) -> None:
    files = _model(graph_def).to_files()
    with pytest.raises(DataLossError, match=r"lacks the files graph\.pb"):
        InferenceModel.from_files({name: files[name] for name in files if name != "graph.pb"})
    with pytest.raises(NotFoundError, match="holds no model"):
        InferenceModel.load(tmp_path)
    later = files["model.json"].replace(b'"format_version": 2', b'"format_version": 9')
    with pytest.raises(InvalidArgumentError, match="version 9, this version of sparkflow reads"):
        InferenceModel.from_files({**files, "model.json": later})


def test_files_of_the_first_version_are_read(graph_def: GraphDef) -> None:
    files = _model(graph_def).to_files()
    description = json.loads(files["model.json"])
    outputs = description["signature"]["outputs"]
    old = {"features": "x:0", "dim": 2, "outputs": outputs}
    description |= {"format_version": 1, "signature": old}
    model = InferenceModel.from_files({**files, "model.json": json.dumps(description).encode()})
    assert model.signature == _model(graph_def).signature
    assert model.predict([[1, 1]])["prediction"].tolist() == [[3.5]]


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": []},
        {"inputs": [{"name": "x", "kind": "odd", "dtype": "float32", "shape": [], "tensors": []}]},
        {"outputs": [{}]},
    ],
)
def test_signatures_that_cannot_be(graph_def: GraphDef, change: dict[str, Any]) -> None:
    files = _model(graph_def).to_files()
    description = json.loads(files["model.json"])
    description["signature"] |= change
    with pytest.raises(DataLossError, match=r"files are damaged: model\.json"):
        InferenceModel.from_files({**files, "model.json": json.dumps(description).encode()})


def test_nodes_and_values_must_be_there(graph_def: GraphDef) -> None:
    with pytest.raises(NotFoundError, match="no node 'z'"):
        prune_graph(graph_def, ["z:0"])
    with pytest.raises(NotFoundError, match="no value for the variables b, unused"):
        freeze_graph(graph_def, {"w": WEIGHTS})
    signature = Signature.of_features("x:0", 2, (Output("prediction", "y:0", "float32", (1,)),))
    with pytest.raises(NotFoundError, match="no value for the variables b"):
        InferenceModel.build(graph_def, {"w": WEIGHTS}, signature)


def test_dense_rows_are_run_in_parts(graph_def: GraphDef) -> None:
    model = _model(graph_def)
    x = np.arange(14, dtype=np.float64).reshape(7, 2)
    found = model.predict(x, batch_size=3)["prediction"]
    np.testing.assert_allclose(found, x @ WEIGHTS + BIAS)
    np.testing.assert_allclose(model.predict({"features": x})["prediction"], found)
    model.close()
