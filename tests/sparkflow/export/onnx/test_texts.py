"""Models of strings in onnxruntime: hashes and crosses are computed before it, the rest in it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Input, Output, Signature
from sparkflow.export.onnx.convert import TEXTS, to_onnx
from sparkflow_runtime.errors import InvalidArgumentError, UnimplementedError
from tests.sparkflow.export.text_model import ROWS, text_model

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def _numbers() -> InferenceModel:
    """The model of strings without the prediction that is a string."""
    model = text_model()
    return replace(model, signature=replace(model.signature, outputs=model.signature.outputs[:2]))


def _session(made: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _ran(session: Any, feeds: Any) -> dict[str, Any]:
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def test_a_wide_and_deep_model_of_texts_gives_the_same_numbers() -> None:
    model = _numbers()
    made = to_onnx(model)
    session = _session(made)
    rows: list[dict[str, Any]] = [ROWS, {name: each[1:2] for name, each in ROWS.items()}]
    rows.append({"age": [1.0] * 2, "bag": np.eye(4)[:2], "carrier": ["", "x"], "words": [[], []]})
    for given in rows:
        feeds = model.onnx_feeds(given)
        assert set(feeds) == {each.name for each in session.get_inputs()}
        found, expected = _ran(session, feeds), model.predict(given)
        np.testing.assert_allclose(found["probability"], expected["probability"], atol=2e-7)
        np.testing.assert_array_equal(found["prediction"], expected["prediction"])


def test_what_is_made_of_texts_is_described() -> None:
    (found,) = [each.value for each in to_onnx(_numbers()).metadata_props if each.key == TEXTS]
    by_name = {each["name"]: each for each in json.loads(found)}
    assert set(by_name) == {
        "carrier/NotEqual",
        "carrier/Shape",
        "carrier/StringToHashBucketFast",
        "words/StringToHashBucketFast",
        *(f"carrier+words/SparseCross/{place}" for place in range(3)),
    }
    hashed = by_name["carrier/StringToHashBucketFast"]
    assert (hashed["texts"], hashed["attributes"]) == (["carrier"], {"num_buckets": 7})
    # Equal nodes of the wide and the deep part are one input.
    assert len(hashed["tensors"]) == 2


def test_hashes_of_one_text_in_different_numbers_of_buckets_have_different_names() -> None:
    with tf.Graph().as_default() as graph:
        text = tf.placeholder(tf.string, [None], name="text")
        parts = [tf.strings.to_hash_bucket_fast(text, count) for count in (5, 9)]
        tf.add(parts[0], 100 * parts[1], name="y")
    inputs = (Input("text", "dense", "string", (), ("text:0",)),)
    signature = Signature(inputs, (Output("prediction", "y:0", "int64", ()),))
    model = InferenceModel.build(graph.as_graph_def(), {}, signature)
    feeds = model.onnx_feeds(["a", "b"])
    assert set(feeds) == {"text/StringToHashBucketFast", "text/StringToHashBucketFast_1"}
    found = _ran(_session(to_onnx(model)), feeds)
    np.testing.assert_array_equal(found["prediction"], model.predict(["a", "b"])["prediction"])
    with pytest.raises(InvalidArgumentError, match="a string is needed, got 1"):
        model.onnx_feeds([1])


def test_a_model_without_texts_is_fed_its_inputs(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        tf.multiply(x, 2.0, name="y")
    signature = Signature.of_features("x:0", 2, (Output("twice", "y:0", "float32", (2,)),))
    model = InferenceModel.build(graph.as_graph_def(), {}, signature)
    feeds = model.onnx_feeds([[1, 2]])
    assert list(feeds) == ["features"]
    assert not to_onnx(model).metadata_props
    assert _ran(_session(to_onnx(model)), feeds)["twice"].tolist() == [[2, 4]]


def test_texts_that_are_predicted_are_refused() -> None:
    with pytest.raises(UnimplementedError, match=r"'shout' \(op StringJoin\).*functions of texts"):
        to_onnx(text_model())


@pytest.mark.parametrize("new_shape", [[6, 4], [-1, 2], [24], [2, -1, 3]])
def test_sparse_tensors_are_reshaped_and_filled(new_shape: list[int]) -> None:
    with tf.Graph().as_default() as graph:
        indices = tf.placeholder(tf.int64, [None, 2], name="i")
        values = tf.placeholder(tf.float32, [None], name="v")
        given = tf.SparseTensor(indices, values, tf.placeholder(tf.int64, [2], name="s"))
        shaped = tf.sparse_reshape(given, new_shape)
        filled, is_empty = tf.sparse_fill_empty_rows(given, 7.0)
        tensors = [shaped.indices, shaped.dense_shape, filled.indices, filled.values, is_empty]
    inputs = (Input("x", "sparse", "float32", (6,), ("i:0", "v:0", "s:0")),)
    outputs = tuple(
        Output(f"out{place}", each.name, each.dtype.name, tuple(each.shape.as_list()[1:]))
        for place, each in enumerate(tensors)
    )
    model = InferenceModel.build(graph.as_graph_def(), {}, Signature(inputs, outputs))
    made = to_onnx(model)
    session = _session(made)
    x = np.zeros((4, 6), np.float32)
    x[[0, 0, 2], [1, 5, 3]] = [1.0, 2.0, 3.0]
    for rows in (x, x[1:2], x[2:3]):
        if rows.size != 24 and -1 not in new_shape:
            continue
        found, expected = _ran(session, model.onnx_feeds(rows)), model.predict(rows)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, name)


def test_texts_that_are_computed_from_others_in_many_ways() -> None:
    graph = tf.Graph()
    with graph.as_default():
        words = tf.placeholder(tf.string, [None], name="words")
        text = words
        for _ in range(40):  # there are two to the power of that many paths
            text = tf.strings.lower(tf.string_join([text, text[:1] + text[1:2]]))
        number = tf.strings.length(text, name="length")
    signature = Signature(
        (Input("words", "dense", "string", (), ("words:0",)),),
        (Output("length", number.name, "int32", ()),),
    )
    made = to_onnx(InferenceModel.build(graph.as_graph_def(), {}, signature))
    assert [each.name for each in made.graph.input] == ["words/StringLength"]
