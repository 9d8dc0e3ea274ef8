"""Encodes RecvTensorResponse without converting tensors: protobuf framing around raw array bytes.

The bytes are the same as protobuf's (TensorFlow's field numbers, ours from 1000), but a tensor's
content is copied once, from the array into the message, and read back as a view of the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.protos.tensor_pb2 import TensorProto
from sparkflow_runtime.protos.tensor_shape_pb2 import TensorShapeProto
from sparkflow_runtime.tensor_proto import (
    concrete_shape,
    dtype_of,
    export_shape,
    export_tensor,
    from_bytes,
    import_tensor,
)

_LENGTH_DELIMITED: Final = 2
_TENSOR: Final = 1
_IS_DEAD: Final = 2
_MORE_TENSORS: Final = 1000
_DTYPE: Final = 1
_SHAPE: Final = 2
_CONTENT: Final = 4
MAX_BUNDLE: Final = 1 << 16
"""Maximum number of tensors in one message."""
MAX_SHAPE_BYTES: Final = 4096
"""Maximum encoded size of a shape: many times what 32 dimensions need."""

DEAD: Final = bytes([_IS_DEAD << 3, 1])
"""The message that says that the sender's loop has ended and no value follows."""


def encode(tensors: Sequence[Any]) -> bytes:
    """Encodes arrays as a RecvTensorResponse: the first as `tensor`, the rest in our field."""
    pieces: list[Any] = []
    for index, value in enumerate(tensors):
        array = np.asarray(value)
        tag = _tag(_TENSOR if index == 0 else _MORE_TENSORS)
        if array.dtype.hasobject:
            body = export_tensor(array).SerializeToString()
            pieces += (tag, _varint(len(body)), body)
            continue
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        prefix = _prefix(array.dtype, array.shape)
        size = array.nbytes
        content = _varint(size)
        pieces += (tag, _varint(len(prefix) + 1 + len(content) + size), prefix)
        pieces += (_CONTENT_TAG, content)
        if size:
            pieces.append(array.reshape(-1).view(np.uint8).data)
    return b"".join(pieces)


def decode(message: bytes | memoryview) -> tuple[Any, ...] | None:
    """Returns the tensors of a RecvTensorResponse as read-only views; None for a dead one.

    Raises:
        InvalidArgumentError: The bytes are not such a message, or contain wrong sizes.
    """
    try:
        return _decode(memoryview(message))
    except DecodeError as error:
        raise InvalidArgumentError(message=f"A malformed RecvTensorResponse: {error}") from error


def _decode(message: memoryview) -> tuple[Any, ...] | None:
    tensors: list[Any] = []
    for field, value in _fields(message):
        if field == _IS_DEAD and value == 1:
            return None
        if field in (_TENSOR, _MORE_TENSORS):
            if not isinstance(value, memoryview) or len(tensors) == MAX_BUNDLE:
                raise InvalidArgumentError(message="A malformed RecvTensorResponse")
            tensors.append(_decode_tensor(value))
    return tuple(tensors)


def _decode_tensor(body: memoryview) -> Any:
    number, shape_bytes, content = 0, memoryview(b""), memoryview(b"")
    for field, value in _fields(body):
        if field == _DTYPE and isinstance(value, int):
            number = value
        elif field == _SHAPE and isinstance(value, memoryview):
            shape_bytes = value
        elif field == _CONTENT and isinstance(value, memoryview):
            content = value
        else:
            # Values in typed fields, strings, foreign senders: left to protobuf.
            return import_tensor(TensorProto.FromString(bytes(body)))
    if number == dtypes.string.number and not content:
        return import_tensor(TensorProto.FromString(bytes(body)))  # an empty tensor of strings
    if len(shape_bytes) > MAX_SHAPE_BYTES:
        raise InvalidArgumentError(
            message=f"A shape of {len(shape_bytes)} bytes, more than {MAX_SHAPE_BYTES}"
        )
    return from_bytes(content, *_layout(number, bytes(shape_bytes)))


@lru_cache(maxsize=4096)
def _layout(number: int, shape_bytes: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    try:
        dtype = dtypes.as_dtype(number)
    except TypeError as error:
        raise InvalidArgumentError(message=f"A tensor of unknown dtype {number}") from error
    if dtype not in dtypes.PLAIN:
        raise InvalidArgumentError(message=f"A tensor of dtype {dtype.name} has no raw bytes")
    shape = concrete_shape(TensorShapeProto.FromString(shape_bytes), dtype)
    return np.dtype(dtype.as_numpy_dtype), shape


@lru_cache(maxsize=4096)
def _prefix(numpy_dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Returns the dtype and shape fields of a TensorProto."""
    dtype = dtype_of(np.empty(0, numpy_dtype))
    body = export_shape(shape).SerializeToString()
    number = bytes([_DTYPE << 3]) + _varint(dtype.number)
    return number + bytes([_SHAPE << 3 | _LENGTH_DELIMITED]) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes([value])
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tag(field: int) -> bytes:
    return _varint(field << 3 | _LENGTH_DELIMITED)


_CONTENT_TAG = bytes([_CONTENT << 3 | _LENGTH_DELIMITED])


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yields the numbers and values of a protobuf message's fields, without copies."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        kind = tag & 7
        if kind == 0:
            value, position = _read_varint(message, position)
            yield tag >> 3, value
            continue
        if kind == _LENGTH_DELIMITED:
            size, position = _read_varint(message, position)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise InvalidArgumentError(message=f"A malformed message: wire type {kind}")
        end = position + size
        if end > len(message):
            raise InvalidArgumentError(
                message=f"A truncated message: {size} bytes announced, "
                f"{len(message) - position} there"
            )
        yield tag >> 3, message[position:end]
        position = end


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    """Reads a varint; returns it and the position after it."""
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise InvalidArgumentError(message="A malformed message: bad varint")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
