"""What tells an end of a channel that it received what was sent: sums and an order.

On a channel over TCP without TLS each frame has two sums more than `frames` says:

    header | u32: sum of the header | text | layout | body | u32: sum of all these

The second is there if anything is between the two. Sums are CRC-32C, in little endian. That of a
header begins with a number that differs from frame to frame, from direction to direction and from
channel to channel: both ends count frames and know the first number, which the handshake derives
from the job's token and all that was said. The second goes on from the first. So bytes that were
flipped, lost or added, and frames that were left out, that come again, in another order or from
another channel are told, and nothing of them is used. What differs in the number only has another
sum for certain, all else but for one case in four thousand million. A size is known to be right
before anybody waits for so many bytes.

All this is against faults: who wants to deceive can compute sums, and is what TLS is for. Within
TLS there are none, as it has better ones; nor on unix sockets and in shared memory, where nothing
is between the ends but the memory of this machine, which no sum of ours makes better.

A body is copied in parts on its way into the socket: it may be a variable, which others update
meanwhile, and a sum of an earlier look would not be that of what the socket gets. Machine code does
it without Python's lock where it can, see `codegen.cpu.sealed_pieces`.
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
    """The sums of one direction of a channel; for one thread at a time.

    Args:
        first: The number with which its first frame begins.

    Attributes:
        frame: How many frames there were.
    """

    __slots__ = ("_first", "frame")

    def __init__(self, first: int) -> None:
        self._first = first
        self.frame = 0

    # ------------------------------------------------------------------------------ sending

    def sealed(self, head: bytes, buffers: Sequence[Any] = ()) -> bytes:
        """The next frame, whole.

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
        """The next frame up to its body, and the sum with which that of the body begins."""
        header, rest = head[: HEADER.size], head[HEADER.size :]
        total = crc32c(header, self._begin())
        self.frame += 1
        return b"".join((header, _SUM.pack(total), rest)), crc32c(rest, total)

    # ---------------------------------------------------------------------------- receiving

    def check_header(self, data: bytes, peer: str) -> int:
        """The sum of the next frame's header, which is followed by it in `data`.

        Raises:
            DataLossError: It is another one.
        """
        header, wanted = data[: HEADER.size], data[HEADER.size :]
        total = crc32c(header, self._begin())
        if total != int.from_bytes(wanted, "little"):
            raise self.broken(peer, "its header")
        return total

    def end(self, total: int, wanted: Any, peer: str) -> None:
        """Ends a frame.

        Args:
            total: The sum of what came.
            wanted: That which was sent along; None where the frame has none.
            peer: Who sent it.

        Raises:
            DataLossError: They differ.
        """
        if wanted is not None and total != int.from_bytes(wanted, "little"):
            raise self.broken(peer, "its content")
        self.frame += 1

    def broken(self, peer: str, what: str) -> DataLossError:
        """The error of a frame that is not what was sent."""
        return DataLossError(
            message=f"{peer}: frame {self.frame} of this channel is not what was sent ({what} or "
            "its place among the others): something between the two changes, loses or repeats bytes"
        )

    def _begin(self) -> int:
        return (self._first + self.frame * _STEP) & _UINT32


def parts(buffers: Sequence[Any], total: int) -> Iterator[bytes]:
    """Copies of a body's bytes, a part at a time, and their sum at last: what machine code does.

    Args:
        buffers: The body: contiguous arrays or bytes.
        total: The sum of what comes before it.
    """
    for buffer in buffers:
        view = np.frombuffer(buffer, np.uint8)
        for start in range(0, len(view), _PART_BYTES):
            part = view[start : start + _PART_BYTES].tobytes()
            total = crc32c(part, total)
            yield part
    yield _SUM.pack(total)
