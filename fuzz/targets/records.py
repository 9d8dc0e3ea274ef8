"""Records, events, Examples, compressed files and columns that come from files."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from oracle import Target

import sparkflow as tf
from sparkflow.spark.data.parquet.footers import read_footers
from sparkflow.spark.data.tfrecord.decoding import decode_columns
from sparkflow.spark.data.tfrecord.example_schema import infer_schema
from sparkflow.spark.data.tfrecord.examples import FeatureColumn
from sparkflow_runtime.events.event_file import read_scalars
from sparkflow_runtime.events.records import frame_record, read_records
from sparkflow_runtime.files.compression import expanding
from sparkflow_runtime.protos.event_pb2 import Event
from sparkflow_runtime.resources.datasets.dataset_cache import cached_in_file
from sparkflow_runtime.resources.datasets.dataset_sources import of_iterator

_FOLDER = Path(tempfile.mkdtemp())


def _records(data: bytes) -> None:
    for _ in read_records(io.BytesIO(data)):
        pass


def _expanded(data: bytes) -> None:
    """The first byte says how the rest is compressed; a reader takes a bounded piece at a time."""
    kind = ("GZIP", "ZLIB")[data[0] % 2] if data else "GZIP"
    with expanding(io.BytesIO(data[1:]), kind) as stream:
        for _ in range(64):
            if not stream.read(1 << 16):
                return


def _compressed_seeds() -> Sequence[bytes]:
    import gzip
    import zlib

    content = frame_record(b"abc") + frame_record(b"d" * 100)
    return [b"\0" + gzip.compress(content), b"\1" + zlib.compress(content)]


def _events(data: bytes) -> None:
    (_FOLDER / "events").write_bytes(data)
    read_scalars(_FOLDER / "events")


def _event(data: bytes) -> None:
    _events(frame_record(data))


def _event_seeds() -> Sequence[bytes]:
    event = Event(wall_time=1.5, step=3)
    event.summary.value.add(tag="loss", simple_value=0.5)
    return [event.SerializeToString()]


def _examples() -> list[bytes]:
    feature = tf.train.Feature
    features = {
        "floats": feature(float_list=tf.train.FloatList(value=[1.0, 2.0])),
        "ints": feature(int64_list=tf.train.Int64List(value=[3, -4])),
        "texts": feature(bytes_list=tf.train.BytesList(value=[b"a", b"bc"])),
        "one": feature(float_list=tf.train.FloatList(value=[0.5])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return [example.SerializeToString(), b""]


_COLUMNS = [
    FeatureColumn("floats", "float", True, pa.list_(pa.float32())),
    FeatureColumn("ints", "int64", True, pa.list_(pa.int64())),
    FeatureColumn("texts", "bytes", True, pa.list_(pa.string())),
    FeatureColumn("one", "float", False, pa.float64()),
]


def _columns(data: bytes) -> None:
    decode_columns([data], _COLUMNS)


def _schema(data: bytes) -> None:
    infer_schema([data])


def _table() -> pa.Table:
    return pa.table({"x": pa.array([1.0, 2.0], pa.float32()), "t": ["a", "b"], "n": [[1], [2, 3]]})


def _parquet(data: bytes) -> None:
    path = _FOLDER / "a.parquet"
    path.write_bytes(data)
    read_footers(str(path))


def _parquet_seeds() -> Sequence[bytes]:
    buffer = io.BytesIO()
    pq.write_table(_table(), buffer, compression="none")
    return [buffer.getvalue()]


def _arrow_seeds() -> Sequence[bytes]:
    buffer = io.BytesIO()
    table = _table().select(["x", "t"])
    with pa.ipc.new_file(buffer, table.schema) as writer:
        writer.write_table(table)
    return [buffer.getvalue()]


class _Rows:
    """Steps that read the rows of a file of columns through tf.data.

    Args:
        kind: Of the file, as the op has it.
        good: A file whose schema the graph is built by.
    """

    def __init__(self, kind: str, good: Callable[[], Sequence[bytes]]) -> None:
        self._kind = kind
        self._good = good
        self._steps: tuple[tf.Session, Any, Any] | None = None

    def __call__(self, data: bytes) -> None:
        path = _FOLDER / f"rows.{self._kind}"
        if self._steps is None:
            path.write_bytes(self._good()[0])
            source = getattr(tf.data.Dataset, f"from_{self._kind}")
            with tf.Graph().as_default():
                iterator = tf.data.make_initializable_iterator(source(str(path), ["x", "t"]))
                self._steps = tf.Session(), iterator.initializer, iterator.get_next()
        path.write_bytes(data)
        session, initializer, following = self._steps
        session.run(initializer)
        for _ in range(8):
            try:
                session.run(following)
            except tf.errors.OutOfRangeError:
                return


def _cache(data: bytes) -> None:
    path = _FOLDER / "cache.data-00000-of-00001"
    path.write_bytes(data)
    elements = cached_in_file(of_iterator(lambda: iter(())), str(_FOLDER / "cache")).iterate()
    while elements.next(None) is not None:
        pass


def _cache_seeds() -> Sequence[bytes]:
    path = _FOLDER / "kept.data-00000-of-00001"
    path.unlink(missing_ok=True)
    made = ((np.float32(1.5), np.array(b"a", object)) for _ in range(2))
    elements = cached_in_file(of_iterator(lambda: made), str(_FOLDER / "kept")).iterate()
    while elements.next(None) is not None:
        pass
    elements.close()
    return [path.read_bytes()]


TARGETS = [
    Target("dataset_cache", _cache, _cache_seeds),
    Target("tfrecord", _records, lambda: [frame_record(b"abc") + frame_record(b"")]),
    Target("compressed", _expanded, _compressed_seeds),
    Target("event_file", _events, lambda: [frame_record(s) for s in _event_seeds()]),
    Target("event", _event, _event_seeds),
    Target("example_columns", _columns, _examples, (ValueError,)),
    Target("example_schema", _schema, _examples, (ValueError,)),
    Target("parquet_footer", _parquet, _parquet_seeds, (ValueError, OSError)),
    Target("parquet_rows", _Rows("parquet", _parquet_seeds), _parquet_seeds),
    Target("arrow_rows", _Rows("arrow", _arrow_seeds), _arrow_seeds),
]
