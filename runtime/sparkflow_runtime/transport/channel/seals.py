"""Integrity of frames: checksums and frame numbers verify that an end received what was sent.

On a channel over TCP without TLS, each frame has two checksums in addition to the format of
`frames`:

    header | u32: sum of the header | text | layout | body | u32: sum of all these

The second is present if there is anything between the two. Sums are CRC-32C, in little endian. A
header's sum is seeded with a number that differs for each frame, direction and channel: both ends
count frames and know the first number, which the handshake derives from the job's token and its
transcript. The second sum continues from the first. So flipped, lost or added bytes are detected,
as are frames that are missing, repeated, reordered or from another channel, and nothing of them is
used. A wrong number is always detected, any other fault except for one case in four billion. A size
is verified before anything waits for that many bytes.

All this protects against faults only: an attacker can compute sums, and TLS is there against
attackers. Within TLS there are no such sums, as it has better ones; nor on unix sockets and in
shared memory, where there is nothing between the ends but this machine's memory.

A body is copied in parts on its way into the socket: it may be a variable that others update
concurrently, so a sum computed earlier might not match the bytes sent. If possible, machine code
does this without holding Python's GIL, see `codegen.cpu.sealed_pieces`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.events.crc32c import crc32c
from sparkflow_runtime.transport.channel.frames import HEADER

_SUM: Final = struct.Struct("<I")
SUM_BYTES: Final = _SUM.size
SEALED_HEADER_BYTES: Final = HEADER.size + SUM_BYTES
_STEP: Final = 0x9E3779B1
"""Odd, so that the numbers of 2**32 frames differ."""
_UINT32: Final = 0xFFFFFFFF
_PART_BYTES: Final = 1 << 18

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Seals:
    """The checksums of one direction of a channel; for one thread at a time.

    Args:
        first: The number that seeds its first frame's sum.

    Attributes:
        frame: The number of frames so far.
    """

    __slots__ = ("_first", "frame")

    def __init__(self, first: int) -> None:
        self._first = first
        self.frame = 0

    # ------------------------------------------------------------------------------ sending

    def sealed(self, head: bytes, buffers: Sequence[Any] = ()) -> bytes:
        """Returns the next frame, complete.

        Args:
            head: The frame up to its body.
            buffers: The body: contiguous arrays or bytes.
        """
        header = head[: HEADER.size]
        total = crc32c(header, self._begin())
        self.frame += 1
        if len(head) == HEADER.size and not buffers:
            return header + _SUM.pack(total)
        rest = b"".join((head[HEADER.size :], *buffers))
        return b"".join((header, _SUM.pack(total), rest, _SUM.pack(crc32c(rest, total))))

    def begun(self, head: bytes) -> tuple[bytes, int]:
        """Returns the next frame up to its body, and the seed of the body's sum."""
        header, rest = head[: HEADER.size], head[HEADER.size :]
        total = crc32c(header, self._begin())
        self.frame += 1
        return b"".join((header, _SUM.pack(total), rest)), crc32c(rest, total)

    # ---------------------------------------------------------------------------- receiving

    def check_header(self, data: bytes, peer: str) -> int:
        """Returns the sum of the next frame's header, which must follow it in `data`.

        Raises:
            DataLossError: It does not match.
        """
        header, wanted = data[: HEADER.size], data[HEADER.size :]
        total = crc32c(header, self._begin())
        if total != int.from_bytes(wanted, "little"):
            raise self.broken(peer, "its header")
        return total

    def end(self, total: int, wanted: Any, peer: str) -> None:
        """Ends a frame.

        Args:
            total: The sum of what arrived.
            wanted: The sum that was sent; None if the frame has none.
            peer: The sender.

        Raises:
            DataLossError: They differ.
        """
        if wanted is not None and total != int.from_bytes(wanted, "little"):
            raise self.broken(peer, "its content")
        self.frame += 1

    def broken(self, peer: str, what: str) -> DataLossError:
        """Returns the error for a frame that is not what was sent."""
        return DataLossError(
            message=f"{peer}: frame {self.frame} of this channel is not what was sent ({what} or "
            "its place among the others): something between the two changes, loses or repeats bytes"
        )

    def _begin(self) -> int:
        return (self._first + self.frame * _STEP) & _UINT32


def parts(buffers: Sequence[Any], total: int) -> Iterator[bytes]:
    """Yields copies of a body's parts, and finally their sum, as machine code does.

    Args:
        buffers: The body: contiguous arrays or bytes.
        total: The sum of what precedes the body.
    """
    for buffer in buffers:
        view = np.frombuffer(buffer, np.uint8)
        for start in range(0, len(view), _PART_BYTES):
            part = view[start : start + _PART_BYTES].tobytes()
            total = crc32c(part, total)
            yield part
    yield _SUM.pack(total)
