"""Features of `tf.train.Example` messages as arrays: single, sparse batches, dense batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.ops.strings.string_arrays import array_of

FEATURE_TYPES = frozenset({dtypes.float32, dtypes.int64, dtypes.string})
_KINDS = {
    "bytes_list": dtypes.string,
    "float_list": dtypes.float32,
    "int64_list": dtypes.int64,
}


def parsed(kind: Any, data: bytes, what: str) -> Any:
    """Parses a message.

    Raises:
        InvalidArgumentError: The bytes are malformed.
    """
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise malformed(what, data) from error


def malformed(what: str, data: bytes) -> InvalidArgumentError:
    """Returns the error of a message that cannot be parsed."""
    return InvalidArgumentError(
        message=f"Could not parse {what}, value: '{data[:60].decode('latin-1')}'"
    )


def mismatch(name: str, key: str, found: DType, wanted: DType) -> InvalidArgumentError:
    """Returns the error of a feature of another dtype."""
    return InvalidArgumentError(
        message=f"Name: {name}, Feature: {key}.  Data types don't match. Data type: "
        f"{found.name} but expected type: {wanted.name}"
    )


def absence(name: str, key: str, dtype: DType) -> InvalidArgumentError:
    """Returns the error of a missing feature."""
    return InvalidArgumentError(
        message=f"Name: {name}, Feature: {key} (data type: {dtype.name}) is required but "
        "could not be found."
    )


def miscount(
    name: str, key: str, dtype: DType, count: int, shape: tuple[int, ...]
) -> InvalidArgumentError:
    """Returns the error of another number of values than the shape has."""
    return InvalidArgumentError(
        message=f"Name: {name}, Key: {key}, Index: 0.  Number of {dtype.name} values != "
        f"expected.  values size: {count} but output shape: {bracketed(shape)}"
    )


def values_of(feature: Any, dtype: DType, name: str, key: str) -> Sequence[Any] | None:
    """Returns the values of a feature; None if it is missing or empty.

    Raises:
        InvalidArgumentError: It holds values of another dtype.
    """
    if feature is None:
        return None
    kind = feature.WhichOneof("kind")
    if kind is None:
        return None
    if _KINDS[kind] is not dtype:
        raise mismatch(name, key, _KINDS[kind], dtype)
    values: Sequence[Any] = getattr(feature, kind).value
    return values


def as_array(values: Sequence[Any], dtype: DType, shape: tuple[int, ...]) -> Array:
    """Reshapes values."""
    if dtype is dtypes.string:
        return array_of(values, shape)
    return np.array(values, dtype.as_numpy_dtype).reshape(shape)


def dense_feature(
    feature: Any, dtype: DType, shape: tuple[int, ...], default: Array, name: str, key: str
) -> Array:
    """Returns the values of a feature in its shape; the default if it is missing.

    Raises:
        InvalidArgumentError: It is missing without a default, or has another number of values.
    """
    values = values_of(feature, dtype, name, key)
    if values is None:
        if not np.size(default) and 0 not in shape:
            raise absence(name, key, dtype)
        return np.asarray(default, dtype.as_numpy_dtype).reshape(shape)
    if len(values) != int(np.prod(shape, dtype=int)):
        raise miscount(name, key, dtype, len(values), shape)
    return as_array(values, dtype, shape)


def sparse_batch(rows: Sequence[Sequence[Any]], dtype: DType) -> tuple[Array, Array, Array]:
    """Returns rows of values as a sparse matrix: indices, values, shape."""
    places = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = [value for row in rows for value in row]
    widest = max(map(len, rows), default=0)
    return (
        np.array(places, np.int64).reshape(-1, 2),
        as_array(values, dtype, (len(values),)),
        np.array([len(rows), widest], np.int64),
    )


def sparse_vector(values: Sequence[Any], dtype: DType) -> tuple[Array, Array, Array]:
    """Returns values as a sparse vector: indices, values, shape."""
    count = len(values)
    return (
        np.arange(count, dtype=np.int64).reshape(-1, 1),
        as_array(values, dtype, (count,)),
        np.array([count], np.int64),
    )


def feature_map(message: Any) -> Mapping[str, Any]:
    """Returns the features of a Features message by key, without creating missing ones."""
    found: Mapping[str, Any] = message.feature
    return found
