"""Features of `tf.train.Example` messages as arrays: single, sparse batches, dense batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.static import bracketed

FEATURE_TYPES = frozenset({dtypes.float32, dtypes.int64, dtypes.string})


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


def feature_map(message: Any) -> Mapping[str, Any]:
    """Returns the features of a Features message by key, without creating missing ones."""
    found: Mapping[str, Any] = message.feature
    return found
