"""The frames of the tensor channel: a header of fixed size, then what it announces.

    kind: u8 | flags: u8 | unused: u16 | text: u32 | layout: u32 | tensors: u32
    body: u64 | number: u64 | place: u64

Then follow `text` bytes (names, a status, a request), `layout` bytes that describe `tensors`
tensors, and `body` bytes. All numbers are little endian. `number` and `place` depend on the kind:

    kind      from    number   place      text
    REQUEST   asker   stream   iteration  step id, credit, key: send these bundles from here on;
                                          `TELL`: also the locations of variables' values
    CREDIT    asker   stream   iteration  bundles up to here may be sent
    CANCEL    asker   stream   -          they are no longer wanted
    BUNDLE    server  stream   iteration  its tensors; without a layout it is that of the last one;
                                          text: places, if it was to `TELL`
    END       server  stream   iteration  the loop ended before this iteration
    FAIL      server  stream   -          code and text: why nothing follows
    CALL      asker   call     step id    flags, handles; its tensors are the arguments, followed by
                                          those of a bundle if the text says so
    REPLY     server  call     -          the results are its tensors
    REFUSAL   server  call     -          code and text: the call failed
    FINISH    asker   step id  -          the step is over
    SEGMENT   both    segment  bytes      memory to be read in place; its descriptor travels along
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from sparkflow_runtime.errors import InvalidArgumentError, OpError, from_status, to_status
from sparkflow_runtime.tensor_proto import MAX_TENSOR_BYTES
from sparkflow_runtime.transport.channel.layout import MAX_LAYOUT_BYTES
from sparkflow_runtime.transport.codec import MAX_BUNDLE

HEADER: Final = struct.Struct("<BBHIIIQQQ")
MAX_TEXT_BYTES: Final = 1 << 16
MAX_BODY_BYTES: Final = 4 * MAX_TENSOR_BYTES
_REQUEST = struct.Struct("<QQ")
_STATUS = struct.Struct("<I")


class Kind(enum.IntEnum):
    """What a frame is; see the table of the module."""

    REQUEST = 1
    CREDIT = 2
    CANCEL = 3
    BUNDLE = 4
    END = 5
    FAIL = 6
    CALL = 7
    REPLY = 8
    REFUSAL = 9
    FINISH = 10
    SEGMENT = 11


SHARED_BODY: Final = 2
"""Flag of a BUNDLE: its body is in shared memory; its text says where."""
SAME_LAYOUT: Final = 1
"""Flag of a BUNDLE or REPLY: its layout is the same as the last one of its stream."""
TELL: Final = 1
"""Flag of a REQUEST: the other end wants to read variables in place, see `readings`."""
_KINDS: Final = {int(kind): kind for kind in Kind}


class Header(NamedTuple):
    """A frame's header, see the module. A tuple, as one is created for every frame."""

    kind: Kind
    flags: int
    text_bytes: int
    layout_bytes: int
    tensors: int
    body_bytes: int
    number: int
    place: int

    @property
    def head_bytes(self) -> int:
        """The number of bytes between the header and the body."""
        return self.text_bytes + self.layout_bytes


def pack(
    kind: Kind,
    number: int,
    place: int = 0,
    *,
    flags: int = 0,
    text: bytes = b"",
    layout: bytes = b"",
    tensors: int = 0,
    body_bytes: int = 0,
) -> bytes:
    """Returns a frame up to its body."""
    header = HEADER.pack(kind, flags, 0, len(text), len(layout), tensors, body_bytes, number, place)
    return header + text + layout if text or layout else header


def unpack(data: bytes | bytearray | memoryview, start: int = 0) -> Header:
    """Returns the header at an offset.

    Raises:
        InvalidArgumentError: An unknown kind, or a size over its limit.
    """
    kind, flags, _, text, layout, tensors, body, number, place = HEADER.unpack_from(data, start)
    if kind not in _KINDS:
        raise InvalidArgumentError(message=f"A frame of unknown kind {kind}")
    if (
        text > MAX_TEXT_BYTES
        or layout > MAX_LAYOUT_BYTES
        or tensors > MAX_BUNDLE
        or body > MAX_BODY_BYTES
    ):
        raise InvalidArgumentError(
            message=f"A frame of {text} bytes of text, {layout} of layout, {tensors} tensors and "
            f"{body} bytes is too large"
        )
    return Header(_KINDS[kind], flags, text, layout, tensors, body, number, place)


def pack_request(step_id: int, credit: int, key: str) -> bytes:
    """Returns the text of a REQUEST."""
    return _REQUEST.pack(step_id, credit) + key.encode()


def unpack_request(text: bytes) -> tuple[int, int, str]:
    """Returns the step id, credit and key of a REQUEST.

    Raises:
        InvalidArgumentError: The text is malformed.
    """
    if len(text) < _REQUEST.size:
        raise InvalidArgumentError(message="A truncated request for tensors")
    step_id, credit = _REQUEST.unpack_from(text)
    return step_id, credit, _text(text[_REQUEST.size :])


def pack_places(places: Sequence[tuple[int, int]]) -> bytes:
    """Returns the text of a BUNDLE that reports locations, as (segment, offset)."""
    return struct.pack(f"<{2 * len(places)}Q", *(each for place in places for each in place))


def unpack_places(text: bytes, count: int) -> list[tuple[int, int]]:
    """Returns the `count` locations in a text.

    Raises:
        InvalidArgumentError: The text has fewer or more.
    """
    if len(text) != 16 * count:
        raise InvalidArgumentError(message=f"{len(text)} bytes do not describe {count} locations")
    numbers = struct.unpack(f"<{2 * count}Q", text)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def pack_status(error: BaseException) -> bytes:
    """Returns the text of a FAIL or REFUSAL."""
    code, text = to_status(error)
    encoded = text.encode("utf-8", "replace")
    return _STATUS.pack(int(code)) + encoded[: MAX_TEXT_BYTES - _STATUS.size]


def unpack_status(text: bytes) -> OpError:
    """Returns the error in a FAIL or REFUSAL."""
    if len(text) < _STATUS.size:
        return InvalidArgumentError(message="A truncated status")
    return from_status(_STATUS.unpack_from(text)[0], text[_STATUS.size :].decode(errors="replace"))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(message=f"A malformed text: {error}") from error
