"""Graphs of models: cut down, with one kind of variable, with constants."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Output, Signature
from sparkflow.export.freeze import prune_graph, variable_names
from sparkflow_runtime.errors import NotFoundError

X = np.float32([[1.0, 2.0], [3.0, 4.0]])
SIGNATURE = Signature.of_features("x:0", 2, (Output("y", "y:0", "float32", (2,)),))


def model_of(build, **values):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        tf.identity(build(x), name="y")
    arrays = {name: np.float32(value) for name, value in values.items()}
    return InferenceModel.build(graph.as_graph_def(), arrays, SIGNATURE)


def resource(x):
    w = tf.get_variable("w", [2, 2], use_resource=True)
    return tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, tf.matmul(a, w)), (0, x))[1]


def averaged(x):
    w = tf.get_variable("w", [2, 2])
    average = tf.train.ExponentialMovingAverage(0.9)
    average.apply([w])
    return tf.matmul(x, average.average(w))


W = [[1.0, 1.0], [0.0, 1.0]]
MODELS = {
    "resource": (resource, {"w": W}, X @ np.float32(W) @ np.float32(W)),
    "averaged": (averaged, {"w/ExponentialMovingAverage": W}, X @ np.float32(W)),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_form_of_a_model_computes_the_same(name, tmp_path):
    build, values, expected = MODELS[name]
    model = model_of(build, **values)
    assert model.variables.keys() == values.keys()
    assert variable_names(model.graph_def) == list(values)
    np.testing.assert_array_equal(model.predict(X)["y"], expected)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(InferenceModel.load(tmp_path / "model").predict(X)["y"], expected)
    for frozen in (True, False):
        with tf.Graph().as_default(), tf.Session() as session:
            (y,) = tf.import_graph_def(model.to_graph_def(frozen), return_elements=["y:0"], name="")
            if not frozen:
                (variable,) = values
                given = tf.constant(values[variable])
                session.run(tf.assign(session.graph.get_tensor_by_name(f"{variable}:0"), given))
            np.testing.assert_array_equal(session.run(y, {"x:0": X}), expected)
    folder = str(model.to_saved_model(tmp_path / "saved"))
    with tf.contrib.predictor.from_saved_model(folder) as predictor:
        np.testing.assert_array_equal(predictor({"features": X})["y"], expected)


def test_missing_nodes_are_named():
    with tf.Graph().as_default() as graph:
        tf.identity(tf.placeholder(tf.float32, [2], name="x"), name="y")
    message = graph.as_graph_def()
    with pytest.raises(NotFoundError, match="no node 'z'"):
        prune_graph(message, ["z:0"])
    del message.node[0]
    with pytest.raises(NotFoundError, match="no node 'x'"):
        prune_graph(message, ["y:0"])
