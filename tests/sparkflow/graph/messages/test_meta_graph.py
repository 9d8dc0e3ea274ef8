import re

import pytest

import sparkflow as tf
from sparkflow.graph.messages import proto_functions
from sparkflow_runtime.protos.saver_pb2 import SaverDef


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def program():
    with tf.device("/cpu:0"):
        w = tf.Variable([1.0, 2.0], name="w")
    y = tf.multiply(w, 3.0, name="y")
    for value in (3, 4):
        tf.add_to_collection("numbers", value)
    tf.add_to_collection("reals", 0.5)
    tf.add_to_collection("texts", "a")
    tf.add_to_collection("tensors", y)
    tf.add_to_collection("ops", y.op)
    tf.add_to_collection("odd", object())
    return w, y


@pytest.mark.parametrize("as_text", [False, True])
def test_collections_of_every_kind_come_back(tmp_path, as_text):
    program()
    path = f"{tmp_path}/graph.meta"
    message = tf.train.export_meta_graph(path, as_text=as_text)
    assert message.meta_info_def.tensorflow_version == "1.15.0"
    assert "odd" not in message.collection_def
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(path)
        assert isinstance(saver, tf.train.Saver)  # a new one: the graph had none
        assert tf.get_collection("numbers") == [3, 4]
        assert tf.get_collection("reals") == [0.5]
        assert tf.get_collection("texts") == [b"a"]
        assert tf.get_collection("tensors") == [graph.get_tensor_by_name("y:0")]
        assert tf.get_collection("ops") == [graph.get_operation_by_name("y")]
        (w,) = tf.trainable_variables()
        assert tf.global_variables() == [w]
        with tf.Session() as session:
            session.run(w.initializer)
            assert session.run("y:0").tolist() == [3, 6]


def test_imports_into_a_scope_without_devices(graph):
    program()
    message = tf.train.export_meta_graph()
    assert message.graph_def.node[0].device == "/device:CPU:0"
    with tf.Graph().as_default() as other:
        saver = tf.train.import_meta_graph(message, clear_devices=True, import_scope="a")
        tf.train.import_meta_graph(message, import_scope="a")
        assert [v.name for v in tf.global_variables()] == ["a/w:0", "a_1/w:0"]
        assert other.get_operation_by_name("a/w").device == ""
        assert other.get_operation_by_name("a_1/w").device == "/device:CPU:0"
        assert saver.saver_def.save_tensor_name.startswith("save")
    assert message.graph_def.node[0].device == "/device:CPU:0"


def test_savers_come_with_the_graph_into_the_scope(tmp_path):
    w, _ = program()
    saver = tf.train.Saver()
    tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
    tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver())
    with tf.Session() as session:
        session.run(w.initializer)
        saver.save(session, f"{tmp_path}/x")
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.import_meta_graph(f"{tmp_path}/x.meta", import_scope="a")
        assert saver.saver_def.restore_op_name == "a/save/restore_all"
        saver.restore(session, f"{tmp_path}/x")
        assert session.run("a/w:0").tolist() == [1, 2]
        assert len(tf.get_collection(tf.GraphKeys.SAVERS)) == 2
    only = saver.export_meta_graph(clear_extraneous_savers=True)
    assert len(only.collection_def[tf.GraphKeys.SAVERS].bytes_list.value) <= 1


def test_part_of_a_graph_and_what_it_reads(graph):
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.name_scope("part"):
        v = tf.Variable([1.0, 2.0], name="v")
        tf.add(v, x, name="y")
    tf.Variable(1.0, name="elsewhere")
    message = tf.train.export_meta_graph(export_scope="part")
    assert {node.name for node in message.graph_def.node} >= {"v", "v/Assign", "y"}
    assert "x" not in {node.name for node in message.graph_def.node}
    assert len(message.collection_def["variables"].bytes_list.value) == 1
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(ValueError, match="unbound inputs: x"):
            tf.train.import_meta_graph(message)
        given = tf.constant([10.0, 20.0])
        tf.train.import_meta_graph(message, import_scope="new", input_map={"x": given})
        session.run(tf.global_variables_initializer())
        assert session.run("new/y:0").tolist() == [11, 22]


