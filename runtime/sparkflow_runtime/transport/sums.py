"""Checksums of gRPC messages: a last field that no TensorFlow message has.

It is the CRC-32C of all bytes before it. TensorFlow's own tasks and clients ignore the field, and
their messages lack it. Order and repetition need no check here: HTTP/2 has one stream per call,
and TCP keeps the order.
"""

from __future__ import annotations

from typing import Final

from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.events.crc32c import crc32c

_TAG: Final = b"\xad\xf4\x0b"  # field 24389, fixed32
_BYTES: Final = len(_TAG) + 4


def with_sum(message: bytes) -> bytes:
    """Returns a message with its checksum appended."""
    return b"".join((message, _TAG, crc32c(message).to_bytes(4, "little")))


def checked(message: bytes) -> bytes | memoryview:
    """Returns the message without its checksum, as a view; all of it if it has none.

    Raises:
        DataLossError: It was changed in transit.
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
