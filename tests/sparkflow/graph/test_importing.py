import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture
def message():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        with tf.device("/cpu:0"):
            w = tf.Variable([[1.0], [2.0]], name="w")
        first, second = tf.split(x, 2, 1, name="parts")
        with tf.control_dependencies([w.initializer]):
            tf.add(tf.matmul(x, w.read_value()), tf.concat([first, second], 1), name="y")
    return graph.as_graph_def()


def test_imported_nodes_compute_the_same_under_a_prefix(message):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        y, x = tf.import_graph_def(message, return_elements=["y:0", "x:0"])
        assert y.name == "import/y:0"
        assert y.shape.as_list() == [None, 2]
        assert (
            y.op.source == next(n for n in message.node if n.name == "y").attr["_source"].s.decode()
        )
        assert graph.get_operation_by_name("import/w").device == "/device:CPU:0"
        assert graph.get_operation_by_name("import/w/read").colocation_groups() == [
            b"loc:@import/w"
        ]
        got = session.run(y, {x: [[1.0, 1.0]]})
    np.testing.assert_array_equal(got, [[4.0, 4.0]])


def test_inputs_can_be_exchanged(message):
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.constant([[2.0, 0.0]])
        (y,) = tf.import_graph_def(message, {"x:0": given}, ["y:0"], name="")
        assert y.name == "y:0"
        np.testing.assert_array_equal(session.run(y), [[4.0, 2.0]])


def test_names_that_are_not_in_the_message_are_refused(message):
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="'nope:0' not found"):
            tf.import_graph_def(message, return_elements=["nope:0"])
        with pytest.raises(ValueError, match="not found in graph_def: nope:0"):
            tf.import_graph_def(message, {"nope:0": 1.0})
        with pytest.raises(TypeError, match="must be a GraphDef"):
            tf.import_graph_def("graph")
