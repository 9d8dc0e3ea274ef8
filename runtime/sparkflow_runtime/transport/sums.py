"""Checksums of gRPC messages: a last field that no message of TensorFlow's has.

It is the CRC-32C of all bytes before it. TensorFlow's own tasks and clients pass over the field,
and what they send comes without. Order and repetition need nothing of ours: HTTP/2 has one stream
per call, and TCP's order.
"""

from __future__ import annotations

from typing import Final

from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.events.crc32c import crc32c

_TAG: Final = b"\xad\xf4\x0b"  # field 24389, fixed32
_BYTES: Final = len(_TAG) + 4


def with_sum(message: bytes) -> bytes:
    """A message with its checksum."""
    return b"".join((message, _TAG, crc32c(message).to_bytes(4, "little")))


def checked(message: bytes) -> bytes | memoryview:
    """The message itself: all of it, where it has no checksum, or a view without the right one.

    Raises:
        DataLossError: It was changed on its way.
    """
    end = len(message) - _BYTES
    if end >= 0 and message[end : end + len(_TAG)] == _TAG:
        content = memoryview(message)[:end]
        if crc32c(content) != int.from_bytes(message[-4:], "little"):
            raise DataLossError(
                message="A message was corrupted in transit: its checksum does not match"
            )
        return content
    return message
