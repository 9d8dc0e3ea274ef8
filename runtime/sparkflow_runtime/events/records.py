"""The framing of TFRecord files: length, its checksum, data, its checksum.

All numbers are little-endian: uint64 length, uint32 masked CRC-32C of the length's eight bytes, the
data, uint32 masked CRC-32C of the data. This module does not interpret the data. To read compressed
TFRecord files, open them with gzip or zlib and pass the stream.
"""

import functools
import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO

from sparkflow_runtime.errors import DataLossError, InvalidArgumentError
from sparkflow_runtime.events.crc32c import masked_crc32c

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HEADER = struct.Struct("<QI")
_READ_BYTES = 1 << 16

# Longer records are rejected before memory is allocated for them.
MAX_RECORD_SIZE_BYTES = 1 << 30


def frame_record(data: bytes) -> bytes:
    """Returns data as one record, ready to be appended to a TFRecord file.

    Raises:
      InvalidArgumentError: data is longer than MAX_RECORD_SIZE_BYTES, which no reader would accept.
    """
    if len(data) > MAX_RECORD_SIZE_BYTES:
        raise InvalidArgumentError(
            message=f"a record of {len(data)} bytes is longer than the limit of "
            f"{MAX_RECORD_SIZE_BYTES} bytes; split it"
        )
    length = _LENGTH.pack(len(data))
    return b"".join(
        (length, _CRC.pack(masked_crc32c(length)), data, _CRC.pack(masked_crc32c(data)))
    )


def read_records(
    stream: BinaryIO,
    *,
    max_size_bytes: int = MAX_RECORD_SIZE_BYTES,
    origin: str | None = None,
) -> Iterator[bytes]:
    """Yields the data of each record from the stream's position to its end.

    Args:
      stream: a binary stream whose read(n) returns nothing only at the end, as those of
        `open(path, "rb")` and `io.BytesIO` do. It is read ahead of the records, and stays open.
      max_size_bytes: a longer record is treated as a damaged file.
      origin: the file, for errors; None for the stream's own description.

    Raises:
      DataLossError: a checksum does not match, a record is longer than max_size_bytes, or the
        stream ends inside a record, as it does while a writer is appending one. The records before
        it have been yielded.
    """
    # `read1` of buffered streams returns what there is: data of a pipe are not waited for.
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    origin = getattr(stream, "name", "") if origin is None else origin
    window, at, offset = b"", 0, 0
    while True:
        start = at + _HEADER.size
        if start > len(window):
            window, at, start = b"".join(_more(read, window[at:], _HEADER.size)), 0, _HEADER.size
            if not window:
                return
            if len(window) < start:
                reason = f"the file ends {len(window)} bytes into its header"
                raise _damaged(offset, origin, reason)
        length, crc = _HEADER.unpack_from(window, at)
        if crc != _crc_of_length(length):
            raise _damaged(offset, origin, _mismatch("length", crc, _crc_of_length(length)))
        if length > max_size_bytes:
            reason = f"its length {length} is above the limit of {max_size_bytes}"
            raise _damaged(offset, origin, reason)
        end = start + length
        if end + _CRC.size <= len(window):
            data = window[start:end]
        else:  # large records are copied once
            found = b"".join(_more(read, window[start:], length, length < _READ_BYTES))
            data, end = found[:length], 0
            window = b"".join(_more(read, found[length:], _CRC.size))
            missing = length - len(data) + _CRC.size - len(window)
            if missing > 0:
                reason = f"the file ends {missing} bytes before the end of it"
                raise _damaged(offset, origin, reason)
        at = end + _CRC.size
        (crc,) = _CRC.unpack_from(window, end)
        computed = masked_crc32c(data)
        if crc != computed:
            raise _damaged(offset, origin, _mismatch("data", crc, computed))
        yield data
        offset += _HEADER.size + length + _CRC.size


def _more(
    read: Callable[[int], bytes], have: bytes, size: int, beyond: bool = True
) -> Iterator[bytes]:
    """Yields pieces of `size` bytes or more, fewer at the end: what there is, then what is read."""
    yield have
    missing = size - len(have)
    while missing > 0:
        piece = read(max(missing, _READ_BYTES) if beyond else missing)
        if not piece:
            return
        yield piece
        missing -= len(piece)


@functools.lru_cache(1024)
def _crc_of_length(length: int) -> int:
    return masked_crc32c(_LENGTH.pack(length))


def _mismatch(part: str, stored: int, computed: int) -> str:
    return f"the checksum of its {part} is {stored:#010x}, computed {computed:#010x}"


def _damaged(offset: int, origin: str, reason: str) -> DataLossError:
    of = f" of {origin}" if origin else ""
    return DataLossError(message=f"record at byte {offset}{of} is damaged: {reason}")
