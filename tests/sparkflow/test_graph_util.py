import json
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf

GOLDEN = Path(__file__).parents[1] / "golden/checkpoints/frozen"


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def names(graph_def):
    return [node.name for node in graph_def.node]


def test_a_convnet_that_tensorflow_froze_computes_the_same():
    expected = json.loads((GOLDEN / "expected.json").read_text())
    message = tf.GraphDef.FromString((GOLDEN / "graph.pb").read_bytes())
    (y,) = tf.import_graph_def(message, return_elements=["probabilities:0"])
    with tf.Session() as session:
        found = session.run(y, {"import/image:0": expected["images"]})
    np.testing.assert_allclose(found, expected["probabilities"], rtol=1e-5)


def test_variables_become_constants(graph):
    x = tf.placeholder(tf.float32, [2], name="x")
    w = tf.Variable([2.0, 3.0], name="w")
    kept = tf.Variable([1.0, 1.0], name="kept")
    tf.Variable(1.0, name="unused")
    tf.add(x * w, kept, name="y")
    with tf.Session() as session:
        session.run([w.initializer, kept.initializer])
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["y"], variable_names_blacklist=["kept"]
        )
    types = {node.name: node.op for node in frozen.node}
    assert types["w"] == "Const"
    assert types["kept"] == "VariableV2"
    assert "unused" not in types
    frozen = tf.graph_util.extract_sub_graph(frozen, ["mul"])
    with tf.Graph().as_default(), tf.Session() as session:
        (product,) = tf.import_graph_def(frozen, return_elements=["mul:0"], name="")
        assert session.run(product, {"x:0": [1.0, 1.0]}).tolist() == [2, 3]


def test_variables_behind_handles_become_constants(graph):
    handle = graph.apply("VarHandleOp", (), {"dtype": tf.float32, "shape": (3, 1)}, "v")
    assign = graph.apply("AssignVariableOp", (handle, [[1.0], [2.0], [3.0]]), {}, "assign")
    read = graph.apply("ReadVariableOp", (handle,), {"dtype": tf.float32}, "read")
    rows = graph.apply("ResourceGather", (handle, [2, 0]), {"dtype": tf.float32}, "rows")
    row = graph.apply("ResourceGatherNd", (handle, [[1]]), {"dtype": tf.float32}, "row")
    tf.add_n([tf.reduce_sum(read) + rows, tf.pad(row, [[0, 1], [0, 0]])], name="y")
    with tf.Session() as session:
        session.run(assign)
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
    with tf.Graph().as_default(), tf.Session() as session:
        (y,) = tf.import_graph_def(frozen, return_elements=["y:0"])
        assert session.run(y).tolist() == [[11], [7]]


def test_what_is_cut_out_must_be_there(graph):
    tf.add(tf.constant(1.0, name="a"), 2.0, name="b")
    message = graph.as_graph_def()
    assert names(tf.graph_util.extract_sub_graph(message, ["a"])) == ["a"]
    with pytest.raises(AssertionError, match="c is not in graph"):
        tf.graph_util.extract_sub_graph(message, ["c"])
    with pytest.raises(TypeError, match="must be an iterable of strings"):
        tf.graph_util.extract_sub_graph(message, "a")
    with pytest.raises(TypeError, match="graph_def must be"):
        tf.graph_util.extract_sub_graph("graph", ["a"])


def test_training_nodes_are_removed(graph):
    a = tf.constant(1.0, name="a")
    passed = tf.identity(tf.identity(a, name="first"), name="second")
    with tf.control_dependencies([tf.identity(a, name="waited")]):
        tf.add(passed, a, name="b")
    removed = tf.graph_util.remove_training_nodes(graph.as_graph_def(), ["second"])
    inputs = {node.name: list(node.input) for node in removed.node}
    assert inputs["b"] == ["second", "a", "^waited"]
    assert inputs["second"] == ["a"]
    assert "first" not in inputs


def test_where_nodes_must_run(graph):
    number, text = tf.constant(1.0), tf.constant("text")
    variable = tf.Variable(1.0)
    assert not tf.graph_util.must_run_on_cpu(number.op)
    assert tf.graph_util.must_run_on_cpu(text.op)
    assert not tf.graph_util.must_run_on_cpu(variable.op.node_def)
    assert tf.graph_util.must_run_on_cpu(variable.op, pin_variables_on_cpu=True)
    shape = tf.graph_util.tensor_shape_from_node_def_name(graph, variable.op.name)
    assert shape.as_list() == []
