import inspect

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.graph.control import ControlDependencies
from sparkflow.graph.placement import Placement
from sparkflow_runtime.ir.graph_def import import_graph


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def line() -> int:
    return inspect.currentframe().f_back.f_lineno


def test_a_shape_error_names_both_shapes_the_node_and_the_callers_line():
    a, b = tf.zeros([2, 3]), tf.zeros([4, 5])
    where = line() + 2
    with tf.name_scope("tower"), pytest.raises(ValueError, match="MatMul") as error:
        tf.matmul(a, b)
    text = str(error.value)
    assert "for 'tower/MatMul' (op: 'MatMul') with input shapes: [2,3], [4,5]" in text
    assert f"{__file__}:{where}" in text


def test_a_dtype_error_names_both_dtypes_and_the_callers_line():
    where = line() + 2
    with pytest.raises(TypeError, match="int32 that does not match type float32") as error:
        tf.add(tf.constant(1.0), tf.constant(1))
    assert f"{__file__}:{where}" in str(error.value)


def test_a_dtype_that_the_op_refuses_is_a_type_error_with_those_it_takes():
    with pytest.raises(
        TypeError,
        match=r"passed to parameter 'a' has DataType bool not in list of allowed values: .*float32",
    ):
        tf.matmul(tf.constant([[True]]), tf.constant([[True]]))


def test_a_node_is_in_the_graph_when_it_is_complete(graph, monkeypatch):
    """A session of another thread sends at once what is in the graph."""
    first = tf.constant(1.0)
    seen = []

    def spy(kind):
        apply = kind.apply

        def watched(self, op):
            seen.append(op.name in {each.name for each in graph.get_operations()})
            apply(self, op)

        monkeypatch.setattr(kind, "apply", watched)

    spy(ControlDependencies)
    spy(Placement)
    with tf.control_dependencies([first]), tf.device("/cpu:0"):
        made = tf.constant(2.0)
    assert seen == [False, False]
    assert graph.get_operations()[-1] is made.op


def test_a_failed_node_leaves_no_name_behind(graph):
    with pytest.raises(ValueError, match="input shapes"):
        graph.add_node("MatMul", (tf.zeros([2, 3]), tf.zeros([4, 5])))
    assert tf.matmul(tf.zeros([2, 3]), tf.zeros([3, 5])).name == "MatMul:0"


def test_every_node_knows_the_line_that_made_it():
    where = line() + 1
    y = tf.layers.dense(tf.zeros([2, 3]), 4)
    for op in y.graph.get_operations():
        assert op.source == f"{__file__}:{where}"


def test_inputs_of_another_graph_are_refused():
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    with pytest.raises(ValueError, match="must be from the same graph"):
        tf.add(tf.constant(1.0), other)


def test_the_graph_of_the_inputs_is_used_not_the_default_one(graph):
    x = tf.constant(1.0)
    with tf.Graph().as_default() as other:
        y = x + 1.0
        z = tf.reduce_sum([x, x])
    assert y.graph is graph
    assert z.graph is graph
    assert other.get_operations() == []


def test_a_finalized_graph_takes_no_nodes(graph):
    graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        tf.constant(1.0)


def test_unknown_op_types_and_attributes_are_named(graph):
    with pytest.raises(tf.errors.NotFoundError, match="'Nope' is not registered"):
        graph.add_node("Nope")
    with pytest.raises(TypeError, match="no attribute 'wrong'"):
        graph.add_node("NoOp", (), {"wrong": 1})
    with pytest.raises(TypeError, match="takes 2 inputs"):
        graph.add_node("MatMul", (tf.zeros([1, 1]),))


def test_names_differ_although_they_differ_in_case_only():
    names = [tf.constant(1.0, name=name).op.name for name in ("a", "A", "a", "a_1", "a")]
    assert names == ["a", "A_1", "a_2", "a_1_1", "a_3"]


@pytest.mark.parametrize("name", ["a b", "_a", "a:0", "-"])
def test_names_that_cannot_be_are_refused(name):
    with pytest.raises(ValueError, match="not a valid"):
        tf.constant(1.0, name=name)


def test_a_scope_can_be_opened_again():
    with tf.name_scope("a") as scope:
        pass
    with tf.name_scope("other"), tf.name_scope(scope):
        assert tf.constant(1.0, name="c").op.name == "a/c"
    with tf.name_scope("a"):
        assert tf.constant(1.0, name="c").op.name == "a_1/c"


def test_default_graphs_nest_and_belong_to_the_thread(graph):
    assert tf.get_default_graph() is graph
    with tf.Graph().as_default() as inner:
        assert tf.get_default_graph() is inner
        with pytest.raises(AssertionError, match="nested"):
            tf.reset_default_graph()
    assert tf.get_default_graph() is graph


