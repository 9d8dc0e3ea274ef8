"""Graphs from elsewhere reach no more than the program allows."""

from __future__ import annotations

import os

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.graph.nodes import reach
from sparkflow.graph.nodes.content import Digests
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.meta_graph_pb2 import MetaGraphDef

DENIED = tf.errors.PermissionDeniedError


@pytest.fixture(autouse=True)
def _stranger(monkeypatch):
    """Pretends that another process built the graphs, unless a test uses `remembered`."""
    monkeypatch.setattr(reach, "_ours", set())
    monkeypatch.setattr(reach, "_changers", set())


def strange(build) -> GraphDef:
    """Returns the message of a graph, as written by another process."""
    with tf.Graph().as_default() as graph:
        build()
        message = graph.as_graph_def()
    reach._ours.clear()
    return message


def reads():
    tf.identity(tf.read_file("/etc/passwd"), name="y")


def inside_a_function():
    tf.data.Dataset.from_tensors("/etc/passwd").map(tf.read_file).make_one_shot_iterator()


def hosted_rows():
    """Rows of a `SparkCluster.dataset`, whose description may name the files."""
    tf.raw_ops.SparkflowHostedDataset(
        source='{"files": {"files": [{"path": "/etc/passwd"}]}}',
        output_types=[tf.float32],
        output_shapes=[[]],
    )


def inside_a_branch():
    tf.cond(tf.placeholder(tf.bool), lambda: tf.read_file("/etc/passwd"), lambda: tf.constant(""))


@pytest.mark.parametrize(
    ("build", "op_type", "does"),
    [
        (reads, "ReadFile", "reads or writes files"),
        (lambda: tf.write_file("/tmp/x", "y"), "WriteFile", "reads or writes files"),
        (lambda: tf.py_func(lambda: 1.0, [], tf.float32), "PyFunc", "calls Python functions"),
        (lambda: tf.print("x", output_stream="file:///tmp/x"), "PrintV2", "files"),
        (lambda: tf.data.TextLineDataset("/etc/passwd"), "TextLineDataset", "files"),
        (lambda: tf.TextLineReader(), "TextLineReaderV2", "files"),
        (hosted_rows, "SparkflowHostedDataset", "files"),
        (inside_a_function, "ReadFile", "files"),
        (inside_a_branch, "ReadFile", "files"),
    ],
)
def test_a_strange_graph_is_refused_with_what_it_does_and_what_to_say(build, op_type, does):
    message = strange(build)
    with tf.Graph().as_default(), pytest.raises(DENIED) as caught:
        tf.import_graph_def(message)
    text = str(caught.value)
    assert op_type in text
    assert does in text
    assert f"allowed_ops=['{op_type}']" in text
    for allowed in ([op_type], "all"):
        with tf.Graph().as_default():
            tf.import_graph_def(message, allowed_ops=allowed)
    with tf.Graph().as_default(), pytest.raises(DENIED):
        tf.import_graph_def(message, allowed_ops=["Abs"])


def test_a_function_with_the_name_of_an_op_does_not_hide_the_op():
    message = strange(reads)
    function = message.library.function.add()
    function.signature.name = "ReadFile"
    function.signature.input_arg.add(name="filename", type=tf.string.as_datatype_enum)
    with tf.Graph().as_default(), pytest.raises(DENIED, match="ReadFile"):
        tf.import_graph_def(message)


def test_two_functions_of_one_name_are_refused():
    message = strange(inside_a_branch)
    for function in list(message.library.function):  # as if the first did not exist
        message.library.function.add().CopyFrom(function)
        message.library.function[-1].ClearField("node_def")
    with tf.Graph().as_default(), pytest.raises(DENIED, match="more than one function"):
        tf.import_graph_def(message)


def test_one_text_is_no_list_of_ops():
    with tf.Graph().as_default(), pytest.raises(TypeError, match="a list of op types or 'all'"):
        tf.import_graph_def(strange(reads), allowed_ops="ReadFile")


