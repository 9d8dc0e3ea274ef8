"""Converts records to columns and back, without Spark; protobuf's own Example is the reference."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkflow.spark.data.tfrecord.decoding import decode_columns, feature_kind
from sparkflow.spark.data.tfrecord.encoding import encode_records
from sparkflow.spark.data.tfrecord.examples import BYTES, FLOAT, INT64, FeatureColumn, RecordError
from sparkflow_runtime.protos.example_pb2 import Example
from sparkflow_runtime.protos.feature_pb2 import BytesList, Feature, FloatList, Int64List

LABEL = FeatureColumn("label", INT64, False, pa.int64())
WEIGHT = FeatureColumn("weight", FLOAT, False, pa.float32())
NAME = FeatureColumn("name", BYTES, False, pa.binary())
PIXELS = FeatureColumn("pixels", FLOAT, True, pa.list_(pa.float32()))
IDS = FeatureColumn("ids", INT64, True, pa.list_(pa.int64()))
WORDS = FeatureColumn("words", BYTES, True, pa.list_(pa.binary()))
ALL = [LABEL, WEIGHT, NAME, PIXELS, IDS, WORDS]


def _feature(value: Any) -> Feature:
    values = value if isinstance(value, list) else [value]
    if values and isinstance(values[0], bytes):
        return Feature(bytes_list=BytesList(value=values))
    if values and isinstance(values[0], float):
        return Feature(float_list=FloatList(value=values))
    return Feature(int64_list=Int64List(value=values))


def _record(**features: Any) -> bytes:
    example = Example()
    for name, value in features.items():
        kept = value if isinstance(value, Feature) else _feature(value)
        example.features.feature[name].CopyFrom(kept)
    return example.SerializeToString()


ROWS: list[dict[str, Any]] = [
    {
        "label": 3,
        "weight": 0.5,
        "name": b"a",
        "pixels": [1.0, 2.0],
        "ids": [1, -1, 300],
        "words": [b"x", b""],
    },
    {"label": -7, "name": b"", "pixels": [float(i) for i in range(200)], "ids": [2**62]},
    {},
    {"weight": -1.25, "words": [b"one"], "ids": [5] * 200, "name": b"n" * 300},
]


def test_columns_are_what_protobuf_reads() -> None:
    arrays = decode_columns([_record(**row) for row in ROWS], ALL)
    for column, array in zip(ALL, arrays, strict=True):
        assert array.type == column.arrow_type
        assert array.to_pylist() == [row.get(column.name) for row in ROWS], column.name


def test_records_are_what_protobuf_reads() -> None:
    arrays = [pa.array([row.get(column.name) for row in ROWS], column.arrow_type) for column in ALL]
    batch = pa.RecordBatch.from_arrays(arrays, [column.name for column in ALL])
    for whole, rows in ((batch, ROWS), (batch.slice(1, 2), ROWS[1:3])):
        for record, row in zip(encode_records(whole, ALL), rows, strict=True):
            assert Example.FromString(record) == Example.FromString(_record(**row))


def test_empty_lists() -> None:
    empty = {"pixels": Feature(float_list=FloatList()), "ids": Feature(int64_list=Int64List())}
    record = _record(**empty, words=Feature(bytes_list=BytesList()))
    arrays = decode_columns([record, record], [PIXELS, IDS, WORDS])
    assert [array.to_pylist() for array in arrays] == [[[], []]] * 3
    batch = pa.RecordBatch.from_arrays(arrays, ["pixels", "ids", "words"])
    back = next(encode_records(batch, [PIXELS, IDS, WORDS]))
    assert Example.FromString(back) == Example.FromString(record)
    scalar = FeatureColumn("ids", INT64, False, pa.int64())
    assert decode_columns([record], [scalar])[0].to_pylist() == [None]


def test_features_of_no_kind_are_null() -> None:
    record = _record(label=Feature(), words=Feature(), pixels=Feature())
    assert [a.to_pylist() for a in decode_columns([record], [LABEL, WORDS, PIXELS])] == [[None]] * 3


def test_numbers_that_are_not_packed_are_read() -> None:
    # As written by old writers: one tag per number; and a list split into two parts.
    floats = b"\x0d" + np.float32(1.5).tobytes() + b"\x0d" + np.float32(2.5).tobytes()
    value = b"\x12" + bytes([len(floats)]) + floats
    twice = b"\x1a\x03\x0a\x01\x07" + b"\x1a\x03\x0a\x01\x08"
    example = Example()
    example.features.feature["pixels"].MergeFromString(value)
    assert decode_columns([_entry("pixels", value)], [PIXELS])[0].to_pylist() == [[1.5, 2.5]]
    assert decode_columns([_entry("ids", twice)], [IDS])[0].to_pylist() == [[7, 8]]


def _entry(name: str, value: bytes) -> bytes:
    entry = b"\x0a" + bytes([len(name)]) + name.encode() + b"\x12" + bytes([len(value)]) + value
    features = b"\x0a" + bytes([len(entry)]) + entry
    return b"\x0a" + bytes([len(features)]) + features


@pytest.mark.parametrize(
    ("record", "column", "text"),
    [
        (_record(label=1.5), LABEL, "'label' is a float_list, but the column int64 needs"),
        (_record(label=[1, 2]), LABEL, "'label' has 2 values"),
        (_record(name=[b"a", b"b"]), NAME, "'name' has 2 values"),
        (b"no example", LABEL, "it is not a tf.train.Example"),
        (_entry("ids", b"\x1a\x03\x0a\x01\x80"), IDS, "it is not a tf.train.Example"),
        (_entry("pixels", b"\x12\x05\x0a\x03abc"), PIXELS, "it is not a tf.train.Example"),
        (_entry("pixels", b"\x12\x7f"), PIXELS, "it is not a tf.train.Example"),
        (
            _record(label=300),
            FeatureColumn("label", INT64, False, pa.int8()),
            "'label' is not int8",
        ),
        (
            _record(name=b"\xff"),
            FeatureColumn("name", BYTES, False, pa.string()),
            "'name' is not string",
        ),
    ],
)
def test_the_record_to_blame_is_named(record: bytes, column: FeatureColumn, text: str) -> None:
    good = _record()
    with pytest.raises(RecordError) as caught:
        decode_columns([good, good, record, good], [column])
    assert caught.value.row == 2
    assert text in caught.value.reason


def test_nulls_in_lists_cannot_be_written() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([[1, None]], pa.list_(pa.int64()))], ["ids"])
    with pytest.raises(ValueError, match="'ids' has a null inside an array"):
        list(encode_records(batch, [IDS]))


def test_other_types_are_converted() -> None:
    columns = [
        FeatureColumn("flag", INT64, False, pa.bool_()),
        FeatureColumn("x", FLOAT, True, pa.list_(pa.float64())),
        FeatureColumn("text", BYTES, False, pa.string()),
    ]
    arrays = [
        pa.array([True, None], pa.bool_()),
        pa.array([[0.5], None], pa.list_(pa.float64())),
        pa.array(["ä", "b"], pa.string()),
    ]
    batch = pa.RecordBatch.from_arrays(arrays, ["flag", "x", "text"])
    records = list(encode_records(batch, columns))
    assert Example.FromString(records[0]) == Example.FromString(
        _record(flag=1, x=[0.5], text="ä".encode())
    )
    assert [a.to_pylist() for a in decode_columns(records, columns)] == [
        a.to_pylist() for a in arrays
    ]


def test_kinds_of_features() -> None:
    assert feature_kind(_feature([1, 2])) == (INT64, 2)
    assert feature_kind(_feature(1.0)) == (FLOAT, 1)
    assert feature_kind(_feature([b"a"])) == (BYTES, 1)
    assert feature_kind(Feature()) is None
