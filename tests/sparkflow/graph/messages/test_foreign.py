"""Nodes of a graph that TensorFlow would not understand."""

import numpy as np

import sparkflow as tf
from sparkflow.graph.messages.foreign import nodes_unknown_to_tensorflow


def names(build):
    with tf.Graph().as_default() as graph:
        build()
    return [node.op for node in nodes_unknown_to_tensorflow(graph.as_graph_def())]


def loop(x):
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.sin(a)), (0, x))[1]


def test_loops_are_known_and_their_gradients_are_not():
    assert not names(lambda: loop(tf.constant(1.0)))
    assert names(lambda: tf.gradients(loop(x := tf.constant(1.0)), x))


def test_functions_of_this_process_are_not():
    found = names(lambda: tf.py_func(np.sin, [tf.constant(1.0)], tf.float32))
    assert found == ["PyFunc"]


def test_a_saved_model_of_such_nodes_is_warned_of(tmp_path, caplog):
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        y = loop(x * tf.Variable(2.0, name="v"))
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, str(tmp_path / "plain"), {"x": x}, {"y": y})
        assert "cannot load this model" not in caplog.text
        tf.train.GradientDescentOptimizer(0.1).minimize(y)
        tf.saved_model.simple_save(session, str(tmp_path / "training"), {"x": x}, {"y": y})
    assert "cannot load this model" in caplog.text
