"""Immutable files of sorted (key, value) pairs, in LevelDB's table format as TensorFlow writes it.

Format: blocks of pairs whose keys omit the prefix they share with the previous key; after each
block a byte for its compression and a masked CRC-32C; an index block that maps the last key of each
block to its handle; a footer of 48 bytes. Source: LevelDB, doc/table_format.md. TensorFlow
compresses no block of a checkpoint's index, and neither do we.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from sparkflow_runtime.errors import DataLossError, UnimplementedError
from sparkflow_runtime.events.crc32c import masked_crc32c

_MAGIC: Final = 0xDB4775248B80FB57
_FOOTER_BYTES: Final = 48
_TRAILER_BYTES: Final = 5
_BLOCK_BYTES: Final = 256 * 1024
_RESTART_INTERVAL: Final = 16
_NOT_COMPRESSED: Final = 0
_MOST_VARINT_BYTES: Final = 10


def encode_varint(value: int) -> bytes:
    """Encodes an unsigned number in groups of seven bits, the lowest first.

    >>> encode_varint(300).hex()
    'ac02'
    """
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns the number at `position`, and the position after it.

    Raises:
        DataLossError: It extends beyond the data.
    """
    value = 0
    for count, byte in enumerate(data[position : position + _MOST_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, position + count + 1
    raise DataLossError(message=f"The number at byte {position} is not terminated")


def encode_table(pairs: Mapping[bytes, bytes]) -> bytes:
    """Returns the bytes of a table with these pairs."""
    data = bytearray()
    index = _BlockBuilder(restart_interval=1)
    block = _BlockBuilder(_RESTART_INTERVAL)
    last = b""
    for key in sorted(pairs):
        block.add(key, pairs[key])
        last = key
        if block.size >= _BLOCK_BYTES:
            index.add(last, _append_block(data, block))
            block = _BlockBuilder(_RESTART_INTERVAL)
    if block.size:
        index.add(last, _append_block(data, block))
    meta_handle = _append_block(data, _BlockBuilder(1))
    index_handle = _append_block(data, index)
    footer = (meta_handle + index_handle).ljust(_FOOTER_BYTES - 8, b"\0")
    return bytes(data) + footer + _MAGIC.to_bytes(8, "little")


class _BlockBuilder:
    """Collects pairs in key order."""

    def __init__(self, restart_interval: int) -> None:
        self._interval = restart_interval
        self._data = bytearray()
        self._restarts = [0]
        self._count = 0
        self._last = b""

    @property
    def size(self) -> int:
        return len(self._data)

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._count == self._interval:
            self._restarts.append(len(self._data))
            self._count = 0
        else:
            limit = min(len(key), len(self._last))
            while shared < limit and key[shared] == self._last[shared]:
                shared += 1
        for number in (shared, len(key) - shared, len(value)):
            self._data += encode_varint(number)
        self._data += key[shared:]
        self._data += value
        self._last = key
        self._count += 1

    def finish(self) -> bytes:
        tail = [*self._restarts, len(self._restarts)]
        return bytes(self._data) + b"".join(each.to_bytes(4, "little") for each in tail)


def _append_block(data: bytearray, block: _BlockBuilder) -> bytes:
    """Appends the block; returns its handle: offset and size."""
    content = block.finish() + bytes([_NOT_COMPRESSED])
    handle = encode_varint(len(data)) + encode_varint(len(content) - 1)
    data += content
    data += masked_crc32c(content).to_bytes(4, "little")
    return handle


class TableReader:
    """Looks up keys of a table file. Safe to use from several threads.

    The whole file is read: the index of a checkpoint has some hundred bytes per tensor.

    Args:
        path: The file.

    Raises:
        DataLossError: It is not a table, or is truncated.
        OSError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data = path.read_bytes()
        if len(self._data) < _FOOTER_BYTES:
            raise DataLossError(message=f"{path} is too short to be a table (an sstable)")
        footer = self._data[-_FOOTER_BYTES:]
        if int.from_bytes(footer[-8:], "little") != _MAGIC:
            raise DataLossError(message=f"{path} is not a table: not an sstable (bad magic number)")
        _, position = decode_varint(footer, 0)
        _, position = decode_varint(footer, position)
        offset, position = decode_varint(footer, position)
        size, _ = decode_varint(footer, position)
        index = dict(self._block(offset, size))
        self._last_keys = list(index)
        self._handles = list(index.values())
        self._blocks: dict[int, dict[bytes, bytes]] = {}

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None if it is missing."""
        place = bisect_left(self._last_keys, key)
        return None if place == len(self._handles) else self._pairs(place).get(key)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        """Every pair, sorted by key."""
        for place in range(len(self._handles)):
            yield from self._pairs(place).items()

    def _pairs(self, place: int) -> dict[bytes, bytes]:
        found = self._blocks.get(place)
        if found is None:
            offset, position = decode_varint(self._handles[place], 0)
            size, _ = decode_varint(self._handles[place], position)
            found = self._blocks[place] = dict(self._block(offset, size))
        return found

    def _block(self, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
        end = offset + size
        if end + _TRAILER_BYTES > len(self._data):
            raise DataLossError(message=f"{self._path} is truncated: block beyond its end")
        stored = int.from_bytes(self._data[end + 1 : end + _TRAILER_BYTES], "little")
        if stored != masked_crc32c(self._data[offset : end + 1]):
            raise DataLossError(message=f"{self._path} is damaged: block checksum mismatch")
        if self._data[end] != _NOT_COMPRESSED:
            raise UnimplementedError(
                message=f"{self._path} has compressed blocks (type {self._data[end]}); TensorFlow "
                "compresses none in checkpoints that sparkflow reads"
            )
        block = self._data[offset:end]
        restarts = int.from_bytes(block[-4:], "little")
        limit = len(block) - 4 * (restarts + 1)
        if limit < 0:
            raise DataLossError(message=f"{self._path} is damaged: {restarts} restarts in a block")
        return self._entries(block, limit)

    def _entries(self, block: bytes, limit: int) -> Iterator[tuple[bytes, bytes]]:
        position, key = 0, b""
        while position < limit:
            shared, position = decode_varint(block, position)
            fresh, position = decode_varint(block, position)
            length, position = decode_varint(block, position)
            end = position + fresh + length
            if shared > len(key) or end > limit:
                raise DataLossError(message=f"{self._path} is damaged: an entry beyond its block")
            key = key[:shared] + block[position : position + fresh]
            yield key, block[position + fresh : end]
            position = end
