"""Hashes of strings, bit for bit those of TensorFlow: farmhash, its older hash, SipHash-2-4.

Sources: Google's farmhash (`farmhashna::Hash64`, frozen as Fingerprint64), Aumasson and Bernstein's
"SipHash: a fast short-input PRF" (2012), and MurmurHash64A of Austin Appleby.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import unpack_from
from typing import Any

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, list_attr, type_attr
from sparkflow_runtime.ops.strings.string_arrays import StringOp, mapped, strings_of
from sparkflow_runtime.shapes import Shape

_MASK = (1 << 64) - 1
_K0 = 0xC3A5C85C97CB3127
_K1 = 0xB492B66FBE98F273
_K2 = 0x9AE16A3B2F90404F


def _u64(data: bytes, at: int) -> int:
    value: int = unpack_from("<Q", data, at)[0]
    return value


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value >> bits | value << (64 - bits)) & _MASK


def _mixed(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _joined(u: int, v: int, factor: int) -> int:
    a = _mixed((u ^ v) * factor)
    b = _mixed(((v ^ a) & _MASK) * factor)
    return b * factor & _MASK


def fingerprint64(data: bytes) -> int:
    """Farmhash's Fingerprint64, an unsigned 64-bit number."""
    size = len(data)
    if size <= 16:
        return _up_to_16(data, size)
    if size <= 32:
        return _up_to_32(data, size)
    if size <= 64:
        return _up_to_64(data, size)
    return _longer(data, size)


def _up_to_16(data: bytes, size: int) -> int:
    factor = _K2 + size * 2
    if size >= 8:
        a, b = _u64(data, 0) + _K2, _u64(data, size - 8)
        c = _rotated(b, 37) * factor + a
        d = (_rotated(a, 25) + b) * factor
        return _joined(c & _MASK, d & _MASK, factor)
    if size >= 4:
        first, last = unpack_from("<I", data, 0)[0], unpack_from("<I", data, size - 4)[0]
        return _joined(size + (first << 3), last, factor)
    if size:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[size - 1] << 2)
        return _mixed(y * _K2 ^ z * _K0) * _K2 & _MASK
    return _K2


def _up_to_32(data: bytes, size: int) -> int:
    factor = _K2 + size * 2
    a, b = _u64(data, 0) * _K1, _u64(data, 8)
    c, d = _u64(data, size - 8) * factor, _u64(data, size - 16) * _K2
    u = _rotated(a + b, 43) + _rotated(c, 30) + d
    return _joined(u & _MASK, a + _rotated(b + _K2, 18) + c & _MASK, factor)


def _up_to_64(data: bytes, size: int) -> int:
    factor = _K2 + size * 2
    a, b = _u64(data, 0) * _K2, _u64(data, 8)
    c, d = _u64(data, size - 8) * factor, _u64(data, size - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d & _MASK
    z = _joined(y, a + _rotated(b + _K2, 18) + c & _MASK, factor)
    e, f = _u64(data, 16) * factor, _u64(data, 24)
    g, h = (y + _u64(data, size - 32)) * factor, (z + _u64(data, size - 24)) * factor
    u = _rotated(e + f, 43) + _rotated(g, 30) + h
    return _joined(u & _MASK, e + _rotated(f + a, 18) + g & _MASK, factor)


def _weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = unpack_from("<4Q", data, at)
    a += w
    b = _rotated(b + a + z, 21)
    c = a
    a += x + y
    b += _rotated(a, 44)
    return a + z & _MASK, b + c & _MASK


def _longer(data: bytes, size: int) -> int:
    seed = 81
    y = seed * _K1 + 113 & _MASK
    z = _mixed(y * _K2 + 113) * _K2 & _MASK
    v, w = (0, 0), (0, 0)
    x = seed * _K2 + _u64(data, 0) & _MASK
    end = (size - 1) // 64 * 64
    for at in range(0, end, 64):
        x = _rotated(x + y + v[0] + _u64(data, at + 8), 37) * _K1 & _MASK
        y = _rotated(y + v[1] + _u64(data, at + 48), 42) * _K1 & _MASK
        x ^= w[1]
        y = y + v[0] + _u64(data, at + 40) & _MASK
        z = _rotated(z + w[0], 33) * _K1 & _MASK
        v = _weak(data, at, v[1] * _K1, x + w[0])
        w = _weak(data, at + 32, z + w[1], y + _u64(data, at + 16))
        z, x = x, z
    factor = _K1 + ((z & 0xFF) << 1)
    at = size - 64
    first = w[0] + (size - 1 & 63)
    v = (v[0] + first, v[1])
    w = (first + v[0], w[1])
    x = _rotated(x + y + v[0] + _u64(data, at + 8), 37) * factor & _MASK
    y = _rotated(y + v[1] + _u64(data, at + 48), 42) * factor & _MASK
    x ^= w[1] * 9 & _MASK
    y = y + v[0] * 9 + _u64(data, at + 40) & _MASK
    z = _rotated(z + w[0], 33) * factor & _MASK
    v = _weak(data, at, v[1] * factor, x + w[0])
    w = _weak(data, at + 32, z + w[1], y + _u64(data, at + 16))
    z, x = x, z
    one = _joined(v[0], w[0], factor) + _mixed(y) * _K0 + z
    return _joined(one & _MASK, _joined(v[1], w[1], factor) + x & _MASK, factor)


def murmur64(data: bytes, seed: int = 0xDECAFCAFFE) -> int:
    """TensorFlow's older Hash64, an unsigned 64-bit number."""
    factor, size = 0xC6A4A7935BD1E995, len(data)
    h = seed ^ size * factor & _MASK
    whole = size // 8 * 8
    for at in range(0, whole, 8):
        h = (h ^ _mixed(_u64(data, at) * factor) * factor & _MASK) * factor & _MASK
    if size > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * factor & _MASK
    return _mixed(_mixed(h) * factor)


def sip_hash(data: bytes, key: Sequence[int]) -> int:
    """SipHash-2-4 with a key of two 64-bit numbers."""
    k0, k1 = (each & _MASK for each in key)
    state = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]
    size = len(data)
    whole = size // 8 * 8
    last = int.from_bytes(data[whole:], "little") | (size & 0xFF) << 56
    for word in [*(_u64(data, at) for at in range(0, whole, 8)), last]:
        state[3] ^= word
        _sip_rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _sip_rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _sip_rounds(state: list[int], count: int) -> None:
    a, b, c, d = state
    for _ in range(count):
        a = a + b & _MASK
        b = _rotated(b, 51) ^ a
        a = _rotated(a, 32)
        c = c + d & _MASK
        d = _rotated(d, 48) ^ c
        a = a + d & _MASK
        d = _rotated(d, 43) ^ a
        c = c + b & _MASK
        b = _rotated(b, 47) ^ c
        c = _rotated(c, 32)
    state[:] = a, b, c, d


