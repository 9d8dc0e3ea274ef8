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
        assert y.op.source.startswith(__file__)
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
        with pytest.raises(ValueError, match=r"not found in graph_def: \[nope:0\]"):
            tf.import_graph_def(message, {"nope:0": 1.0})
        with pytest.raises(TypeError, match="must be a GraphDef"):
            tf.import_graph_def("graph")


def test_values_need_a_scope_to_become_tensors_in(message):
    with tf.Graph().as_default(), tf.Session() as session:
        (y,) = tf.import_graph_def(message, {"x:0": [[2.0, 0.0]]}, ["y:0"], name="part")
        assert session.graph.get_operation_by_name("part/_inputs/Const").type == "Const"
        np.testing.assert_array_equal(session.run(y), [[4.0, 2.0]])
        with pytest.raises(ValueError, match="non-empty `name` if `input_map` contains non-Tensor"):
            tf.import_graph_def(message, {"x:0": [[2.0, 0.0]]}, name="")


def test_inputs_that_are_not_in_the_message_can_be_given(message):
    del message.node[0]
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(ValueError, match="Unknown input node 'x'"):
            tf.import_graph_def(message)
        given = tf.constant([[2.0, 0.0]])
        (y,) = tf.import_graph_def(message, {"x": given}, ["y:0"])
        np.testing.assert_array_equal(session.run(y), [[4.0, 2.0]])


def test_operations_to_wait_for_can_be_exchanged(message):
    with tf.Graph().as_default() as graph:
        instead = tf.no_op("instead")
        waiting = [node.name for node in message.node if "^w/Assign" in node.input]
        tf.import_graph_def(message, {"^w/Assign": instead}, name="")
        assert waiting
        for name in waiting:
            assert graph.get_operation_by_name(name).control_inputs == [instead]


def test_a_tensor_of_another_type_does_not_fit(message):
    with tf.Graph().as_default():
        given = tf.constant([[2, 0]])
        with pytest.raises(ValueError, match=r"was passed int32 from Const:0 incompatible with"):
            tf.import_graph_def(message, {"x:0": given})


def attribute(message, node, **values):
    (found,) = [each for each in message.node if each.name == node]
    for name, value in values.items():
        found.attr[name].b = value


def producers(default):
    from sparkflow_runtime.protos.op_def_pb2 import OpList

    ops = OpList()
    op = ops.op.add(name="MatMul")
    op.attr.add(name="novel", type="bool").default_value.b = default
    return ops


def test_attributes_of_later_versions_are_left_out_where_they_say_nothing(message):
    (name,) = [each.name for each in message.node if each.op == "MatMul"]
    attribute(message, name, novel=True)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(message, name="a", producer_op_list=producers(True))
        with pytest.raises(ValueError, match="has not its default value"):
            tf.import_graph_def(message, name="b", producer_op_list=producers(False))
        tf.import_graph_def(message, name="c")
        assert "novel" not in graph.get_operation_by_name(f"a/{name}").node_def.attr


def test_recorded_shapes_are_used_and_forgotten(message):
    (node,) = [each for each in message.node if each.name == "x"]
    shape = node.attr["_output_shapes"].list.shape.add()
    shape.dim.add().size = 7
    shape.dim.add().size = 2
    with tf.Graph().as_default() as graph:
        (x,) = tf.import_graph_def(message, return_elements=["x:0"])
        assert x.shape.as_list() == [7, 2]
        assert "_output_shapes" not in graph.as_graph_def().node[0].attr


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"input_map": {1: 2}}, TypeError, "input_map must be a dictionary"),
        ({"return_elements": [7]}, TypeError, "return_elements must be a list of strings"),
    ],
)
def test_wrong_arguments(message, arguments, error, text):
    with tf.Graph().as_default(), pytest.raises(error, match=text):
        tf.import_graph_def(message, **arguments)


