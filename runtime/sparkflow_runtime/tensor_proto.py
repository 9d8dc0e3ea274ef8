"""TensorProto to and from numpy arrays, with the checks that bytes from outside need."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.protos.tensor_pb2 import TensorProto
from sparkflow_runtime.protos.tensor_shape_pb2 import TensorShapeProto
from sparkflow_runtime.shapes import Shape

MAX_RANK: Final = 32
"""numpy 1's limit; far above any real tensor."""
MAX_TENSOR_BYTES: Final = 1 << 34
"""No tensor of a message may claim more than 16 GiB."""
MAX_FILLED_BYTES: Final = 1 << 30
"""No tensor given by fewer values than it holds may be larger than 1 GiB, or a message of a few
bytes could fill the memory."""

_VALUE_FIELDS: dict[DType, str] = {
    dtypes.float32: "float_val",
    dtypes.float64: "double_val",
    dtypes.int32: "int_val",
    dtypes.uint8: "int_val",
    dtypes.int16: "int_val",
    dtypes.int8: "int_val",
    dtypes.uint16: "int_val",
    dtypes.int64: "int64_val",
    dtypes.bool_: "bool_val",
    dtypes.uint32: "uint32_val",
    dtypes.uint64: "uint64_val",
    dtypes.string: "string_val",
}


def export_shape(shape: Shape) -> TensorShapeProto:
    """A shape as TensorShapeProto; unknown sizes are -1."""
    if shape is None:
        return TensorShapeProto(unknown_rank=True)
    return TensorShapeProto(
        dim=[TensorShapeProto.Dim(size=-1 if dim is None else dim) for dim in shape]
    )


def import_shape(proto: TensorShapeProto) -> Shape:
    """A TensorShapeProto as a shape.

    Raises:
        InvalidArgumentError: A size below -1, or more than `MAX_RANK` dimensions.
    """
    if proto.unknown_rank:
        return None
    if len(proto.dim) > MAX_RANK:
        raise InvalidArgumentError(message=f"A shape of rank {len(proto.dim)} > {MAX_RANK}")
    sizes = [dim.size for dim in proto.dim]
    if any(size < -1 for size in sizes):
        raise InvalidArgumentError(message=f"A shape with negative sizes: {sizes}")
    return tuple(None if size == -1 else size for size in sizes)


def dtype_of(array: Any) -> DType:
    """The element type of an array or numpy scalar."""
    return dtypes.as_dtype(array.dtype)


def export_tensor(value: Any) -> TensorProto:
    """An array as TensorProto: raw bytes in `tensor_content`, texts in `string_val`.

    Raises:
        InvalidArgumentError: An array of objects holds something that is no text.
        TypeError: The array has a type that no tensor has.
    """
    array = np.asarray(value)
    dtype = dtype_of(array)
    proto = TensorProto(dtype=dtype.number, tensor_shape=export_shape(array.shape))  # type: ignore[arg-type]  # the enum's numbers are ints
    if dtype is dtypes.string:
        proto.string_val.extend(_as_bytes(item) for item in array.reshape(-1))
    else:
        proto.tensor_content = np.ascontiguousarray(array).tobytes()
    return proto


def export_constant(value: Any) -> TensorProto:
    """The same for what people read: a single number is in the field of its type."""
    proto = export_tensor(value)
    array = np.asarray(value)
    field = _VALUE_FIELDS.get(dtype_of(array))
    if array.size == 1 and field is not None and not proto.string_val:
        proto.ClearField("tensor_content")
        getattr(proto, field).append(array.item())
    return proto


def import_tensor(proto: TensorProto) -> np.ndarray[Any, Any]:
    """A TensorProto as an array; a read-only view of its bytes where it carries raw bytes.

    Raises:
        InvalidArgumentError: An unknown dtype, an incomplete shape, a size that does not match the
            bytes, more than `MAX_TENSOR_BYTES`.
    """
    try:
        dtype = dtypes.as_dtype(int(proto.dtype))
    except TypeError as error:
        raise InvalidArgumentError(message=f"A tensor of unknown dtype {proto.dtype}") from error
    if dtype.is_ref or dtype not in dtypes.ALL:
        raise InvalidArgumentError(message=f"A tensor of dtype {dtype.name} cannot be read")
    shape = concrete_shape(proto.tensor_shape, dtype)
    if dtype is dtypes.string:
        return _import_strings(proto, shape)
    numpy_dtype = np.dtype(dtype.as_numpy_dtype)
    count = math.prod(shape)
    if proto.tensor_content or count == 0:
        return from_bytes(proto.tensor_content, numpy_dtype, shape)
    try:
        return _import_values(proto, dtype, numpy_dtype, shape, count)
    except (ValueError, OverflowError) as error:  # e.g. half a complex number
        raise InvalidArgumentError(
            message=f"The values of a tensor of {dtype.name} {shape} cannot be read: {error}"
        ) from error


