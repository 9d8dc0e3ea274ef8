import numpy as np
import pytest

from sparkflow.spark.data.tfrecord.wire import (
    decode_varints,
    encode_varint,
    encode_varints,
    read_varint,
)
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.protos.feature_pb2 import Int64List

_VALUES = [0, 1, 127, 128, 300, 2**31, 2**35 - 1, 2**63 - 1, -1, -(2**63)]


def _as_protobuf_does(values: list[int]) -> bytes:
    packed = Int64List(value=values).SerializeToString()
    size, start = read_varint(packed, 1)
    assert start + size == len(packed)
    return packed[start:]


@pytest.mark.parametrize("values", [_VALUES, [5], [1, 2, 3], [-1, -2], [128] * 1000])
def test_numbers_are_encoded_as_protobuf_does(values: list[int]) -> None:
    data, lengths = encode_varints(np.array(values, np.int64))
    assert data == _as_protobuf_does(values)
    decoded, ends = decode_varints(data)
    assert decoded.dtype == np.int64
    assert decoded.tolist() == values
    assert ends.tolist() == np.cumsum(lengths).tolist()


def test_nothing_is_no_numbers() -> None:
    assert encode_varints(np.zeros(0, np.int64))[0] == b""
    values, ends = decode_varints(b"")
    assert values.size == ends.size == 0


@pytest.mark.parametrize("data", [b"\x80", b"\x01\xff", b"\x80" * 10 + b"\x01"])
def test_numbers_without_an_end_are_refused(data: bytes) -> None:
    with pytest.raises(DataLossError):
        decode_varints(data)


@pytest.mark.parametrize("value", [0, 127, 128, 2**40])
def test_one_number(value: int) -> None:
    data = encode_varint(value)
    assert read_varint(b"x" + data + b"y", 1) == (value, 1 + len(data))
    with pytest.raises(DataLossError, match="is not terminated"):
        read_varint(b"\x80", 0)