def test_two_nodes_of_one_name_are_refused(message):
    message.node.append(message.node[0])
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Node 'x' is not unique"):
        tf.import_graph_def(message)


def test_names_may_be_bytes(message):
    with tf.Graph().as_default():
        given = tf.constant([[2.0, 0.0]])
        y, op = tf.import_graph_def(message, {b"x:0": given}, [b"y:0", b"y"])
        assert (y.name, op) == ("import/y:0", y.op)
        with pytest.raises(TypeError, match="input_map must be a dictionary mapping strings"):
            tf.import_graph_def(message, {1: given})


def test_a_colocation_with_nothing_is_refused(message):
    message.node[0].attr["_class"].list.s.append(b"loc:@gone")
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match="expects to be colocated with unknown node 'gone'"),
    ):
        tf.import_graph_def(message)


def test_a_graph_for_newer_readers_is_refused(message):
    here = message.versions.producer
    message.versions.min_consumer = here
    with tf.Graph().as_default():
        tf.import_graph_def(message)
    message.versions.min_consumer = here + 1
    with pytest.raises(ValueError, match=f"min consumer version {here + 1} above current version"):
        tf.import_graph_def(message)
    message.versions.min_consumer = 0
    message.versions.bad_consumers.append(here)
    with pytest.raises(ValueError, match=f"disallows consumer version {here}"):
        tf.import_graph_def(message)


def test_a_graph_is_of_the_oldest_version_that_it_has_nodes_of(message):
    here = message.versions.producer
    with tf.Graph().as_default() as graph:
        assert graph.graph_def_versions.producer == here
        message.versions.producer = 27
        tf.import_graph_def(message)
        assert graph.graph_def_versions.producer == 27
        message.versions.producer = 30
        tf.import_graph_def(message)
        assert graph.as_graph_def().versions.producer == 27


def repeated_product(factor):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [], name="x")
        three = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * factor), [0, x])[1]
        result = tf.cond(x > 0, lambda: three * factor, lambda: three)
        tf.identity(result, name="y")
    return graph.as_graph_def()


def test_functions_of_two_messages_with_the_same_names_are_two():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.constant(1.0)
        found = [
            tf.import_graph_def(repeated_product(factor), {"x:0": x}, ["y:0"])[0]
            for factor in (2.0, 3.0)
        ]
        own = tf.cond(x > 0, lambda: x * 10.0, lambda: x)
        assert session.run([*found, own]) == [16.0, 81.0, 10.0]
        count = len(graph.as_graph_def().library.function)
        tf.import_graph_def(repeated_product(2.0))
        assert len(graph.as_graph_def().library.function) == count


@pytest.mark.parametrize("fault", ["unknown op", "unknown input", "wrong dtype", "no element"])
def test_a_failed_import_leaves_nothing(fault):
    with tf.Graph().as_default() as source:
        tf.constant(1.0, name="a")
        tf.constant(2.0, name="b")
    message = source.as_graph_def()
    wanted = None
    if fault == "unknown op":
        message.node.add(name="bad", op="NoSuchOpAtAll")
    elif fault == "unknown input":
        message.node.add(name="bad", op="Neg", input=["nowhere"])
    elif fault == "wrong dtype":
        message.node.add(name="bad", op="Neg", input=["a"]).attr[
            "T"
        ].type = tf.int32.as_datatype_enum
    else:
        wanted = ["nothing"]
    message.library.function.add().signature.name = "f"
    with tf.Graph().as_default() as graph, tf.Session() as session:
        kept = tf.constant(3.0, name="kept")
        with pytest.raises((tf.errors.NotFoundError, ValueError)):
            tf.import_graph_def(message, name="", return_elements=wanted)
        assert [each.name for each in graph.get_operations()] == ["kept"]
        assert not graph.as_graph_def().library.function
        assert tf.constant(1.0, name="a").name == "a:0"
        assert session.run(kept) == 3.0
