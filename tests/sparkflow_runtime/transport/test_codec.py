import random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.protos.worker_pb2 import RecvTensorResponse
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor
from sparkflow_runtime.transport import codec

BUNDLE = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.zeros((0, 5)),
    np.array([b"a", "ü"], object),
    np.float32(3),
    np.array(True),
    np.arange(12, dtype=np.int64).reshape(3, 4).T,
    np.array(1 + 2j),
]


def test_messages_equal_protobuf_s() -> None:
    ours = codec.encode(BUNDLE)
    parsed = RecvTensorResponse.FromString(ours)
    tensors = [parsed.tensor, *parsed.more_tensors]
    for value, proto in zip(BUNDLE, tensors, strict=True):
        expected = export_tensor(value)
        assert import_tensor(proto).tolist() == import_tensor(expected).tolist()
        assert proto.dtype == expected.dtype
        assert proto.tensor_shape == expected.tensor_shape
    theirs = RecvTensorResponse(
        tensor=export_tensor(BUNDLE[0]), more_tensors=map(export_tensor, BUNDLE[1:])
    )
    decoded = codec.decode(theirs.SerializeToString())
    assert decoded is not None
    for value, back in zip(BUNDLE, decoded, strict=True):
        assert import_tensor(export_tensor(value)).tolist() == back.tolist()


@pytest.mark.parametrize("dtype", sorted(dtypes.PLAIN, key=int), ids=lambda dtype: dtype.name)
@given(shape=st.lists(st.integers(0, 4), max_size=4).map(tuple))
def test_every_dtype_and_shape_round_trips(dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
    value = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype.as_numpy_dtype)
    decoded = codec.decode(codec.encode([value]))
    assert decoded is not None
    np.testing.assert_array_equal(decoded[0], value, strict=True)


def test_decoded_arrays_are_views_of_the_message() -> None:
    message = codec.encode([np.arange(1000.0)])
    decoded = codec.decode(message)
    assert decoded is not None
    assert np.shares_memory(decoded[0], np.frombuffer(message, np.uint8))
    assert not decoded[0].flags.writeable


def test_nothing_and_the_end() -> None:
    assert codec.decode(codec.encode([])) == ()
    assert codec.decode(codec.DEAD) is None
    assert RecvTensorResponse.FromString(codec.DEAD).is_dead


def _field(number: int, body: bytes) -> bytes:
    return codec._tag(number) + codec._varint(len(body)) + body


F4 = b"\x08\x01"
SCALAR = b"\x12\x00"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\x0a", "bad varint"),
        (b"\x0a\x05abc", "truncated message: 5 bytes announced, 3 there"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "truncated message"),
        (b"\x80" * 20, "bad varint"),
        (b"\x0b", "wire type 3"),
        (b"\x08\x01", "malformed RecvTensorResponse"),
        (_field(1, F4 + SCALAR + b"\x22\x03abc"), "needs 4 bytes, the message carries 3"),
        (_field(1, F4 + SCALAR), "needs 4 bytes, the message carries 0"),
        (_field(1, b"\x08\x63" + SCALAR), "unknown dtype 99"),
        (_field(1, b"\x08\x07" + SCALAR + b"\x22\x01a"), "string has no raw bytes"),
        (_field(1, b"\x08\x14" + SCALAR), "resource has no raw bytes"),
        (_field(1, F4 + _field(2, b"\x12\x02\x08\x05") + b"\x22\x00"), "needs 20 bytes"),
        (_field(1, F4 + _field(2, b"\x18\x01")), "complete shape"),
        (_field(1, F4 + _field(2, b"\x12\x06\x08\x80\x80\x80\x80\x20") + b"\x22\x00"), "larger"),
        (_field(1, F4 + _field(2, b"\x12\x02\x08\x01" * 2000) + b"\x22\x00"), "A shape of 8000"),
        (_field(1, F4 + _field(2, b"\xff") + b"\x22\x00"), "malformed RecvTensorResponse"),
        (_field(1, F4 + b"\x2a\x03abc"), "malformed RecvTensorResponse"),
    ],
)
def test_malformed_messages_are_refused(message: bytes, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        codec.decode(message)


def test_too_many_tensors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_BUNDLE", 3)
    assert len(codec.decode(codec.encode([1.0] * 3)) or ()) == 3
    with pytest.raises(InvalidArgumentError):
        codec.decode(codec.encode([1.0] * 4))


def test_damaged_messages_never_do_anything_else() -> None:
    message = codec.encode(BUNDLE)
    rng = random.Random(7)
    outcomes = set()
    for _ in range(5000):
        damaged = bytearray(message)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(damaged))
            match rng.randrange(4):
                case 0:
                    damaged[at] = rng.randrange(256)
                case 1:
                    del damaged[at + 1 :]
                case 2:
                    damaged[at:at] = bytes([rng.randrange(256)])
                case _ if len(damaged) > 1:
                    del damaged[at]
        try:
            codec.decode(bytes(damaged))
            outcomes.add("decoded")
        except InvalidArgumentError:
            outcomes.add("refused")
    assert outcomes == {"decoded", "refused"}


@given(st.binary(max_size=200))
def test_noise_never_does_anything_else(message: bytes) -> None:
    try:
        codec.decode(message)
    except InvalidArgumentError:
        return
