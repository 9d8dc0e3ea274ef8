"""Protobuf's wire format for whole columns at once: varints and the headers of payloads."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sparkflow_runtime.errors import DataLossError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
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


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    """Returns the number at `start`, and the offset of its end.

    Raises:
        DataLossError: The data end inside it, or it is longer than any number.
    """
    value = 0
    for at in range(start, min(len(data), start + LONGEST_VARINT)):
        byte = data[at]
        value |= (byte & 0x7F) << _BITS * (at - start)
        if byte < _MORE:
            return value, at + 1
    raise DataLossError(message="a number in it is not terminated")


def decode_varints(data: bytes) -> tuple[Int64s, Int64s]:
    """Decodes all numbers of `data`, which must contain nothing else.

    Returns:
        [n] int64 values, and [n] int64: the offset of each one's end in `data`.

    Raises:
        DataLossError: The data end inside a number, or one is longer than any number.
    """
    octets = np.frombuffer(data, np.uint8)
    if not octets.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    last = np.flatnonzero(octets < _MORE)
    if not last.size or last[-1] != octets.size - 1:
        raise DataLossError(message="a list of integers ends inside a number")
    if last.size == octets.size:  # all numbers are below 128
        return octets.astype(np.int64), last + 1
    starts = np.concatenate(([0], last[:-1] + 1))
    lengths = last - starts + 1
    if lengths.max() > LONGEST_VARINT:
        raise DataLossError(message="a number in a list of integers is not terminated")
    place = np.arange(octets.size) - np.repeat(starts, lengths)
    shifted = (octets & 0x7F).astype(np.uint64) << (place * _BITS).astype(np.uint64)
    return np.bitwise_or.reduceat(shifted, starts).view(np.int64), last + 1


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
