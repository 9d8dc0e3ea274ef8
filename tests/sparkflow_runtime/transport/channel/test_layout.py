"""The description of a message's tensors: what goes in comes out, and nothing else is accepted."""

import struct

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.transport.channel import layout
from sparkflow_runtime.transport.channel.layout import ALIGNMENT, Describer, parse

TENSORS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.float64(2.5),
    np.array(True),
    np.zeros((3, 0, 2), np.int64),
    np.arange(12).reshape(3, 4).T,
    np.arange(10, dtype=np.int8)[::3],
    np.array([1 + 2j], np.complex64),
    np.array([b"one", b""], object),
    np.array([1.5, -2], dtypes.bfloat16.as_numpy_dtype),
]


def body_of(message: layout.Message) -> np.ndarray:
    data = b"".join(bytes(np.frombuffer(piece, np.uint8)) for piece in message.buffers)
    assert len(data) == message.body_bytes
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("start", range(len(TENSORS)))
def test_tensors_arrive_as_they_were(start: int) -> None:
    sent = [*TENSORS[start:], *TENSORS[:start]]
    message = Describer().describe(sent)
    found = parse(message.layout, message.count)
    read = found.read(body_of(message))
    assert found.body_bytes == message.body_bytes
    for was, came in zip(sent, read, strict=True):
        assert came.dtype == np.asarray(was).dtype
        np.testing.assert_array_equal(came, was)
    assert all(each.start % ALIGNMENT == 0 for each in found.tensors)


@pytest.mark.parametrize("kind", [np.float32, np.int8, bool, dtypes.bfloat16.as_numpy_dtype])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 200])
def test_plain_tensors_arrive_whatever_lies_between_them(kind: type, count: int) -> None:
    """Sizes that are no multiples of the alignment, empty ones, parts of others, numbers."""
    describer = Describer()
    for turn in range(3):  # of a layout that is new, known, and known to this describer
        whole = (np.arange(2 * 40) % 5 + turn).astype(kind)
        sent = [whole[::2][: number % 37].reshape(1, -1) for number in range(count)]
        if count == 7:
            sent += [whole[4], whole[5].reshape(())]
        message = describer.describe(sent)
        found = parse(message.layout, message.count)
        assert found.columns is not None
        came = found.read(body_of(message))
        assert len(came) == len(sent)
        for was, read in zip(sent, came, strict=True):
            assert (read.dtype, read.shape) == (was.dtype, was.shape)
            np.testing.assert_array_equal(read, was)


def test_a_layout_that_comes_again_is_the_same_object() -> None:
    describer = Describer()
    first = describer.describe([np.zeros(3), np.ones(2, np.int32)])
    again = describer.describe([np.ones(3), np.zeros(2, np.int32)])
    other = describer.describe([np.ones(4), np.zeros(2, np.int32)])
    assert again.layout is first.layout
    assert other.layout != first.layout
    np.testing.assert_array_equal(parse(again.layout, 2).read(body_of(again))[0], np.ones(3))


def test_texts_are_described_anew_each_time() -> None:
    describer = Describer()
    for texts in ([b"a"], [b"longer"], [b""]):
        message = describer.describe([np.array(texts, object), np.ones(2)])
        read = parse(message.layout, 2).read(body_of(message))
        assert list(read[0]) == texts
        np.testing.assert_array_equal(read[1], np.ones(2))


def test_lent_tensors_stay_where_they_are() -> None:
    here, elsewhere = np.arange(6.0)[1:], np.arange(8.0)[1:]
    describer = Describer(lambda array: (3, 128) if array is here else None)
    message = describer.describe([here, elsewhere, here], lent=[0, 1])
    found = parse(message.layout, 3)
    assert [each.where for each in found.tensors] == [layout.SHARED, layout.INLINE, layout.INLINE]
    assert (found.tensors[0].segment, found.tensors[0].start) == (3, 128)
    read = found.read(body_of(message), lambda tensor: here)
    assert read[0] is here
    np.testing.assert_array_equal(read[1], elsewhere)
    np.testing.assert_array_equal(read[2], here)
    with pytest.raises(InvalidArgumentError, match="shares no memory"):
        found.read(body_of(message))


def test_truncated_descriptions_are_refused_at_every_byte() -> None:
    message = Describer().describe(TENSORS)
    for size in range(len(message.layout)):
        with pytest.raises(InvalidArgumentError):
            parse(message.layout[:size], message.count)
    with pytest.raises(InvalidArgumentError, match="3 bytes too many"):
        parse(message.layout + b"abc", message.count)


@pytest.mark.parametrize(
    ("description", "match"),
    [
        (struct.pack("<BBH", 1, 0, 33), "rank 33"),
        (struct.pack("<BBH", 1, 3, 0), "in place 3"),
        (struct.pack("<BBH", 250, 0, 0), "unknown dtype 250"),
        (struct.pack("<BBHQ", 1, 0, 1, 1 << 40), "is larger than"),
        (struct.pack("<BBHQQ", 1, 0, 2, 0, 1 << 63), "is larger than"),
        (struct.pack("<BBHQQ", 1, 0, 2, 1 << 32, 1 << 32), "is larger than"),
        (struct.pack("<BBH", dtypes.string.number, 0, 0), "has no raw bytes"),
        (struct.pack("<BBH", dtypes.resource.number, 0, 0), "has no raw bytes"),
        (struct.pack("<BBHQ", dtypes.string.number, 1, 0, 1 << 60), "encoded bytes"),
    ],
)
def test_hostile_descriptions_are_refused(description: bytes, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        parse(description, 1)


def test_malformed_texts_are_refused() -> None:
    message = Describer().describe([np.array([b"text"], object)])
    body = body_of(message).copy()
    body[:] = 255
    with pytest.raises(InvalidArgumentError, match="malformed tensor"):
        parse(message.layout, 1).read(body)


def test_what_one_describer_found_others_know(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [np.ones(5, np.float32), np.ones((2, 3), np.int64), np.float16(2)]
    first = Describer().describe(values)
    monkeypatch.setattr(layout, "_describe", lambda *_: pytest.fail("described again"))
    again = Describer().describe([value + 1 for value in values])
    assert again.layout is first.layout
    assert (again.body_bytes, again.count) == (first.body_bytes, first.count)
    body = np.frombuffer(b"".join(again.buffers), np.uint8)
    for was, came in zip(values, parse(again.layout, again.count).read(body), strict=True):
        np.testing.assert_array_equal(was + 1, came)


def test_what_lies_elsewhere_or_is_text_is_described_for_itself() -> None:
    arena = np.ones(8, np.float32)
    values = [arena[:4], np.ones(4, np.float32)]
    plain = Describer().describe(values, [0])
    for offset in (16, 32):
        described = Describer(lambda _, offset=offset: (7, offset)).describe(values, [0])
        assert described.layout != plain.layout
        tensor, _ = parse(described.layout, 2).tensors
        assert (tensor.where, tensor.segment, tensor.start) == (layout.SHARED, 7, offset)
    texts = np.array(["a"], object)
    for text in ("b", "longer"):
        texts[0] = text
        message = Describer().describe([texts])
        body = np.frombuffer(b"".join(message.buffers), np.uint8)
        (found,) = parse(message.layout, 1).read(body)
        assert found[0] == text.encode()


def test_layouts_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MAX_DESCRIPTIONS", 3)
    monkeypatch.setattr(layout, "_descriptions", {})
    for size in range(1, 9):
        Describer().describe([np.ones(size, np.float32)])
        assert len(layout._descriptions) <= 3
