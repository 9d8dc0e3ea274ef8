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
    window = _Window(stream)
    offset = 0
    origin = getattr(stream, "name", "") if origin is None else origin
    while available := window.fill(_HEADER.size):
        place = offset, origin
        if available < _HEADER.size:
            raise _damaged(place, f"the file ends {available} bytes into its header")
        length, crc = _HEADER.unpack_from(window.take(_HEADER.size))
        _check_crc(place, "length", crc, _crc_of_length(length))
        if length > max_size_bytes:
            raise _damaged(place, f"its length {length} is above the limit of {max_size_bytes}")
        data = window.take(length)
        crc_bytes = window.take(_CRC.size)
        missing = length + _CRC.size - len(data) - len(crc_bytes)
        if missing:
            raise _damaged(place, f"the file ends {missing} bytes before the end of it")
        _check_crc(place, "data", _CRC.unpack(crc_bytes)[0], masked_crc32c(data))
        yield data
        offset += _HEADER.size + length + _CRC.size


class _Window:
    """The next bytes of a stream, read in larger pieces than they are taken.

    `read1` of buffered streams returns what there is: data of a pipe are not waited for.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self._bytes = b""
        self._at = 0

    def fill(self, size: int) -> int:
        """Reads until this number of bytes is available, or to the end; returns the number."""
        available = len(self._bytes) - self._at
        if available < size:
            self._bytes = b"".join(self._more(size))
            self._at = 0
            available = len(self._bytes)
        return available

    def take(self, size: int) -> bytes:
        """Returns the next bytes; fewer at the end."""
        at, end = self._at, self._at + size
        if end <= len(self._bytes):
            self._at = end
            return self._bytes[at:end]
        if size < _READ_BYTES:
            return self.take(size) if self.fill(size) >= size else self._rest()
        data = b"".join(self._more(size, beyond=False))  # large records are copied once
        self._bytes, self._at = b"", 0
        return data

    def _rest(self) -> bytes:
        rest, self._bytes, self._at = self._bytes[self._at :], b"", 0
        return rest

    def _more(self, size: int, beyond: bool = True) -> Iterator[bytes]:
        yield self._bytes[self._at :]
        missing = size - (len(self._bytes) - self._at)
        while missing > 0:
            piece = self._read(max(missing, _READ_BYTES) if beyond else missing)
            if not piece:
                return
            yield piece
            missing -= len(piece)


@functools.lru_cache(1024)
def _crc_of_length(length: int) -> int:
    return masked_crc32c(_LENGTH.pack(length))


def _check_crc(place: tuple[int, str], part: str, stored: int, computed: int) -> None:
    if stored != computed:
        raise _damaged(
            place, f"the checksum of its {part} is {stored:#010x}, computed {computed:#010x}"
        )


def _damaged(place: tuple[int, str], reason: str) -> DataLossError:
    offset, origin = place
    of = f" of {origin}" if origin else ""
    return DataLossError(message=f"record at byte {offset}{of} is damaged: {reason}")
