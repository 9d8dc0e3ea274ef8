import numpy as np
import pytest

from sparkflow.spark.data.tfrecord.wire import encode_varint, encode_varints
from sparkflow_runtime.protos.feature_pb2 import Int64List

_VALUES = [0, 1, 127, 128, 300, 2**31, 2**35 - 1, 2**63 - 1, -1, -(2**63)]


def _message(packed: bytes) -> bytes:
    return b"\x0a" + encode_varint(len(packed)) + packed


@pytest.mark.parametrize("values", [_VALUES, [5], [1, 2, 3], [-1, -2], [128] * 1000])
def test_numbers_are_encoded_as_protobuf_does(values: list[int]) -> None:
    data, lengths = encode_varints(np.array(values, np.int64))
    assert _message(data) == Int64List(value=values).SerializeToString()
    ends = np.cumsum(lengths).tolist()
    parts = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert [list(Int64List.FromString(_message(part)).value) for part in parts] == [
        [value] for value in values
    ]


def test_nothing_is_no_numbers() -> None:
    assert encode_varints(np.zeros(0, np.int64))[0] == b""
