"""Hashes of strings as ops, bit for bit those of TensorFlow; see `codegen.strings.hashing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.strings.hashing import Hash, hashed
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, list_attr, type_attr
from sparkflow_runtime.ops.strings.string_arrays import (
    StringOp,
    array_of,
    flat_strings,
    strings_of,
)
from sparkflow_runtime.shapes import Shape

_BUCKETS = {"num_buckets": int_attr(minimum=1)}


def _buckets(function: Hash, text: Array, count: int, key: Sequence[int] = (0, 0)) -> Array:
    hashes = hashed(function, flat_strings(text), key)
    number = np.uint64(count)
    hashes -= hashes // number * number  # numpy divides by a scalar much faster than it takes `%`
    return hashes.view(np.int64).reshape(np.shape(text))


@register
class StringToHashBucket(StringOp):
    """The bucket of each string by TensorFlow's older hash."""

    elementwise = True
    inputs = "string_tensor: string"
    outputs = "output: int64"
    attrs = _BUCKETS

    def compute(self, xp: Any, text: Array, *, num_buckets: int) -> Array:
        """In [0, num_buckets)."""
        return _buckets(Hash.MURMUR, text, num_buckets)


@register
class StringToHashBucketFast(StringOp):
    """The bucket of each string by farmhash."""

    elementwise = True
    inputs = "input: string"
    outputs = "output: int64"
    attrs = _BUCKETS

    def compute(self, xp: Any, text: Array, *, num_buckets: int) -> Array:
        """In [0, num_buckets)."""
        return _buckets(Hash.FARM, text, num_buckets)


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
        return _buckets(Hash.SIP, text, num_buckets, key)


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
            rows = _strings_to_hash(array.reshape(len(array), -1))
        else:
            rows = array_of((np.ascontiguousarray(row).tobytes() for row in array), (len(array),))
        return _as_bytes(hashed(Hash.FARM, rows))


def _check_method(method: Any) -> None:
    if method not in (b"farmhash64", "farmhash64"):
        text = method.decode() if isinstance(method, bytes) else method
        raise InvalidArgumentError(message=f"Unsupported method: {text}")


def _strings_to_hash(rows: Array) -> Array:
    """The hash of a row of several strings is that of their hashes."""
    count, width = rows.shape
    if width == 1:
        return flat_strings(rows)
    hashes = _as_bytes(hashed(Hash.FARM, flat_strings(rows))).reshape(count, 8 * width)
    return array_of((row.tobytes() for row in hashes), (count,))


def _as_bytes(hashes: Array) -> Array:
    return hashes.astype("<u8").view(np.uint8).reshape(-1, 8)
