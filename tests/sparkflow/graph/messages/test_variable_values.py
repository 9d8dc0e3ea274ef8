"""Constants in the place of variables, wherever their handles go."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.graph.messages.variable_values import replace_variables

X = np.float32([[1.0, 2.0], [3.0, -4.0]])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def in_a_condition(x, w, e):
    return tf.cond(
        tf.reduce_sum(x) > 1.0,
        lambda: tf.matmul(x, w),
        lambda: x * tf.nn.embedding_lookup(e, [1, 2]),
    )


def in_a_loop(x, w, e):
    def turn(i, a):
        return i + 1, tf.tanh(tf.matmul(a, w)) + tf.nn.embedding_lookup(e, i)

    return tf.while_loop(lambda i, a: i < 3, turn, (0, x))[1]


def in_a_condition_in_a_loop(x, w, e):
    def turn(i, a):
        return i + 1, tf.cond(i > 1, lambda: in_a_loop(a, w, e), lambda: a + tf.gather_nd(e, [[i]]))

    return tf.while_loop(lambda i, a: i < 3, turn, (0, x))[1]


def read_in_the_condition_of_a_loop(x, w, e):
    def go_on(i, a):
        return tf.reduce_sum(w) + i < 6.0

    return tf.while_loop(go_on, lambda i, a: (i + 1.0, a * 2.0), (0.0, x))[1]


def through_an_identity(x, w, e):
    return tf.matmul(x, tf.identity(w)) + tf.nn.embedding_lookup(e, [0, 4])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "build",
    [
        in_a_condition,
        in_a_loop,
        in_a_condition_in_a_loop,
        read_in_the_condition_of_a_loop,
        through_an_identity,
    ],
)
def test_a_frozen_graph_computes_the_same(build, sign, graph):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.variable_scope("", use_resource=True):
        w, e = tf.get_variable("w", [2, 2]), tf.get_variable("e", [5, 2])
    tf.identity(build(x, w, e), name="y")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        expected = session.run("y:0", {x: sign * X})
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
    assert "VarHandleOp" not in {node.op for node in frozen.node}
    with tf.Graph().as_default(), tf.Session() as session:
        (y,) = tf.import_graph_def(frozen, return_elements=["y:0"], name="")
        np.testing.assert_allclose(session.run(y, {"x:0": sign * X}), expected, rtol=1e-6)


def test_what_must_have_the_handle_is_refused(graph):
    v = tf.get_variable("v", [2], use_resource=True)
    v.assign([1.0, 2.0], name="change")
    message = graph.as_graph_def()
    (node,) = (each for each in message.node if each.name == "v")
    with pytest.raises(ValueError, match=r"\(\w+\) takes by its handle.*use_resource=False"):
        replace_variables(message, {"v": node})
