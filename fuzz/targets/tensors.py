"""Files of tensors: checkpoints of both formats, safetensors, descriptions of models, seals."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from oracle import Target

import sparkflow as tf
from sparkflow.export.model_files import DATA_FILES, read_description, seal_description
from sparkflow.train.checkpoints.object_graph import OBJECT_GRAPH_KEY
from sparkflow_runtime import dtypes
from sparkflow_runtime.checkpoint.bundle_writer import Saved, write_bundle
from sparkflow_runtime.checkpoint.opening import open_checkpoint
from sparkflow_runtime.checkpoint.sealed import open_json, seal_json
from sparkflow_runtime.checkpoint.sealed_message import open_message, seal_message, seal_text
from sparkflow_runtime.checkpoint.sorted_table import TableReader, encode_table, encode_varint
from sparkflow_runtime.checkpoint.tensors import pack_tensors, unpack_tensors
from sparkflow_runtime.events.crc32c import crc32c
from sparkflow_runtime.ops.random.random_states import read_states, write_states
from sparkflow_runtime.protos.trackable_object_graph_pb2 import TrackableObjectGraph
from sparkflow_runtime.resources.container import Resources

_FOLDER = Path(tempfile.mkdtemp())
_GOLDEN = Path(__file__).parents[2] / "tests/golden/checkpoints"


def _bundle() -> tuple[bytes, bytes]:
    values = {"v": np.arange(6, dtype=np.float32), "t": np.array([b"one", b""], object)}
    saved = [Saved(k, dtypes.as_dtype(v.dtype), v) for k, v in values.items()]
    write_bundle(str(_FOLDER / "seed"), saved)
    index = (_FOLDER / "seed.index").read_bytes()
    return index, next(_FOLDER.glob("seed.data-*")).read_bytes()


def _read_all(prefix: Path) -> None:
    reader = open_checkpoint(str(prefix))
    for name in reader.names():
        reader.dtype(name)
        reader.shape(name)
        reader.read(name)


def _index(data: bytes) -> None:
    (_FOLDER / "a.data-00000-of-00001").write_bytes(_DATA)
    (_FOLDER / "a.index").write_bytes(data)
    _read_all(_FOLDER / "a")


def _entries(data: bytes) -> None:
    """An index whose checksums are right, whoever wrote its entries."""
    _index(encode_table(_pairs(data)))


def _object_graph(data: bytes) -> None:
    """What `tf.train.Checkpoint` looks at before it restores anything."""
    saved = Saved(OBJECT_GRAPH_KEY, dtypes.string, np.array(data, object))
    write_bundle(str(_FOLDER / "objects"), [saved])
    with tf.Graph().as_default():
        tf.train.Checkpoint(v=tf.Variable(1.0)).read(str(_FOLDER / "objects"))


def _object_graph_seeds() -> Sequence[bytes]:
    message = TrackableObjectGraph()
    message.nodes.add().children.add(node_id=1, local_name="v")
    attribute = message.nodes.add().attributes.add()
    attribute.name, attribute.checkpoint_key = "VARIABLE_VALUE", "v/.ATTRIBUTES/VARIABLE_VALUE"
    return [message.SerializeToString()]


def _random_states(data: bytes) -> None:
    write_states(Resources(), data)


def _random_states_seeds() -> Sequence[bytes]:
    return [read_states(Resources())]


def _first_format(data: bytes) -> None:
    (_FOLDER / "first").write_bytes(encode_table(_pairs(data)))
    _read_all(_FOLDER / "first")


def _pairs(data: bytes) -> dict[bytes, bytes]:
    """Keys and values, each with a byte or two that say how long it is."""
    pieces, place = [], 0
    while place + 2 <= len(data):
        size = int.from_bytes(data[place : place + 2], "little")
        pieces.append(data[place + 2 : place + 2 + size])
        place += 2 + size
    found = dict(zip(pieces[::2], pieces[1::2], strict=False))
    return dict(sorted(found.items()))


def _as_pairs(path: Path) -> bytes:
    pairs = list(TableReader(path))
    return b"".join(len(x).to_bytes(2, "little") + x for pair in pairs for x in pair)


def _entry_seeds() -> Sequence[bytes]:
    return [_as_pairs(_FOLDER / "seed.index")]


def _first_seeds() -> Sequence[bytes]:
    found = [each for each in _GOLDEN.rglob("*") if each.is_file() and "." not in each.name]
    return [_as_pairs(each) for each in found if each.stat().st_size < 20_000 and _is_table(each)]


def _is_table(path: Path) -> bool:
    return path.read_bytes()[-8:] == bytes.fromhex("57fb808b247547db")


def _tensors(data: bytes) -> None:
    unpack_tensors(data, "it")


def _tensor_seeds() -> Sequence[bytes]:
    return [pack_tensors({"a": np.arange(4, dtype=np.float32), "b": np.array(True)})]


def _sealed(data: bytes) -> None:
    open_json(data, "it")


def _description(data: bytes) -> None:
    """What a seal vouches for, but nobody of ours wrote."""
    read_description(b'{"crc32c": "%08x",\n' % crc32c(data) + data, "it")


def _description_seeds() -> Sequence[bytes]:
    good = seal_description({"signature": {}}, {each: each for each in DATA_FILES}, _SUMS)
    return [good.partition(b"\n")[2]]


def _message(data: bytes) -> None:
    open_message(data, "it")


def _resealed(data: bytes) -> None:
    """A message with marks that are right, around what nobody of ours wrote."""
    description, _, content = data.partition(b"\n")
    body = _FIRST + encode_varint(len(description)) + description + content
    open_message(body + _LAST + crc32c(body).to_bytes(4, "little"), "it")


_FIRST, _, _LAST = seal_message(b"")[:-4].partition(b"\x02{}")
_INDEX, _DATA = _bundle()
_SUMS = dict.fromkeys(DATA_FILES, "00000000")

TARGETS = [
    Target("object_graph", _object_graph, _object_graph_seeds),
    Target("random_states", _random_states, _random_states_seeds),
    Target("checkpoint_index", _index, lambda: [_INDEX]),
    Target("checkpoint_entries", _entries, _entry_seeds),
    Target("checkpoint_first_format", _first_format, _first_seeds),
    Target("safetensors", _tensors, _tensor_seeds),
    Target("sealed_json", _sealed, lambda: [seal_json({"a": 1})]),
    Target(
        "sealed_message",
        _message,
        lambda: [seal_message(b"abc", {"f": 1}), seal_text(b"a: 1\n"), b"plain"],
    ),
    Target("sealed_message_made", _resealed, lambda: [b'{"f": 1}\nabc']),
    Target("model_description", _description, _description_seeds),
]
