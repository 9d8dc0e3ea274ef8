"""If a node reads file names from variables, queues or readers, whoever writes to these counts."""

from __future__ import annotations

import pytest

import sparkflow as tf
from sparkflow.graph.nodes import reach
from sparkflow_runtime.protos.graph_pb2 import GraphDef

DENIED = tf.errors.PermissionDeniedError


@pytest.fixture(autouse=True)
def _stranger(monkeypatch):
    """Makes this process forget the graphs that it built."""
    monkeypatch.setattr(reach, "_ours", set())
    monkeypatch.setattr(reach, "_changers", set())


def read_of_a_variable(content: str, name: str = "v"):
    """The program's own: the variable contains one name."""
    variable = tf.get_variable(name, initializer=content, use_resource=True)
    tf.identity(tf.read_file(variable), name="read")


def read_of_a_reference(content: str, name: str = "v"):
    variable = tf.get_variable(name, initializer=content, use_resource=False)
    tf.identity(tf.read_file(variable), name="read")


def read_of_a_queue(content: str, name: str = "v"):
    queue = tf.FIFOQueue(3, [tf.string], [()], name=name)
    queue.enqueue([content])
    tf.identity(tf.read_file(queue.dequeue()), name="read")


def reader(content: str, name: str = "v"):
    queue = tf.FIFOQueue(3, [tf.string], [()], name=name)
    queue.enqueue([content])
    tf.TextLineReader().read(queue)


def function_of_python(content: str, name: str = "v"):
    variable = tf.get_variable(name, initializer=content)
    tf.py_func(_shout, [variable], tf.string)


def _shout(text):
    return text.upper()


KEPT = [read_of_a_variable, read_of_a_reference, read_of_a_queue, reader, function_of_python]


@pytest.mark.parametrize("build", KEPT)
def test_what_the_program_keeps_is_not_what_a_strange_graph_puts_there(build):
    with tf.Graph().as_default() as graph:
        build("mine.txt")
        mine = graph.as_graph_def()
        tokens = [node for node in mine.node if node.op.startswith("PyFunc")]
    # The same nodes, except for what is written to the state that they read.
    theirs = GraphDef()
    theirs.CopyFrom(mine)
    for node in theirs.node:
        if node.op == "Const" and node.attr["value"].tensor.string_val == [b"mine.txt"]:
            node.attr["value"].tensor.string_val[:] = [b"/etc/passwd"]
    assert theirs != mine
    with tf.Graph().as_default():
        tf.import_graph_def(mine)
    with tf.Graph().as_default(), pytest.raises(DENIED):
        tf.import_graph_def(theirs)
    assert tokens or build is not function_of_python


@pytest.mark.parametrize("build", KEPT)
def test_a_part_of_a_program_passes_and_one_with_another_writer_does_not(build):
    with tf.Graph().as_default() as graph:
        build("mine.txt")
        tf.constant("unread")
        mine = graph.as_graph_def()
    reaching = next(n for n in mine.node if n.op.startswith(("ReadFile", "TextLine", "PyFunc")))
    part = tf.graph_util.extract_sub_graph(mine, [reaching.name])
    with tf.Graph().as_default():
        tf.import_graph_def(part)
    # A second node finds the same state by name, from a different scope.
    holder = next(n for n in mine.node if n.name == "v")
    theirs = GraphDef()
    theirs.CopyFrom(mine)
    second = theirs.node.add()
    second.CopyFrom(holder)
    second.name = "other"
    named = "shared_name" in holder.attr and holder.attr["shared_name"].s
    second.attr["shared_name"].s = b"v" if named else b"import/v"
    evil = theirs.node.add(name="evil", op="Const")
    evil.attr["dtype"].type = tf.string.as_datatype_enum
    evil.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/etc/passwd"))
    writer = next(n for n in mine.node if n.op in ("Assign", "AssignVariableOp", "QueueEnqueueV2"))
    changes = theirs.node.add()
    changes.CopyFrom(writer)
    changes.name = "changes"
    changes.input[:] = ["other", "evil"]
    with tf.Graph().as_default(), pytest.raises(DENIED):
        tf.import_graph_def(theirs)
