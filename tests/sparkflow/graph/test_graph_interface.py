"""TensorFlow's own ways to add nodes and to inspect graphs and operations."""

import threading
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime

PACKAGES = [Path(tf.__file__).parent, Path(sparkflow_runtime.__file__).parent]


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_create_op_takes_its_arguments_by_position(graph):
    one = tf.constant(1.0)
    attrs = {"T": tf.AttrValue(type=1)}
    total = graph.create_op("AddV2", [one, one], [tf.float32], None, "total", attrs)
    assert (total.name, total.type, total.get_attr("T")) == ("total", "AddV2", tf.float32)
    named = graph.create_op("AddV2", [one, one], name="named", attrs={})
    with tf.Session(graph=graph) as session:
        assert session.run([total.outputs[0], named.outputs[0]]) == [2.0, 2.0]


@pytest.mark.parametrize("nested", [False, True])
def test_create_op_takes_lists_flattened_too(graph, nested):
    parts = [tf.constant([1.0]), tf.constant([2.0])]
    axis = tf.constant(0)
    inputs = [parts, axis] if nested else [*parts, axis]
    joined = graph.create_op("ConcatV2", inputs, name="joined")
    assert joined.get_attr("N") == 2
    with tf.Session(graph=graph) as session:
        assert session.run(joined.outputs[0]).tolist() == [1, 2]


def test_attributes_are_as_tensorflow_gives_them(graph):
    pooled = tf.nn.max_pool(tf.zeros([1, 4, 4, 1]), [1, 2, 2, 1], [1, 2, 2, 1], "SAME").op
    assert pooled.get_attr("padding") == b"SAME"
    assert pooled.get_attr("ksize") == [1, 2, 2, 1]
    assert pooled.get_attr("T") is tf.float32
    given = tf.placeholder(tf.float32, [None, 3]).op
    assert [dim.size for dim in given.get_attr("shape").dim] == [-1, 3]
    value = tf.constant([1.0, 2.0]).op.get_attr("value")
    assert tf.make_ndarray(value).tolist() == [1.0, 2.0]
    queue = tf.FIFOQueue(3, [tf.float32, tf.int32], [[2], []]).queue_ref.op
    assert queue.get_attr("component_types") == [tf.float32, tf.int32]
    assert [len(shape.dim) for shape in queue.get_attr("shapes")] == [1, 0]
    branch = tf.cond(tf.placeholder(tf.bool, []), lambda: 1.0, lambda: 2.0)
    conditional = next(op for op in graph.get_operations() if op.type in ("If", "StatelessIf"))
    assert conditional.get_attr("then_branch").name
    assert branch is not None
    with pytest.raises(ValueError, match="Operation 'mine' has no attr named 'nope'"):
        tf.constant(1.0, name="mine").op.get_attr("nope")


def test_nothing_of_ours_reads_attributes_in_tensorflows_form():
    """`attr` returns the values for kernels and rules; strings as bytes would compare unequal."""
    found = [
        f"{path}:{number}"
        for package in PACKAGES
        for path in package.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ".get_attr(" in line
    ]
    assert found == []


def test_a_gradient_of_ones_own_gets_attributes_in_tensorflows_form(graph):
    seen = []

    @tf.RegisterGradient("SeesPadding")
    def _gradient(op, dy):
        seen.append(op.get_attr("padding"))
        return tf.zeros_like(op.inputs[0])

    x = tf.zeros([1, 4, 4, 1])
    with graph.gradient_override_map({"MaxPool": "SeesPadding"}):
        y = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    tf.gradients(y, x)
    assert seen == [b"VALID"]


def test_arrays_of_messages_can_be_changed():
    array = tf.make_ndarray(tf.make_tensor_proto(np.zeros(3)))
    array[0] = 1
    assert array.tolist() == [1, 0, 0]


def test_an_operation_says_its_op_type_and_where_it_was_made(graph):
    op = tf.constant(1.0).op
    assert op.op_def.name == "Const"
    assert [attr.name for attr in op.op_def.attr] == ["value", "dtype"]
    (frame,) = op.traceback
    assert Path(frame.filename) == Path(__file__)
    assert "tf.constant(1.0).op" in frame.line
    assert graph.op_def_for_type("Add").input_arg[0].name == "x"


def test_a_graph_says_what_it_has(graph):
    tf.add_to_collection("mine", 1)
    one = tf.constant(1.0)
    assert graph.collections == ["mine"]
    assert graph.operations == [one.op]
    assert graph.num_operations() == 1
    assert graph.graph_def_versions == graph.as_graph_def().versions


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_name_scopes_are_each_threads_own(graph):
    def build():
        with graph.as_default():
            return tf.constant(1.0, name="there").op.name

    with tf.name_scope("here"):
        assert in_thread(build) == "there"
        assert tf.constant(1.0, name="mine").op.name == "here/mine"


@pytest.mark.parametrize("switched", [False, True])
def test_devices_and_dependencies_are_too_once_switched(graph, switched):
    first = tf.no_op(name="first")
    if switched:
        graph.switch_to_thread_local()

    def build():
        with graph.as_default():
            op = tf.constant(1.0).op
            return op.device, op.control_inputs

    with tf.device("/cpu:0"), tf.control_dependencies([first]):
        device, controls = in_thread(build)
        assert (device, controls) == (("", []) if switched else ("/device:CPU:0", [first]))
        mine = tf.constant(1.0).op
        assert (mine.device, mine.control_inputs) == ("/device:CPU:0", [first])
