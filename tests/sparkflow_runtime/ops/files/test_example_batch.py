"""Examples by machine code against protobuf: as protobuf writes them, in other ways, damaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.strings import objects
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.files.example_batch import (
    ExampleBatch,
    FoundFeatures,
    wanted_features,
)
from sparkflow_runtime.protos.example_pb2 import Example
from sparkflow_runtime.protos.feature_pb2 import Feature

KEYS = ["floats", "ints", "words", "many", "some floats", "ä"]
DTYPES = [
    *(dtypes.float32, dtypes.int64, dtypes.string, dtypes.int64, dtypes.float32, dtypes.string),
]
SHAPES: list[Any] = [(2, 3), (), (2,), None, None, None]


def _frame_class() -> Any:
    """Returns the class of Examples whose keys are bytes and whose features stay serialized."""
    file = FileDescriptorProto(name="example_frame.proto", syntax="proto3")
    field = FieldDescriptorProto
    for name, parts in {
        "Entry": [("key", field.TYPE_BYTES, ""), ("value", field.TYPE_BYTES, "")],
        "Features": [("feature", field.TYPE_MESSAGE, ".Entry")],
        "Example": [("features", field.TYPE_MESSAGE, ".Features")],
    }.items():
        message = file.message_type.add(name=name)
        for number, (part, kind, type_name) in enumerate(parts, 1):
            label = field.LABEL_REPEATED if part == "feature" else field.LABEL_OPTIONAL
            found = message.field.add(name=part, number=number, label=label, type=kind)
            if type_name:
                found.type_name = type_name
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("Example"))


FRAME = _frame_class()


def _require_readable(data: bytes) -> None:
    """Checks all but what TensorFlow does not: keys that are not UTF-8, and other features."""
    for entry in FRAME.FromString(data).features.feature:
        if entry.key in [key.encode() for key in KEYS]:
            Feature.FromString(entry.value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _entry(key: str | bytes, feature: bytes) -> bytes:
    key = key.encode() if isinstance(key, str) else key
    return _field(1, _field(1, key) + _field(2, feature))


def _example(random: np.random.Generator, odd: bool) -> bytes:
    """Random features in random order; if odd, written as protobuf would not."""

    def floats(values: Any) -> bytes:
        data = np.array(values, "<f4")
        if odd and random.random() < 0.3:  # not packed
            return _field(2, b"".join(b"\x0d" + each.tobytes() for each in data))
        if odd and random.random() < 0.3:  # in two parts
            parts = data[:1].tobytes(), data[1:].tobytes()
            return _field(2, b"".join(_field(1, each) for each in parts))
        return _field(2, _field(1, data.tobytes()))

    def ints(values: Any) -> bytes:
        numbers = [_varint(int(each) % (1 << 64)) for each in values]
        if odd and random.random() < 0.3:
            return _field(3, b"".join(b"\x08" + each for each in numbers))
        return _field(3, _field(1, b"".join(numbers)) if numbers else b"")

    def words(values: Any) -> bytes:
        unknown = b"\x78\x05" if odd and random.random() < 0.2 else b""
        return _field(1, b"".join(_field(1, each) for each in values) + unknown)

    large = [0, 1, 127, 128, 300, -1, 2**63 - 1, -(2**63), 2**35]
    given = {
        "floats": floats(random.normal(size=6)),
        "ints": ints(random.choice(large, 1)),
        "words": words([random.bytes(int(n)) for n in random.integers(0, 200, 2)]),
        "many": ints(random.choice(large, random.integers(0, 9))),
        "some floats": floats(random.normal(size=random.integers(0, 4))),
        "ä": words([b"x"] * int(random.integers(0, 3))),
        "other": b"",
        "fl": floats([1.0]),
    }
    entries = [_entry(key, value) for key, value in given.items() if random.random() < 0.95]
    if odd:
        for change in random.integers(0, 6, 2):
            if change == 0:
                entries.append(_entry("ints", ints([7])))  # the last one counts
            elif change == 1:
                entries.append(_entry("ints", b""))
            elif change == 2:
                entries.append(_field(1, _field(2, ints([3]))))  # without a key
            elif change == 3:
                entries.append(_field(1, _field(2, words([b"v"])) + _field(1, b"\xc3\xa4")))
            elif change == 4:
                entries.append(_field(1, _field(1, b"many")))  # without a value
    entries = [entries[n] for n in random.permutation(len(entries))] if not odd else entries
    if odd and random.random() < 0.3:
        middle = len(entries) // 2
        return _field(1, b"".join(entries[:middle])) + _field(1, b"".join(entries[middle:]))
    return _field(1, b"".join(entries))


def _outcome(messages: list[bytes]) -> Any:
    strings = np.empty(len(messages), object)
    strings[:] = messages
    try:
        wanted = wanted_features(tuple(KEYS), tuple(DTYPES), tuple(SHAPES))
        batch = ExampleBatch(strings, [f"row {n}" for n in range(99)], wanted)
    except InvalidArgumentError as error:
        return str(error)
    found = []
    words = np.array([b"d", b"e"], object)
    defaults: list[Any] = [np.arange(6, dtype=np.float32), np.zeros(1, np.int64), words]
    for n, default in enumerate(defaults):
        given = KEYS[n], DTYPES[n], SHAPES[n]
        found += [_try(batch.dense, *given, each) for each in (default, default[:0])]
    for key, dtype in zip(KEYS, DTYPES, strict=True):
        found.append(_try(batch.sparse, key, dtype))
        for inner in ((), (2,)):
            nothing = np.zeros(0, dtype.as_numpy_dtype)
            found.append(_try(batch.ragged, key, dtype, (None, *inner), nothing))
    found.append(_try(batch.sparse, "ints", dtypes.float32))
    return found


def _try(function: Any, *args: Any) -> Any:
    try:
        result = function(*args)
    except InvalidArgumentError as error:
        return str(error)
    parts = result if isinstance(result, tuple) else (result,)
    return [(part.dtype.str, part.shape, part.ravel().tolist()) for part in parts]


def _by_protobuf(messages: list[bytes], monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(objects, "_bytes_are_as_known", lambda: False)
        return _outcome(messages)


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_against_protobuf(seed: int, odd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    messages = [_example(random, odd and random.random() < 0.5) for _ in range(1 + 8 * (seed % 3))]
    assert repr(_outcome(messages)) == repr(_by_protobuf(messages, monkeypatch))


def test_as_protobuf_writes_it_no_message_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("left to protobuf")

    monkeypatch.setattr(FoundFeatures, "_find_by_protobuf", refuse)
    random = np.random.default_rng(1)
    written = [b"", b"\x0a\0"]
    for _ in range(50):
        message = Example.FromString(_example(random, True))
        message.DiscardUnknownFields()
        written.append(message.SerializeToString())
    assert isinstance(_outcome(written), list)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_messages(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(100 + seed)
    for _ in range(40):
        data = bytearray(_example(random, False))
        for _ in range(random.integers(1, 4)):
            place = int(random.integers(0, len(data)))
            kind = random.integers(0, 3)
            if kind == 0:
                data[place] = int(random.integers(0, 256))
            elif kind == 1:
                del data[place : place + int(random.integers(1, 20))]
            else:
                data[place:place] = random.bytes(int(random.integers(1, 12)))
            if not data:
                break
        found = repr(_outcome([bytes(data)]))
        expected = repr(_by_protobuf([bytes(data)], monkeypatch))
        if found != expected:
            assert "Could not parse" in expected
            if "Could not parse" not in found:  # as it does for numbers of too many bytes
                _require_readable(bytes(data))


def test_every_truncation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _example(np.random.default_rng(5), False)
    for size in range(1, len(data)):
        found = _outcome([data, data[:size]])
        assert isinstance(found, str)
        assert found == _by_protobuf([data, data[:size]], monkeypatch)