def from_bytes(
    content: Any, numpy_dtype: np.dtype[Any], shape: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """A read-only view of raw bytes.

    Raises:
        InvalidArgumentError: Their number is not what dtype and shape ask for.
    """
    expected = math.prod(shape) * numpy_dtype.itemsize
    if len(content) != expected:
        raise InvalidArgumentError(
            message=f"A tensor of {numpy_dtype} {shape} needs {expected} bytes, "
            f"the message carries {len(content)}"
        )
    try:
        return np.frombuffer(content, numpy_dtype).reshape(shape)
    except ValueError as error:  # e.g. (0, 2**62, 2**62), which numpy refuses
        raise InvalidArgumentError(
            message=f"A tensor of {numpy_dtype} {shape} cannot be made: {error}"
        ) from error


def concrete_shape(proto: TensorShapeProto, dtype: DType) -> tuple[int, ...]:
    """The complete shape of a tensor that arrived, its size checked against the limit.

    Raises:
        InvalidArgumentError: The shape is incomplete or too large.
    """
    shape = import_shape(proto)
    if shape is None or None in shape:
        raise InvalidArgumentError(message="A tensor value must have a complete shape")
    sizes = tuple(int(dim) for dim in shape if dim is not None)
    if math.prod(sizes) * dtype.size > MAX_TENSOR_BYTES:
        raise InvalidArgumentError(
            message=f"A tensor of {dtype.name} {sizes} is larger than {MAX_TENSOR_BYTES} bytes"
        )
    return sizes


def _import_values(
    proto: TensorProto,
    dtype: DType,
    numpy_dtype: np.dtype[Any],
    shape: tuple[int, ...],
    count: int,
) -> np.ndarray[Any, Any]:
    if dtype in (dtypes.complex64, dtypes.complex128):
        parts = proto.scomplex_val if dtype is dtypes.complex64 else proto.dcomplex_val
        values = np.asarray(parts, np.float64).view(np.complex128).astype(numpy_dtype)
    elif dtype in (dtypes.float16, dtypes.bfloat16):
        values = np.asarray(proto.half_val, np.uint16).view(dtype.as_numpy_dtype)
    elif dtype.is_quantized:
        values = np.asarray(proto.int_val, numpy_dtype[0]).view(numpy_dtype)
    else:
        values = np.asarray(getattr(proto, _VALUE_FIELDS[dtype])).astype(numpy_dtype)
    if len(values) > count:
        raise InvalidArgumentError(
            message=f"A tensor of shape {shape} holds {count} values, not {len(values)}"
        )
    if len(values) == count:
        return values.reshape(shape)
    _require_fillable(dtype, shape)
    # TensorFlow's compression: the last value stands for all that follow, zero when there is none.
    last = values[-1] if len(values) else np.zeros((), numpy_dtype)
    full = np.full(count, last, numpy_dtype)
    full[: len(values)] = values
    return full.reshape(shape)


def _import_strings(proto: TensorProto, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    count = math.prod(shape)
    given = (
        _split_texts(proto.tensor_content, count)
        if proto.tensor_content
        else list(proto.string_val)
    )
    if len(given) > count or (len(given) < count and len(given) != 1):
        raise InvalidArgumentError(
            message=f"A string tensor of shape {shape} holds {count} values, not {len(given)}"
        )
    if len(given) < count:
        _require_fillable(dtypes.string, shape)
        return np.full(shape, given[0], np.object_)
    array = np.empty(count, np.object_)
    array[:] = given
    return array.reshape(shape)


def _split_texts(content: bytes, count: int) -> list[bytes]:
    """Texts as TensorFlow's C API packs them: their lengths as varints, then their bytes."""
    sizes: list[int] = []
    position = size = shift = 0
    while len(sizes) < count:
        if position == len(content) or shift > 28:
            raise InvalidArgumentError(
                message=f"A string tensor lacks the lengths of its {count} texts"
            )
        byte = content[position]
        position += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            sizes.append(size)
            size = shift = 0
    if position + sum(sizes) != len(content):
        raise InvalidArgumentError(
            message=f"A string tensor announces {sum(sizes)} bytes, the message carries "
            f"{len(content) - position}"
        )
    texts = []
    for size in sizes:
        texts.append(content[position : position + size])
        position += size
    return texts


def _require_fillable(dtype: DType, shape: tuple[int, ...]) -> None:
    size = np.dtype(dtype.as_numpy_dtype).itemsize
    if math.prod(shape) * size > MAX_FILLED_BYTES:
        raise InvalidArgumentError(
            message=f"A tensor of {dtype.name} {shape} is given by fewer values than it holds and "
            f"is larger than {MAX_FILLED_BYTES} bytes"
        )


def _as_bytes(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, bytes | bytearray):
        return bytes(item)
    raise InvalidArgumentError(
        message=f"A string tensor holds {str(item)[:80]!r} of type {type(item).__name__}; only str "
        "and bytes are texts"
    )