def test_looking_up_by_name(graph):
    x = tf.placeholder(tf.float32, name="x")
    assert graph.get_tensor_by_name("x:0") is x
    assert graph.get_operation_by_name("x") is x.op
    with pytest.raises(KeyError, match="only has 1 outputs"):
        graph.get_tensor_by_name("x:1")
    with pytest.raises(ValueError, match="not a Tensor"):
        graph.get_tensor_by_name("x")
    with pytest.raises(ValueError, match="looks a like a Tensor name"):
        graph.as_graph_element("x:y")
    with pytest.raises(TypeError, match="Can not convert a int"):
        graph.as_graph_element(3)


def test_the_message_holds_nodes_edges_devices_and_lines(graph):
    with tf.device("/job:ps/task:1/cpu:0"):
        w = tf.Variable([1.0, 2.0], name="w")
    with tf.control_dependencies([w.initializer]):
        y = tf.reduce_sum(w, 0, name="y")
    nodes = import_graph(graph.to_message())
    assert [str(each) for each in nodes["y"].inputs] == ["w/read:0", "y/reduction_indices:0"]
    # The constant waits, and the sum with it.
    assert nodes["y/reduction_indices"].control_inputs == ("w/Assign",)
    assert nodes["y"].control_inputs == ()
    assert nodes["w"].device == "/job:ps/task:1/device:CPU:0"
    assert nodes["w/read"].colocated_with == ("w",)
    assert nodes["y"].source == y.op.source
    np.testing.assert_array_equal(nodes["w/initial_value"].attrs["value"], [1.0, 2.0])


def test_what_programs_export_says_not_where_it_was_written(graph):
    x = tf.constant(1.0, name="x")
    tf.cond(x > 0.0, lambda: x + 1.0, lambda: x)
    assert __file__ in str(graph.to_message())
    assert __file__ not in str(graph.as_graph_def())
    assert sorted(x.op.node_def.attr) == ["dtype", "value"]


def test_the_message_can_hold_only_what_is_new(graph):
    tf.constant(1.0, name="old")
    version = graph.version
    tf.constant(1.0, name="new")
    assert [node.name for node in graph.as_graph_def(from_version=version).node] == ["new"]
    shapes = graph.as_graph_def(add_shapes=True).node[0].attr["_output_shapes"].list.shape
    assert len(shapes) == 1
    assert not shapes[0].dim


def test_containers_reach_stateful_nodes(graph):
    with graph.container("mine"):
        w = tf.Variable(1.0)
    assert w.op.get_attr("container") == b"mine"
    assert tf.Variable(1.0).op.get_attr("container") == b""


def test_get_attr_names_what_is_missing():
    with pytest.raises(ValueError, match="no attr named 'nope'"):
        tf.constant(1.0).op.get_attr("nope")


def test_device_scopes_refuse_what_is_no_device():
    with pytest.raises(ValueError, match="Unknown attribute: 'nowhere' in 'nowhere'"):
        tf.device("nowhere").__enter__()


def test_consumers():
    x = tf.constant(1.0)
    y, z = x + 1.0, x * x
    tf.constant(2.0)
    assert x.consumers() == [y.op, z.op]


def test_collections(graph):
    x, y = tf.constant(1.0, name="a/x"), tf.constant(1.0, name="b/y")
    tf.add_to_collections(["first", "second", "first"], x)
    tf.add_to_collection("first", y)
    tf.add_to_collection("first", "no name")
    assert tf.get_collection("first") == [x, y, "no name"]
    assert tf.get_collection("first", "a/") == [x]
    tf.get_collection("second").append(y)
    assert tf.get_collection("second") == [x]
    tf.get_collection_ref("second").append(y)
    assert tf.get_collection("second") == [x, y]
    graph.clear_collection("second")
    assert tf.get_collection("second") == []
    assert graph.get_all_collection_keys() == ["first"]


def test_names_of_operations_are_no_names_of_tensors(graph):
    tf.constant(1, name="x")
    with pytest.raises(ValueError, match="refers to an Operation, not a Tensor"):
        graph.get_tensor_by_name("x")
    with pytest.raises(ValueError, match=r"'y' looks like an \(invalid\) Operation name"):
        graph.get_tensor_by_name("y")
    with pytest.raises(KeyError, match="refers to an Operation not in the graph"):
        graph.get_operation_by_name("y")


def test_outputs_are_a_list(graph):
    x = tf.constant(1)
    assert x.op.outputs == [x]
    halves = tf.split([1, 2], 2)
    assert halves[0].op.outputs == halves