def test_defaults_can_be_left_out(graph):
    a = tf.constant([[1.0]])
    tf.matmul(a, a, name="plain")
    tf.matmul(a, a, transpose_a=True, name="turned")
    message = tf.train.export_meta_graph(strip_default_attrs=True)
    nodes = {node.name: node for node in message.graph_def.node}
    assert "transpose_a" not in nodes["plain"].attr
    assert nodes["turned"].attr["transpose_a"].b
    assert "transpose_b" not in nodes["turned"].attr
    assert message.meta_info_def.stripped_default_attrs
    ops = {op.name: op for op in message.meta_info_def.stripped_op_list.op}
    assert sorted(ops) == ["Const", "MatMul"]
    defaults = {attr.name: attr for attr in ops["MatMul"].attr}
    assert defaults["transpose_a"].HasField("default_value")
    assert [arg.type_attr for arg in ops["MatMul"].input_arg] == ["T", "T"]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(message)
        assert session.run("plain:0").tolist() == [[1]]


def test_some_collections_only(graph):
    program()
    message = tf.train.export_meta_graph(collection_list=["numbers"])
    assert list(message.collection_def) == ["numbers"]
    with tf.Graph().as_default():
        assert tf.train.import_meta_graph(message) is None  # no variables, no saver


def test_messages_of_users_own(graph, monkeypatch):
    monkeypatch.setattr(proto_functions, "_registered", {})

    class Pair:
        def __init__(self, name):
            self.name = name

        def to_proto(self, export_scope=None):
            return SaverDef(filename_tensor_name=self.name)

        @staticmethod
        def from_proto(message, import_scope=None):
            return Pair(f"{import_scope}/{message.filename_tensor_name}")

    proto_functions.register_proto_function("pairs", SaverDef, Pair.to_proto, Pair.from_proto)
    tf.no_op()
    tf.add_to_collection("pairs", Pair("p"))
    message = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(message, import_scope="s")
        assert [pair.name for pair in tf.get_collection("pairs")] == ["s/p"]
    with pytest.raises(TypeError, match="must be callable"):
        proto_functions.register_proto_function("pairs", SaverDef, None, None)


def test_files_that_are_no_graphs(tmp_path):
    with pytest.raises(
        OSError, match=re.escape(f"File does not exist. Received: {tmp_path}/no.meta.")
    ):
        tf.train.import_meta_graph(f"{tmp_path}/no.meta")
    (tmp_path / "bad.meta").write_bytes(b"\xff\xff\xff")
    with pytest.raises(OSError, match="Cannot parse file"):
        tf.train.import_meta_graph(tmp_path / "bad.meta")


@pytest.mark.parametrize(
    ("outer", "inner", "prefix"),
    [("imp", None, "imp/"), ("a/b", None, "a/b/"), ("a", "b", "a/b/"), (None, "b", "b/")],
)
def test_a_name_scope_that_is_open_is_put_before_all_names(outer, inner, prefix):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.add(x, tf.get_variable("v", [2], initializer=tf.ones_initializer()), name="y")
        tf.add_to_collection("ys", y)
        tf.add_to_collection(tf.GraphKeys.TRAIN_OP, y.op)
        message = tf.train.export_meta_graph()
    with tf.Graph().as_default() as graph, tf.name_scope(outer):
        tf.train.import_meta_graph(message, import_scope=inner)
        assert [each.name for each in tf.global_variables()] == [f"{prefix}v:0"]
        (imported,) = tf.get_collection("ys")
        assert imported.name == f"{prefix}y:0"
        assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == [imported.op]
        assert graph.get_operations()[0].name == f"{prefix}x"
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert list(session.run(imported, {f"{prefix}x:0": [1, 2]})) == [2, 3]


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"v/initial_value:0", b"v/initial_walue:0"), (b"\x0a\x03v:0\x12", b"\x0a\x7fv:0\x12")],
    ids=["a name", "a message"],
)
def test_damaged_items_of_collections_are_errors_with_the_collection(before, after):
    with tf.Graph().as_default():
        tf.Variable(1.0, name="v")
        message = tf.train.export_meta_graph()
    for collection in message.collection_def.values():
        items = collection.bytes_list.value
        items[:] = [each.replace(before, after) for each in items]
    with (
        tf.Graph().as_default(),
        pytest.raises(tf.errors.DataLossError, match="variables' of the meta graph"),
    ):
        tf.train.import_meta_graph(message)
