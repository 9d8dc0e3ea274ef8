"""Graphs, meta graphs, saved models and functions that come from files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.message import DecodeError
from oracle import Target

import sparkflow as tf
from sparkflow.saved_model.loader import parse_saved_model
from sparkflow.train.checkpoints.meta_graph import read_meta_graph_file
from sparkflow.train.checkpoints.state_file import get_checkpoint_state
from sparkflow_runtime.ir.function_def import import_function
from sparkflow_runtime.protos.function_pb2 import FunctionDef
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.tensor_pb2 import TensorProto
from sparkflow_runtime.tensor_proto import import_tensor

_FOLDER = Path(tempfile.mkdtemp())


def _graph() -> tf.Graph:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        w = tf.get_variable("w", [3, 2])
        y = tf.nn.softmax(tf.matmul(x, w), name="y")
        tf.cond(tf.reduce_sum(y) > 0, lambda: y * 2, lambda: y, name="c")
        tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="loop")
        tf.data.Dataset.range(3).map(lambda i: i + 1).make_one_shot_iterator().get_next()
        tf.constant(["a", "b"], name="texts")
        tf.train.Saver()
    return graph


def _import_graph(data: bytes) -> None:
    try:
        message = GraphDef.FromString(data)
    except DecodeError:
        return
    with tf.Graph().as_default():
        tf.import_graph_def(message, name="")


def _graph_seeds() -> Sequence[bytes]:
    def small() -> bytes:
        with tf.Graph().as_default() as graph:
            tf.add(tf.constant([1.0, 2.0]), tf.placeholder(tf.float32, [2]))
        return graph.as_graph_def().SerializeToString()

    return [_graph().as_graph_def().SerializeToString(), small(), b""]


def _import_function(data: bytes) -> None:
    try:
        message = FunctionDef.FromString(data)
    except DecodeError:
        return
    import_function(message)


def _function_seeds() -> Sequence[bytes]:
    return [each.SerializeToString() for each in _graph().as_graph_def().library.function]


def _import_tensor(data: bytes) -> None:
    try:
        message = TensorProto.FromString(data)
    except DecodeError:
        return
    import_tensor(message)


def _tensor_seeds() -> Sequence[bytes]:
    values = [[1.0, 2.0], [[1], [2]], ["a", b"bc"], True, 1 + 2j, [[0.5] * 20]]
    return [tf.make_tensor_proto(each).SerializeToString() for each in values]


def _import_meta_graph(data: bytes) -> None:
    path = _FOLDER / "a.meta"
    path.write_bytes(data)
    read_meta_graph_file(path)
    with tf.Graph().as_default():
        tf.train.import_meta_graph(str(path))


def _meta_graph_seeds() -> Sequence[bytes]:
    path = _FOLDER / "seed.meta"
    found = []
    for as_text in (False, True):
        with _graph().as_default():
            tf.train.export_meta_graph(path, as_text=as_text)
        found.append(path.read_bytes())
    with _graph().as_default():
        message = tf.train.export_meta_graph()
    return [*found, message.SerializeToString()]  # the last without marks, as TensorFlow writes it


def _load_saved_model(data: bytes) -> None:
    folder = _FOLDER / "model"
    folder.mkdir(exist_ok=True)
    (folder / "saved_model.pb").write_bytes(data)
    parse_saved_model(folder)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], str(folder))


def _saved_model_seeds() -> Sequence[bytes]:
    folder = _FOLDER / "seed"
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        tf.saved_model.simple_save(session, str(folder), {"x": x}, {"y": x * 2})
    found = (folder / "saved_model.pb").read_bytes()
    shutil.rmtree(folder)
    return [found]


def _read_state(data: bytes) -> None:
    (_FOLDER / "checkpoint").write_bytes(data)
    get_checkpoint_state(str(_FOLDER))


def _state_seeds() -> Sequence[bytes]:
    tf.train.update_checkpoint_state(str(_FOLDER), f"{_FOLDER}/m-1", [f"{_FOLDER}/m-1"])
    return [(_FOLDER / "checkpoint").read_bytes(), b'model_checkpoint_path: "m-1"\n']


TARGETS = [
    Target("graph_def", _import_graph, _graph_seeds, (ValueError,)),
    Target("function_def", _import_function, _function_seeds),
    Target("tensor_proto", _import_tensor, _tensor_seeds),
    Target("meta_graph", _import_meta_graph, _meta_graph_seeds, (ValueError, OSError)),
    Target(
        "saved_model",
        _load_saved_model,
        _saved_model_seeds,
        (ValueError, OSError, RuntimeError),
    ),
    Target("checkpoint_state", _read_state, _state_seeds, (ValueError,)),
]
