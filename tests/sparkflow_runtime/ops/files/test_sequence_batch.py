"""SequenceExamples by machine code against protobuf, and against its messages value by value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.strings import objects
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.files.example_batch import wanted_features
from sparkflow_runtime.ops.files.sequence_batch import SequenceBatch
from sparkflow_runtime.protos.example_pb2 import SequenceExample
from sparkflow_runtime.protos.feature_pb2 import Feature, FeatureList

LISTS = {
    "tokens": (dtypes.int64, ()),
    "vectors": (dtypes.float32, (2, 2)),
    "words": (dtypes.string, (1,)),
    "nothing": (dtypes.int64, (0,)),
}
CONTEXT = wanted_features(("id", "ä"), (dtypes.string, dtypes.int64), ((), None))


def _feature(random: np.random.Generator, name: str, regular: bool) -> Feature:
    count = {"tokens": 1, "vectors": 4, "words": 1, "nothing": 0}[name]
    if not regular:
        count = int(random.integers(0, 4))
        if random.random() < 0.3:
            return Feature()
    feature = Feature()
    if name == "vectors":
        feature.float_list.value.extend(random.normal(size=count))
    elif name == "words":
        feature.bytes_list.value.extend(
            random.bytes(int(n)) for n in random.integers(0, 200, count)
        )
    else:
        feature.int64_list.value.extend(random.integers(-(2**62), 2**62, count).tolist())
    return feature


def _message(random: np.random.Generator, regular: bool = True) -> SequenceExample:
    message = SequenceExample()
    if random.random() < 0.9:
        message.context.feature["id"].bytes_list.value.append(b"x")
        message.context.feature["ä"].int64_list.value.extend([1, -2])
    for name in random.permutation(list(LISTS)):
        if random.random() < 0.9:
            features = [_feature(random, name, regular) for _ in range(random.integers(0, 5))]
            message.feature_lists.feature_list[name].CopyFrom(FeatureList(feature=features))
    message.feature_lists.feature_list["other"].feature.add()
    return message


def _odd(message: SequenceExample, way: int) -> bytes:
    """The message, written as protobuf would not write it."""
    data = message.SerializeToString()
    if way == 0:  # an unknown field
        return data + b"\x78\x05"
    if way == 1:  # a second context, and lists after it, which are merged
        more = SequenceExample()
        more.context.feature["ä"].int64_list.value.append(9)
        more.feature_lists.feature_list["tokens"].feature.add().int64_list.value.append(7)
        return data + more.SerializeToString()
    lists = SequenceExample(feature_lists=message.feature_lists).SerializeToString()
    return lists + SequenceExample(context=message.context).SerializeToString()


def _outcome(messages: list[bytes]) -> Any:
    strings = np.empty(len(messages), object)
    strings[:] = messages
    labels = [f"row {n}" for n in range(len(messages))]
    try:
        batch = SequenceBatch(strings, labels, CONTEXT, [*LISTS, "tokens"])
    except InvalidArgumentError as error:
        return str(error)
    found = [
        _try(batch.context.dense, "id", dtypes.string, (), np.array(b"?", object)),
        _try(batch.context.sparse, "ä", dtypes.int64),
    ]
    for name, (dtype, shape) in LISTS.items():
        found.append(_try(batch.sparse, name, dtype))
        found += [_try(batch.dense, name, dtype, shape, may_miss) for may_miss in (True, False)]
    found += [_try(batch.sparse, "words", dtypes.int64)]
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


@pytest.mark.parametrize("seed", range(20))
def test_against_protobuf(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    messages = []
    for _ in range(1 + 5 * (seed % 4)):
        message = _message(random, regular=seed % 2 == 0 or random.random() < 0.9)
        odd = seed % 3 == 0 and random.random() < 0.4
        written = _odd(message, int(random.integers(0, 3))) if odd else message.SerializeToString()
        messages.append(written)
    assert repr(_outcome(messages)) == repr(_by_protobuf(messages, monkeypatch))


@pytest.mark.parametrize("odd", [False, True])
def test_values_are_those_of_the_messages(odd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not odd:

        def refuse(*_: Any) -> Any:
            raise AssertionError("left to protobuf")

        monkeypatch.setattr(SequenceBatch, "_find_by_protobuf", refuse)
    random = np.random.default_rng(4)
    given = [_message(random, regular=False) for _ in range(40)]
    written = [
        _odd(each, n % 2 * 2) if odd else each.SerializeToString() for n, each in enumerate(given)
    ]
    strings = np.empty(len(written), object)
    strings[:] = written
    batch = SequenceBatch(strings, [""] * 40, CONTEXT, list(LISTS))
    for name, field in (
        ("tokens", "int64_list"),
        ("vectors", "float_list"),
        ("words", "bytes_list"),
    ):
        indices, values, shape = batch.sparse(name, LISTS[name][0])
        expected = [
            ([number, place, at], value)
            for number, message in enumerate(given)
            if name in message.feature_lists.feature_list
            for place, feature in enumerate(message.feature_lists.feature_list[name].feature)
            for at, value in enumerate(getattr(feature, field).value)
        ]
        assert list(zip(indices.tolist(), values.tolist(), strict=True)) == expected
        assert shape[0] == 40


def test_a_feature_that_only_protobuf_reads_is_found_with_its_list() -> None:
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    plain, unknown = field(1, field(1, b"ab")), b"\x78\x05"
    features = [field(1, plain), field(1, plain + unknown), field(1, field(1, field(1, b"c")))]
    entry = field(1, field(1, b"words") + field(2, b"".join(features)))
    context = SequenceExample()
    context.context.feature["id"].bytes_list.value.append(b"x")
    odd = context.SerializeToString() + field(2, entry)
    assert _outcome([odd]) != _outcome([context.SerializeToString()])
    strings = np.array([odd, context.SerializeToString(), odd], object)
    batch = SequenceBatch(strings, ["a", "b", "c"], CONTEXT, ["words"])
    indices, values, shape = batch.sparse("words", dtypes.string)
    assert values.tolist() == [b"ab", b"ab", b"c"] * 2
    assert indices[:, 0].tolist() == [0] * 3 + [2] * 3
    assert shape.tolist() == [3, 3, 1]


def test_dense_lists_are_padded() -> None:
    messages = []
    for count in (2, 0, 3):
        message = SequenceExample()
        for number in range(count):
            feature = message.feature_lists.feature_list["words"].feature.add()
            feature.bytes_list.value.append(b"%d" % number)
        messages.append(message.SerializeToString())
    strings = np.array([*messages, None], object)[:-1]
    batch = SequenceBatch(strings, ["a", "b", "c"], wanted_features((), (), ()), ["words"])
    values, lengths = batch.dense("words", dtypes.string, (), True)
    assert values.tolist() == [[b"0", b"1", b""], [b"", b"", b""], [b"0", b"1", b"2"]]
    assert lengths.tolist() == [2, 0, 3]
    with pytest.raises(InvalidArgumentError, match="Name: b, Feature list 'words' is required"):
        batch.dense("words", dtypes.string, (), False)
    with pytest.raises(InvalidArgumentError, match=r"words, Index: 0\. .*expected type: int64"):
        batch.dense("words", dtypes.int64, (), True)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_messages(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(100 + seed)
    for _ in range(40):
        data = bytearray(_message(random).SerializeToString())
        for _ in range(random.integers(1, 4)):
            place = int(random.integers(0, len(data)))
            kind = random.integers(0, 3)
            if kind == 0:
                data[place] = int(random.integers(0, 128))
            elif kind == 1:
                del data[place : place + int(random.integers(1, 20))]
            else:
                data[place:place] = bytes(random.integers(0, 128, 4).tolist())
            if not data:
                break
        found = repr(_outcome([bytes(data)]))
        expected = repr(_by_protobuf([bytes(data)], monkeypatch))
        if found != expected:  # lists that are not asked for are not looked into
            assert "Could not parse" in expected


def test_every_truncation_is_refused_or_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _message(np.random.default_rng(5)).SerializeToString()
    for size in range(1, len(data)):
        assert repr(_outcome([data[:size]])) == repr(_by_protobuf([data[:size]], monkeypatch))