def test_what_reaches_nothing_passes():
    def harmless():
        tf.print("x")
        tf.data.Dataset.range(3).cache().make_one_shot_iterator().get_next()
        tf.IdentityReader()
        tf.nn.fixed_unigram_candidate_sampler([[1]], 1, 1, False, 3, unigrams=[1.0, 1.0, 1.0])

    with tf.Graph().as_default():
        tf.import_graph_def(strange(harmless))


def test_a_program_may_import_what_it_has_exported():
    with tf.Graph().as_default() as graph:
        reads()
        tf.py_func(lambda: 1.0, [], tf.float32)
        inside_a_function()
        message = graph.as_graph_def()
        part = tf.graph_util.extract_sub_graph(message, ["y"])
    with tf.Graph().as_default():
        tf.import_graph_def(message)
        tf.import_graph_def(part, name="again")
        renamed = GraphDef.FromString(message.SerializeToString())
        for node in renamed.node:
            node.device = "/cpu:0"
        tf.import_graph_def(renamed, name="third")


def test_the_same_node_with_another_file_is_another_one():
    with tf.Graph().as_default() as graph:
        tf.identity(tf.read_file("mine.txt"), name="y")
        message = graph.as_graph_def()
    for node in message.node:
        if node.op == "Const":
            node.attr["value"].tensor.string_val[:] = [b"/etc/passwd"]
    with tf.Graph().as_default(), pytest.raises(DENIED, match="ReadFile"):
        tf.import_graph_def(message)


def test_the_same_function_with_another_caller_is_another_one():
    with tf.Graph().as_default() as graph:
        inside_a_function()
        message = graph.as_graph_def()
    changed = message.SerializeToString().replace(b"/etc/passwd", b"/etc/shadow")
    with tf.Graph().as_default(), pytest.raises(DENIED, match="ReadFile"):
        tf.import_graph_def(GraphDef.FromString(changed))


def test_an_op_of_the_users_own_is_refused_until_it_says_what_it_reaches():
    class Silent(Op):
        outputs = "y: float32"

        def infer(self, node):
            return [()]

        def compute(self, xp):
            return np.float32(1)

    class Contained(Silent):
        reaches = frozenset()

    silent, contained = tf.register_op(Silent), tf.register_op(Contained)
    with tf.Graph().as_default(), pytest.raises(DENIED, match=r"Silent.*calls Python"):
        tf.import_graph_def(strange(silent))
    with tf.Graph().as_default():
        tf.import_graph_def(strange(contained))


def saver_graph(build) -> MetaGraphDef:
    with tf.Graph().as_default():
        saver = build()
        message = tf.train.export_meta_graph(saver_def=saver and saver.saver_def)
    reach._ours.clear()
    return message


@pytest.mark.parametrize("sharded", [False, True])
def test_savers_save_and_restore_what_is_fed_and_nothing_else(tmp_path, sharded):
    def build():
        tf.Variable(3.0, name="v")
        return tf.train.Saver(sharded=sharded, filename=str(tmp_path / "unasked"))

    message = saver_graph(build)
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.import_meta_graph(message)
        session.run(tf.global_variables_initializer())
        path = saver.save(session, tmp_path / "asked")
        saver.restore(session, path)
        names = saver.saver_def
        saved = session.run(names.save_tensor_name, {names.filename_tensor_name: path})
        assert saved == path.encode()
        # Other runs of the nodes do not specify the file.
        with pytest.raises(tf.errors.InvalidArgumentError, match="feed"):
            session.run(names.save_tensor_name)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("unasked")]


def _saves_to(path):
    tf.raw_ops.SaveV2(prefix=path, tensor_names=["x"], shape_and_slices=[""], tensors=[1.0])


def _joins(*parts):
    _saves_to(tf.string_join([tf.placeholder_with_default("x", ()), *parts]))


