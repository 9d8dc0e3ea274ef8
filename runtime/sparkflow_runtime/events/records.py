"""The framing of TFRecord files: length, its checksum, data, its checksum.

All numbers are little-endian: uint64 length, uint32 masked CRC-32C of the length's eight bytes, the
data, uint32 masked CRC-32C of the data. This module does not interpret the data. To read compressed
TFRecord files, open them with gzip or zlib and pass the stream.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

from sparkflow_runtime.errors import DataLossError, InvalidArgumentError
from sparkflow_runtime.events.crc32c import masked_crc32c

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HEADER_SIZE_BYTES = _LENGTH.size + _CRC.size

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
      stream: a binary stream whose read(n) returns fewer than n bytes only at the end, as those of
        `open(path, "rb")` and `io.BytesIO` do. It stays open.
      max_size_bytes: a longer record is treated as a damaged file.
      origin: the file, for errors; None for the stream's own description.

    Raises:
      DataLossError: a checksum does not match, a record is longer than max_size_bytes, or the
        stream ends inside a record, as it does while a writer is appending one. The records before
        it have been yielded.
    """
    offset = 0
    origin = getattr(stream, "name", "") if origin is None else origin
    while header := stream.read(_HEADER_SIZE_BYTES):
        place = offset, origin
        if len(header) < _HEADER_SIZE_BYTES:
            raise _damaged(place, f"the file ends {len(header)} bytes into its header")
        length_bytes, crc_bytes = header[: _LENGTH.size], header[_LENGTH.size :]
        _check_crc(place, "length", length_bytes, crc_bytes)
        (length,) = _LENGTH.unpack(length_bytes)
        if length > max_size_bytes:
            raise _damaged(place, f"its length {length} is above the limit of {max_size_bytes}")
        data = stream.read(length)
        crc_bytes = stream.read(_CRC.size)
        missing = length + _CRC.size - len(data) - len(crc_bytes)
        if missing:
            raise _damaged(place, f"the file ends {missing} bytes before the end of it")
        _check_crc(place, "data", data, crc_bytes)
        yield data
        offset += _HEADER_SIZE_BYTES + length + _CRC.size


def _check_crc(place: tuple[int, str], part: str, data: bytes, crc_bytes: bytes) -> None:
    (stored,) = _CRC.unpack(crc_bytes)
    computed = masked_crc32c(data)
    if stored != computed:
        raise _damaged(
            place, f"the checksum of its {part} is {stored:#010x}, computed {computed:#010x}"
        )


def _damaged(place: tuple[int, str], reason: str) -> DataLossError:
    offset, origin = place
    of = f" of {origin}" if origin else ""
    return DataLossError(message=f"record at byte {offset}{of} is damaged: {reason}")
