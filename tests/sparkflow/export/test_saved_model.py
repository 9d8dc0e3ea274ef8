"""Models as TensorFlow's SavedModel, read back here and in TensorFlow itself.

`tests/golden/saved_model/texts.json` contains results of TensorFlow 2.21. With
`TENSORFLOW_PYTHON=/path/to/python` of an environment with TensorFlow they are computed again.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Output, Signature
from sparkflow.export.signature import part_names
from sparkflow.export.values import feed_arrays
from sparkflow_runtime.errors import AlreadyExistsError, DataLossError, UnimplementedError
from tests.sparkflow.export.text_model import ROWS, text_model

GOLDEN = Path(__file__).parents[2] / "golden" / "saved_model" / "texts.json"


def _feeds(model: InferenceModel) -> dict[str, Any]:
    arrays, _ = feed_arrays(model.signature, ROWS)
    names = [name for each in model.signature.inputs for name in part_names(each)]
    return dict(zip(names, arrays, strict=True))


def _near(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert set(found) == set(expected)
    np.testing.assert_array_equal(found["prediction"], expected["prediction"])
    # 1 - p of a p near 1 has few digits, with compiled kernels and without.
    np.testing.assert_allclose(found["probability"], expected["probability"], 1e-5, atol=2e-7)
    texts = [each.decode() if isinstance(each, bytes) else each for each in found["shout"]]
    assert texts == list(expected["shout"])


def test_the_numbers_are_tensorflows() -> None:
    golden = json.loads(GOLDEN.read_text())
    model = text_model()
    _near(model.predict(ROWS), golden["outputs"])
    model.close()


def test_what_is_written_is_read_with_the_same_numbers(tmp_path: Path) -> None:
    model = text_model()
    written = model.to_saved_model(tmp_path / "flights")
    assert written == tmp_path / "flights" / "1"
    assert {each.name for each in written.iterdir()} == {"saved_model.pb", "variables"}
    assert [each.name for each in written.parent.iterdir()] == ["1"]
    with tf.Graph().as_default(), tf.Session() as session:
        message = tf.saved_model.load(session, ["serve"], str(written))
        signature = message.signature_def["serving_default"]
        feeds = {signature.inputs[name].name: value for name, value in _feeds(model).items()}
        assert len(feeds) == len(signature.inputs) == 8
        fetched = {name: info.name for name, info in signature.outputs.items()}
        found = session.run(fetched, feeds)
    _near(found, json.loads(GOLDEN.read_text())["outputs"])


def test_versions_follow_each_other_and_none_is_replaced(tmp_path: Path) -> None:
    model = text_model()
    assert model.to_saved_model(tmp_path, 7).name == "7"
    assert model.to_saved_model(tmp_path).name == "8"
    with pytest.raises(AlreadyExistsError, match="7 exists; give another version"):
        model.to_saved_model(tmp_path, 7)
    with pytest.raises(ValueError, match="version must be at least 1, got 0"):
        model.to_saved_model(tmp_path, 0)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["7", "8"]
    path = tmp_path / "8" / "saved_model.pb"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with tf.Session(graph=tf.Graph()) as session, pytest.raises(DataLossError, match="damaged"):
        tf.saved_model.load(session, ["serve"], str(path.parent))


def test_ops_that_tensorflow_lacks_are_refused_with_their_node(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        called = tf.py_func(lambda value: value, [x], tf.float32, name="mine")
        tf.reshape(called, [-1, 2], name="y")
    signature = Signature.of_features("x:0", 2, (Output("prediction", "y:0", "float32", (2,)),))
    model = InferenceModel.build(graph.as_graph_def(), {}, signature)
    with pytest.raises(UnimplementedError, match=r"'mine' \(op PyFunc\) cannot be in a SavedModel"):
        model.to_saved_model(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_tensorflow_computes_the_same(tmp_path: Path) -> None:
    python = os.environ.get("TENSORFLOW_PYTHON")
    if not python:
        pytest.skip("TENSORFLOW_PYTHON names no Python with TensorFlow")
    model = text_model()
    written = model.to_saved_model(tmp_path / "flights")
    feeds = {}
    for name, value in _feeds(model).items():
        is_text = value.dtype.kind == "O"
        flat = [each.decode() if is_text else each for each in value.ravel().tolist()]
        dtype = "<U" if is_text else str(value.dtype)
        feeds[name] = {"values": flat, "shape": value.shape, "dtype": dtype}
    (tmp_path / "feeds.json").write_text(json.dumps(feeds))
    program = Path(__file__).with_name("tensorflow_program.py")
    ran = subprocess.run(
        [python, program, written, tmp_path / "feeds.json"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout.splitlines()[-1])
    _near(found["outputs"], json.loads(GOLDEN.read_text())["outputs"])
    held = {name: value.ravel().tolist() for name, value in model.variables.items()}
    scope = "sparkflow_saved_model/handles/"
    assert {name.removeprefix(scope): v for name, v in found["variables"].items()} == held
