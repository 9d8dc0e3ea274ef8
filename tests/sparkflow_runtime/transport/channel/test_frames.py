"""Headers and texts of frames."""

import pytest

from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError, UnknownError
from sparkflow_runtime.transport.channel import frames
from sparkflow_runtime.transport.channel.frames import HEADER, Kind


def test_a_header_holds_what_it_was_made_of() -> None:
    packed = frames.pack(
        Kind.BUNDLE, 7, 1 << 40, flags=3, text=b"ab", layout=b"cde", tensors=5, body_bytes=9
    )
    header = frames.unpack(packed)
    assert packed[HEADER.size :] == b"abcde"
    assert (header.kind, header.flags, header.number, header.place) == (Kind.BUNDLE, 3, 7, 1 << 40)
    assert (header.text_bytes, header.layout_bytes, header.head_bytes) == (2, 3, 5)
    assert (header.tensors, header.body_bytes) == (5, 9)


def test_the_numbers_of_kinds_are_for_ever() -> None:
    assert [kind.name for kind in sorted(Kind)] == [
        *("REQUEST", "CREDIT", "CANCEL", "BUNDLE", "END", "FAIL", "CALL", "REPLY", "REFUSAL"),
        *("FINISH", "SEGMENT"),
    ]
    assert sorted(Kind) == list(range(1, 12))


@pytest.mark.parametrize(
    "sizes",
    [
        (frames.MAX_TEXT_BYTES + 1, 0, 0, 0),
        (0, 1 << 31, 0, 0),
        (0, 0, 1 << 20, 0),
        (0, 0, 0, 1 << 60),
    ],
)
def test_sizes_over_their_limits_are_refused(sizes: tuple[int, int, int, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="is too large"):
        frames.unpack(HEADER.pack(4, 0, 0, *sizes, 0, 0))


@pytest.mark.parametrize("kind", [0, 12, 255])
def test_unknown_kinds_are_refused(kind: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"unknown kind {kind}"):
        frames.unpack(HEADER.pack(kind, *[0] * 8))


def test_requests() -> None:
    assert frames.unpack_request(frames.pack_request(1 << 60, 3, "0-1-ü")) == (1 << 60, 3, "0-1-ü")
    for bad in (b"", b"x" * 15, bytes(16) + b"\xff"):
        with pytest.raises(InvalidArgumentError):
            frames.unpack_request(bad)


def test_errors_keep_class_and_text() -> None:
    found = frames.unpack_status(frames.pack_status(NotFoundError(message="no ü \udcff")))
    assert type(found) is NotFoundError
    assert found.message.startswith("no ü")
    assert "ValueError: 3" in frames.unpack_status(frames.pack_status(ValueError(3))).message
    assert isinstance(frames.unpack_status(b"ab"), InvalidArgumentError)
    long = frames.pack_status(UnknownError(message="x" * (1 << 20)))
    assert len(long) == frames.MAX_TEXT_BYTES


def test_places_are_what_they_were_packed_from() -> None:
    places = [(0, 64), (3, 1 << 40)]
    assert frames.unpack_places(frames.pack_places(places), 2) == places
    for count in (0, 1, 3):
        with pytest.raises(InvalidArgumentError, match="32 bytes do not describe"):
            frames.unpack_places(frames.pack_places(places), count)
