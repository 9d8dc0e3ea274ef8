"""What inputs and outputs are called in a file."""

import numpy as np

import sparkflow as tf
from sparkflow.export import InferenceModel, Input, Output, Signature
from sparkflow.export.onnx.convert import to_onnx
from tests.sparkflow.export.onnx.comparison import run


def test_a_prediction_that_is_called_as_an_input_is_not_confused_with_another() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None], name="x")
        made = {"n_1": x * 3, "n": x * 2, "n/output": x * 4, "x:Mul": x * 5}
    outputs = tuple(Output(name, each.name, "float32", ()) for name, each in made.items())
    inputs = (Input("n", "dense", "float32", (), ("x:0",)),)
    model = InferenceModel.build(graph.as_graph_def(), {}, Signature(inputs, outputs))
    found = run(to_onnx(model), model.onnx_feeds({"n": np.float32([1])}))
    assert {name: value.item() for name, value in found.items()} == {
        "n_1": 3,
        "n/output_1": 2,
        "n/output": 4,
        "x:Mul": 5,
    }
    assert list(found) == ["n_1", "n/output_1", "n/output", "x:Mul"]  # in the model's order


def test_an_input_can_be_a_prediction() -> None:
    graph = tf.Graph()
    with graph.as_default():
        tf.placeholder(tf.float32, [None], name="x")
    outputs = (Output("n", "x:0", "float32", ()), Output("m", "x:0", "float32", ()))
    inputs = (Input("n", "dense", "float32", (), ("x:0",)),)
    model = InferenceModel.build(graph.as_graph_def(), {}, Signature(inputs, outputs))
    found = run(to_onnx(model), {"n": np.float32([1])})
    assert list(found) == ["n/output", "m"]