@pytest.mark.parametrize(
    "build",
    [
        lambda: _saves_to("/etc/cron.d/x"),
        lambda: _saves_to(tf.string_join(["/etc/", tf.placeholder(tf.string, ())])),
        lambda: _saves_to(tf.substr(tf.placeholder_with_default("x/etc", ()), 1, 4)),
        lambda: _joins("/../../etc/x"),
        lambda: _joins("/.", "./etc/x"),
        lambda: _joins(tf.placeholder(tf.string, ())),
        lambda: _saves_to(tf.read_file(tf.placeholder(tf.string, ()))),
    ],
    ids=["constant", "joined behind", "cut", "up", "up in parts", "fed", "read"],
)
def test_names_of_checkpoints_that_are_not_fed_alone_are_refused(build):
    with tf.Graph().as_default(), pytest.raises(DENIED, match=r"SaveV2.*checkpoints"):
        tf.train.import_meta_graph(saver_graph(build))


def test_long_chains_and_circles_end():
    message = GraphDef()
    for number in range(20_000):
        node = message.node.add(name=f"n{number}", op="Identity", input=[f"n{number + 1}"])
        node.attr["T"].type = tf.string.as_datatype_enum
    node = message.node.add(name="n20000", op="Identity", input=["n19999"])
    node.attr["T"].type = tf.string.as_datatype_enum
    message.node.add(name="read", op="ReadFile", input=["n0"])
    assert Digests(message).of("read") is None
    with pytest.raises(DENIED):
        reach.contained(message, None, "It")
    message.node[-2].input[:] = ["other"]
    message.node[-2].op = "Placeholder"
    assert Digests(message).of("read") is None


def test_a_strange_graph_may_not_call_the_programs_own_functions_that_reach_files():
    """It names them, but no message contains their definition."""
    with tf.Graph().as_default():
        inside_a_branch()
        theirs = tf.get_default_graph().as_graph_def()
    reach._ours.clear()
    del theirs.library.function[:]
    for node in theirs.node:
        if node.op == "Const" and node.attr["dtype"].type == tf.string.as_datatype_enum:
            node.attr["value"].tensor.string_val[:] = [b"/etc/shadow"]
    with tf.Graph().as_default():
        inside_a_branch()  # the program's own, under the same names
        with pytest.raises(DENIED, match="ReadFile"):
            tf.import_graph_def(theirs, name="theirs")
        with pytest.raises(DENIED, match="ReadFile"):
            tf.train.import_meta_graph(MetaGraphDef(graph_def=theirs))
        tf.import_graph_def(theirs, name="theirs", allowed_ops=["ReadFile"])


def test_a_reader_of_names_is_not_the_programs_reader_of_files(tmp_path):
    """Readers are found by shared names; one that reaches nothing must not find one that does."""
    (tmp_path / "file").write_text("secret\n")

    def theirs():
        names = tf.FIFOQueue(3, [tf.string], [()])
        names.enqueue([str(tmp_path / "file")], name="put")
        handle = tf.raw_ops.IdentityReaderV2(shared_name="lines")
        tf.identity(
            tf.raw_ops.ReaderReadV2(reader_handle=handle, queue_handle=names.queue_ref).value,
            name="got",
        )

    message = strange(theirs)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        mine = tf.FIFOQueue(3, [tf.string], [()])
        lines = tf.raw_ops.TextLineReaderV2(shared_name="lines")
        value = tf.raw_ops.ReaderReadV2(reader_handle=lines, queue_handle=mine.queue_ref).value
        session.run(mine.enqueue([str(tmp_path / "file")]))
        assert session.run(value) == b"secret"
        tf.import_graph_def(message, name="theirs")
        session.run("theirs/put")
        with pytest.raises(tf.errors.InvalidArgumentError, match="TextLineReader"):
            session.run(graph.get_tensor_by_name("theirs/got:0"))


def test_attributes_that_are_left_out_stay_so(tmp_path):
    """As written with `strip_default_attrs`; looking must not add them to the message."""
    folder = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.multiply(tf.placeholder(tf.float32, [], name="x"), tf.Variable(2.0), name="y")
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(session, ["serve"], strip_default_attrs=True)
        builder.save()
    reach._ours.clear()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], folder)
        assert session.run("y:0", {"x:0": 3.0}) == 6
