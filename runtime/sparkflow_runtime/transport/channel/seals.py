"""What tells a channel without TLS that it received what was sent: checksums and an order.

Each piece that a wire sends, some frames of which the last may have a body, lies between a seal
and, where there is a body, a sum:

    head: u32 | body: u64 | crc of the head: u32 | crc of all this: u32
    the frames up to the body: `head` bytes
    the body: `body` bytes | crc of it: u32

The sums are CRC-32C. That of the seal begins with the channel's number and how many pieces were
sent before, which both ends know, and that of the body with that of its seal. So bytes that were
flipped, lost or added, and pieces that were left out, that came twice or that belong to another
channel are told, before anything of them is used. All this is against faults: who wants to deceive
can compute checksums, and is what TLS is for.

What is sent is copied first, a chunk that stays in the cache at a time: it may be a variable, which
others update meanwhile. Whoever reads it then sees some of its elements updated, as over any other
transport; a sum of it would be that of neither.

Unix sockets have no seals: nothing lies between their ends but the kernel. TLS seals by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from sparkflow_runtime.errors import UnavailableError
from sparkflow_runtime.events.crc32c import crc32c
from sparkflow_runtime.transport.channel.frames import HEADER, MAX_BODY_BYTES, MAX_TEXT_BYTES
from sparkflow_runtime.transport.channel.layout import MAX_LAYOUT_BYTES

_SIZES: Final = struct.Struct("<IQI")
_SUM: Final = struct.Struct("<I")
_PLACE: Final = struct.Struct("<IQ")
SEAL_BYTES: Final = _SIZES.size + _SUM.size
SUM_BYTES: Final = _SUM.size
CHUNK_BYTES: Final = 1 << 18
MAX_HEAD_BYTES: Final = 4 * (HEADER.size + MAX_TEXT_BYTES + MAX_LAYOUT_BYTES)


class Seal(NamedTuple):
    """What is said of a piece, with the sum of that."""

    head_bytes: int
    body_bytes: int
    head_crc: int
    crc: int


class SealBroken(UnavailableError):
    """What arrived is not what was sent. The channel ends, and may be opened again."""


class Sealer:
    """Seals what one end of a channel sends; for one thread at a time.

    Args:
        number: The channel's.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._count = 0

    def sealed(self, head: bytes, buffers: Sequence[Any], body_bytes: int) -> Iterator[list[bytes]]:
        """The next piece, as what is to be sent at once, one after the other.

        Args:
            head: Its frames, up to the body.
            buffers: The body: contiguous arrays or bytes.
            body_bytes: Its size.
        """
        sizes = _SIZES.pack(len(head), body_bytes, crc32c(head))
        crc = crc32c(sizes, crc32c(_PLACE.pack(self._number, self._count)))
        self._count += 1
        first = sizes + _SUM.pack(crc) + head
        if not body_bytes:
            yield [first]
            return
        if body_bytes <= CHUNK_BYTES:
            body = b"".join(buffers)
            yield [first, body, _SUM.pack(crc32c(body, crc))]
            return
        yield [first]
        for chunk in _chunks(buffers):
            crc = crc32c(chunk, crc)
            yield [chunk]
        yield [_SUM.pack(crc)]


def _chunks(buffers: Sequence[Any]) -> Iterator[bytes]:
    """Copies of the bytes, `CHUNK_BYTES` at a time."""
    slices: list[memoryview] = []
    room = CHUNK_BYTES
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        while view:
            slices.append(view[:room])
            room -= len(slices[-1])
            view = view[len(slices[-1]) :]
            if not room:
                yield b"".join(slices)
                slices, room = [], CHUNK_BYTES
    if slices:
        yield b"".join(slices)


class SealChecker:
    """Holds what the other end of a channel sent to its seals.

    Args:
        number: The channel's.
        peer: How errors name the other end.
    """

    def __init__(self, number: int, peer: str) -> None:
        self._number = number
        self._peer = peer
        self._count = 0
        self._seal = Seal(0, 0, 0, 0)
        self._head_left = 0
        self._crc = 0

    @property
    def wants_seal(self) -> bool:
        """Whether a seal comes next, before any frame."""
        return self._head_left == 0

    def open(self, data: bytearray, start: int) -> Seal:
        """The seal at this place, which may be asked for again until `begin` is called.

        Raises:
            SealBroken: There is none, or one of another piece.
        """
        sizes = bytes(data[start : start + _SIZES.size])
        (crc,) = _SUM.unpack_from(data, start + _SIZES.size)
        if crc != crc32c(sizes, crc32c(_PLACE.pack(self._number, self._count))):
            raise self._broken("its seal is damaged, or not the next one")
        head_bytes, body_bytes, head_crc = _SIZES.unpack(sizes)
        seal = Seal(head_bytes, body_bytes, head_crc, crc)
        if not HEADER.size <= seal.head_bytes <= MAX_HEAD_BYTES or seal.body_bytes > MAX_BODY_BYTES:
            raise self._broken(f"its sizes, {seal.head_bytes} and {seal.body_bytes}, make no sense")
        return seal

    def begin(self, seal: Seal, head: memoryview) -> None:
        """Takes note of a piece whose frames these are; they come next.

        Raises:
            SealBroken: They are damaged.
        """
        if crc32c(head) != seal.head_crc:
            raise self._broken("a frame is damaged")
        self._seal = seal
        self._head_left = seal.head_bytes
        self._crc = seal.crc

    def take(self, size: int, body_bytes: int) -> None:
        """Takes note of a frame of `size` bytes up to its body.

        Raises:
            SealBroken: The piece has no such frame there.
        """
        self._head_left -= size
        if body_bytes != (0 if self._head_left else self._seal.body_bytes):
            raise self._broken("a frame's size is not the piece's")
        if not self._head_left:
            self._count += 1

    def add(self, piece: Any) -> None:
        """Takes note of the next bytes of the body."""
        self._crc = crc32c(piece, self._crc)

    def end(self, total: memoryview) -> None:
        """Passes if this is the sum of all bytes that were added.

        Raises:
            SealBroken: It is not.
        """
        if self._crc != _SUM.unpack(total)[0]:
            raise self._broken("a tensor is damaged", self._count - 1)

    def _broken(self, what: str, number: int | None = None) -> SealBroken:
        number = self._count if number is None else number
        return SealBroken(
            message=f"What arrived from {self._peer} is not what was sent: {what} (piece {number})"
        )