remembered_fingerprint64 = lru_cache(maxsize=1 << 16)(fingerprint64)
"""The same. Vocabularies repeat, and `fingerprint64` is Python."""

_BUCKETS = {"num_buckets": int_attr(minimum=1)}


def _buckets(function: Callable[[bytes], int], array: Array, count: int) -> Array:
    return mapped(lambda data: function(data) % count, array, np.int64)


@register
class StringToHashBucket(StringOp):
    """The bucket of each string by TensorFlow's older hash."""

    elementwise = True
    inputs = "string_tensor: string"
    outputs = "output: int64"
    attrs = _BUCKETS

    def compute(self, xp: Any, text: Array, *, num_buckets: int) -> Array:
        """In [0, num_buckets)."""
        return _buckets(murmur64, text, num_buckets)


@register
class StringToHashBucketFast(StringOp):
    """The bucket of each string by farmhash."""

    elementwise = True
    inputs = "input: string"
    outputs = "output: int64"
    attrs = _BUCKETS

    def compute(self, xp: Any, text: Array, *, num_buckets: int) -> Array:
        """In [0, num_buckets)."""
        return _buckets(remembered_fingerprint64, text, num_buckets)


@register
class StringToHashBucketStrong(StringOp):
    """The bucket of each string by SipHash with a key, so that collisions cannot be forced."""

    elementwise = True
    inputs = "input: string"
    outputs = "output: int64"
    attrs = {**_BUCKETS, "key": list_attr("int")}

    def compute(self, xp: Any, text: Array, *, num_buckets: int, key: Sequence[int]) -> Array:
        """In [0, num_buckets)."""
        if len(key) != 2:
            raise InvalidArgumentError(message=f"Key must have 2 elements, got {list(key)}")
        return _buckets(lambda data: sip_hash(data, key), text, num_buckets)


@register
class Fingerprint(StringOp):
    """Farmhash of each row, as 8 bytes from the lowest."""

    widens = ()  # the bits count
    inputs = "data: T, method: string"
    outputs = "fingerprint: uint8"
    attrs = {"T": type_attr()}

    def infer(self, node: Inference) -> list[Shape]:
        """[rows, 8].

        Raises:
            InvalidArgumentError: The data have no rows, or the method is not `farmhash64`.
        """
        shape, method = node.shapes[0], node.value(1)
        if shape == ():
            raise InvalidArgumentError(message="Shape must be at least rank 1 but is rank 0")
        if method is not None:
            _check_method(method.item())
        return [(None if shape is None else shape[0], 8)]

    def compute(self, xp: Any, data: Array, method: Array) -> Array:
        """Strings in rows of several are hashed one by one, and then their hashes."""
        _check_method(strings_of(method)[0])
        if not np.ndim(data):
            raise InvalidArgumentError(message="Shape must be at least rank 1 but is rank 0")
        array = np.asarray(data)
        if array.dtype == np.object_:
            rows = [_row_of_strings(row.ravel().tolist()) for row in array.reshape(len(array), -1)]
        else:
            rows = [np.ascontiguousarray(row).tobytes() for row in array]
        hashes = [fingerprint64(row).to_bytes(8, "little") for row in rows]
        return np.frombuffer(b"".join(hashes), np.uint8).reshape(len(array), 8)


def _check_method(method: Any) -> None:
    if method not in (b"farmhash64", "farmhash64"):
        text = method.decode() if isinstance(method, bytes) else method
        raise InvalidArgumentError(message=f"Unsupported method: {text}")


def _row_of_strings(row: list[bytes]) -> bytes:
    if len(row) == 1:
        return row[0]
    return b"".join(fingerprint64(each).to_bytes(8, "little") for each in row)
