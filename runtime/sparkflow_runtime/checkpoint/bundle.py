"""File names and encodings of V2 checkpoints ("tensor bundles"), for the reader and the writer.

A checkpoint `prefix` consists of the files `prefix.index`, a table of entries, and
`prefix.data-00000-of-N`, the bytes of the tensors. Sources: files written by TensorFlow, and the
comments of tensor_bundle.proto.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sparkflow_runtime.checkpoint.sorted_table import decode_varint, encode_varint
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.events.crc32c import crc32c, masked

INDEX_SUFFIX = ".index"
HEADER_KEY = b""
BUNDLE_VERSION = 1


def index_path(prefix: str) -> str:
    """The file of entries."""
    return prefix + INDEX_SUFFIX


def data_path(prefix: str, shard: int, shards: int) -> str:
    """The file with the bytes of one shard.

    >>> data_path("model.ckpt-7", 0, 1)
    'model.ckpt-7.data-00000-of-00001'
    """
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


def encode_strings(strings: Iterable[bytes]) -> tuple[bytes, int]:
    """Returns the bytes of a string tensor and their CRC-32C.

    They are the lengths, a masked checksum of the lengths, then the strings. The checksum is over
    each length as a 32-bit number (64-bit if necessary), not over its bytes in the file.
    """
    texts = list(strings)
    lengths = b"".join(encode_varint(len(text)) for text in texts)
    crc = crc32c(_fixed(len(text) for text in texts))
    length_checksum = masked(crc).to_bytes(4, "little")
    body = b"".join(texts)
    return lengths + length_checksum + body, crc32c(body, crc32c(length_checksum, crc))


def decode_strings(data: bytes, count: int) -> tuple[np.ndarray[Any, Any], int]:
    """Decodes `encode_strings`: returns [count] objects and the CRC-32C.

    Raises:
        DataLossError: The lengths do not match the data or are damaged.
    """
    position = 0
    lengths = []
    for _ in range(count):
        length, position = decode_varint(data, position)
        lengths.append(length)
    crc = crc32c(_fixed(lengths))
    checksum = data[position : position + 4]
    if masked(crc) != int.from_bytes(checksum, "little"):
        raise DataLossError(message="The length checksum of a string tensor does not match")
    position += 4
    if position + sum(lengths) != len(data):
        raise DataLossError(
            message=f"Strings of {sum(lengths)} bytes do not match the {len(data) - position} there"
        )
    crc = crc32c(data[position:], crc32c(checksum, crc))
    result = np.empty(count, np.object_)
    for index, length in enumerate(lengths):
        result[index] = data[position : position + length]
        position += length
    return result, crc


def _fixed(lengths: Iterable[int]) -> bytes:
    return b"".join(each.to_bytes(4 if each < 1 << 32 else 8, "little") for each in lengths)
