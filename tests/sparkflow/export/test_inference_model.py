"""Trained models as files, and running them without `model_fn`."""

import copy
import json
import logging
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import sparkflow as tf
from sparkflow.export import InferenceModel, Output, Signature
from sparkflow.export.freeze import freeze_graph, prune_graph
from sparkflow.graph.nodes import reach
from sparkflow_runtime.checkpoint.sealed import open_json, seal_json
from sparkflow_runtime.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
)
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from support.damage import damages, disk_of

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


def test_a_strange_model_reaches_only_what_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        read = tf.strings.length(tf.read_file("/etc/passwd"))
        tf.add(tf.reduce_sum(x, 1, keepdims=True), tf.cast(read, tf.float32), name="y")
    signature = Signature.of_features("x:0", 2, (Output("prediction", "y:0", "float32", (1,)),))
    model = InferenceModel.build(graph.as_graph_def(), {}, signature)
    model.save(tmp_path)
    InferenceModel.load(tmp_path)  # created by this program
    monkeypatch.setattr(reach, "_ours", set())
    for load in (
        lambda *allowed: InferenceModel.load(tmp_path, *allowed),
        lambda *allowed: InferenceModel.from_files(model.to_files(), *allowed),
    ):
        with pytest.raises(PermissionDeniedError, match=r"allowed_ops=\['ReadFile'\]"):
            load()
        with pytest.raises(PermissionDeniedError, match="ReadFile"):
            load(["WriteFile"])
        assert load(["ReadFile"]).signature == load("all").signature == signature
    for node in model.graph_def.node:
        if node.op == "ReadFile":
            node.op = "NobodyKnows"
    with pytest.raises(PermissionDeniedError, match="NobodyKnows"):
        InferenceModel.from_files(model.to_files())


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
    again = InferenceModel.from_files(loaded.to_files())
    assert (again.graph_def, again.signature) == (model.graph_def, model.signature)


@pytest.mark.parametrize(
    ("name", "content", "error", "text"),
    [
        ("model.json", b"{", DataLossError, r"model\.json cannot be read"),
        ("model.json", b"[]", DataLossError, r"model\.json cannot be read"),
        ("graph.pb", b"\xff\xff", DataLossError, "files are damaged"),
        ("variables.safetensors", b"12345678", DataLossError, r"safetensors cannot be read"),
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
    with pytest.raises(NotFoundError, match="does not contain a model"):
        InferenceModel.load(tmp_path)
    later = seal_json({**described(files), "format_version": 9})
    with pytest.raises(InvalidArgumentError, match="version 9, this version of sparkflow reads"):
        InferenceModel.from_files({**files, "model.json": later})


def described(files: Mapping[str, bytes]) -> dict[str, Any]:
    return open_json(files["model.json"], "model.json")[0]


def of_before(model: InferenceModel, folder: Path) -> None:
    """Returns the files as written by sparkflow before 2026-11-23."""
    folder.mkdir()
    description = {**described(model.to_files()), "format_version": 2}
    del description["files"]
    (folder / "graph.pb").write_bytes(model.graph_def.SerializeToString(deterministic=True))
    save_file(dict(model.variables), folder / "variables.safetensors")
    (folder / "model.json").write_text(json.dumps(description, indent=1, sort_keys=True) + "\n")


def test_files_of_before_are_read_and_it_is_said_that_they_have_no_checksums(
    graph_def: GraphDef, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    of_before(_model(graph_def), tmp_path / "model")
    with caplog.at_level(logging.WARNING):
        model = InferenceModel.load(tmp_path / "model")
    assert "model.json is of sparkflow before 2026-11-23, which wrote no checksums" in caplog.text
    assert model.predict([[1, 1]])["prediction"].tolist() == [[3.5]]
    assert model.extra == {"note": "kept"}
    _model(graph_def, b=BIAS + 1).save(tmp_path / "model")
    assert InferenceModel.load(tmp_path / "model").variables["b"] == BIAS + 1
    assert len(list((tmp_path / "model").iterdir())) == 3


def test_whatever_byte_is_damaged_no_other_model_is_read(
    graph_def: GraphDef, tmp_path: Path
) -> None:
    model = _model(graph_def)
    model.save(tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name, good in files.items():
        said = []
        for damaged in damages(good):
            (tmp_path / name).write_bytes(damaged)
            reads = (
                lambda: InferenceModel.load(tmp_path),
                lambda name=name, damaged=damaged: InferenceModel.from_files(
                    {**files, name: damaged}
                ),
            )
            for read in reads:
                try:
                    found = read()
                except DataLossError as error:
                    said.append(str(error))
                    continue
                assert (found.graph_def, found.signature) == (model.graph_def, model.signature)
                assert found.extra == model.extra
                for key, value in model.variables.items():
                    np.testing.assert_array_equal(found.variables[key], value)
        (tmp_path / name).write_bytes(good)
        assert len(said) > 4 * len(good)
        assert all(name in each for each in said)


def test_a_model_replaces_another_one_and_a_full_disk_leaves_that(
    graph_def: GraphDef, tmp_path: Path
) -> None:
    for number in range(3):
        _model(graph_def, b=BIAS + number).save(tmp_path)
        assert InferenceModel.load(tmp_path).variables["b"] == BIAS + number
        assert len(list(tmp_path.iterdir())) == 3
    before = sorted(tmp_path.iterdir())
    most = max(path.stat().st_size for path in before)
    for size_bytes in (0, most // 2, most - 1):
        with disk_of(size_bytes), pytest.raises(ResourceExhaustedError, match=r"\(\d+ bytes\); Fi"):
            _model(graph_def).save(tmp_path)
        assert sorted(tmp_path.iterdir()) == before
        assert InferenceModel.load(tmp_path).variables["b"] == BIAS + 2


def test_a_mixture_of_two_models_is_refused(graph_def: GraphDef) -> None:
    one, other = _model(graph_def).to_files(), _model(graph_def, b=BIAS + 1).to_files()
    with pytest.raises(
        DataLossError, match=r"variables\.safetensors is .* belongs to another model"
    ):
        InferenceModel.from_files({**one, "variables.safetensors": other["variables.safetensors"]})


def test_files_of_the_first_version_are_read(graph_def: GraphDef) -> None:
    files = _model(graph_def).to_files()
    description = described(files)
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
    description = described(files)
    description["signature"] |= change
    with pytest.raises(DataLossError, match=r"files are damaged: model\.json"):
        InferenceModel.from_files({**files, "model.json": seal_json(description)})


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


def test_a_model_that_predicted_is_copied_and_pickled(graph_def: GraphDef) -> None:
    model = _model(graph_def)
    x = np.arange(4.0).reshape(2, 2)
    model.predict(x)
    for other in (copy.copy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        np.testing.assert_allclose(other.predict(x)["prediction"], x @ WEIGHTS + BIAS)
        other.close()  # only its own
    np.testing.assert_allclose(model.predict(x)["prediction"], x @ WEIGHTS + BIAS)
    model.close()
