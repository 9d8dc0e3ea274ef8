"""Writing varints of protobuf's wire format, for whole columns at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Int64s = np.ndarray[Any, np.dtype[np.int64]]

LONGEST_VARINT: Final = 10
_MORE: Final = 0x80
_BITS: Final = 7


def encode_varint(value: int) -> bytes:
    """Encodes one non-negative number."""
    found = bytearray()
    while value >= _MORE:
        found.append(value & 0x7F | _MORE)
        value >>= _BITS
    found.append(value)
    return bytes(found)


def encode_varints(values: Int64s) -> tuple[bytes, Int64s]:
    """Encodes numbers one after another, negative ones in ten bytes as in protobuf.

    Args:
        values: [n] int64.

    Returns:
        The data, and [n] int64: the size of each number in bytes.
    """
    unsigned = np.ascontiguousarray(values, np.int64).view(np.uint64)
    lengths = np.ones(unsigned.size, np.int64)
    for count in range(1, LONGEST_VARINT):
        lengths += unsigned >= np.uint64(1 << _BITS * count)
    starts = np.cumsum(lengths) - lengths
    data = np.empty(int(lengths.sum()), np.uint8)
    for place in range(int(lengths.max(initial=0))):
        here = np.flatnonzero(lengths > place)
        bits = (unsigned[here] >> np.uint64(_BITS * place)).astype(np.uint8) & 0x7F
        more = (lengths[here] > place + 1).astype(np.uint8) * _MORE
        data[starts[here] + place] = bits | more
    return data.tobytes(), lengths
