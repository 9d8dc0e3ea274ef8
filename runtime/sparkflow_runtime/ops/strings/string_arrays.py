"""String tensors as arrays of Python bytes: mapping, broadcasting, reading text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.op import Array, Op, not_differentiable


class StringOp(Op):
    """An op on strings: it runs on the host and has no gradient. One output, shaped as input 0."""

    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable
    infer = same_as(0)


def array_of(values: Iterable[Any], shape: tuple[int, ...]) -> Array:
    """A string tensor of this shape from its elements in order."""
    flat = list(values)
    result = np.empty(len(flat), np.object_)
    result[:] = flat
    return result.reshape(shape)


def flat_strings(array: Array) -> Array:
    """The elements of a string tensor in order: a contiguous vector of objects."""
    return np.ascontiguousarray(np.asarray(array, np.object_)).reshape(-1)


def strings_of(array: Array) -> list[bytes]:
    """The elements of a string tensor in order."""
    return np.asarray(array, np.object_).ravel().tolist()


def mapped(function: Callable[[bytes], Any], array: Array, dtype: Any = np.object_) -> Array:
    """`function` of every element, in the same shape."""
    results = [function(each) for each in strings_of(array)]
    if dtype is np.object_:
        return array_of(results, np.shape(array))
    return np.array(results, dtype).reshape(np.shape(array))


def scalar_text(array: Array, name: str) -> bytes:
    """The value of an input that must be one string.

    Raises:
        InvalidArgumentError: It is not of rank 0.
    """
    if type(array) is bytes:
        return array
    if np.ndim(array):
        raise InvalidArgumentError(message=f"{name} must be scalar, but received {np.shape(array)}")
    found: bytes = np.asarray(array, np.object_).item()
    return found


def text_of(data: bytes) -> str:
    """Bytes for an error message."""
    return data.decode("utf-8", "backslashreplace")


def sparse_rows(counts: Array, values: Array, columns: Array) -> tuple[Array, Array, Array]:
    """Rows of values as a sparse matrix: indices, values, shape.

    Args:
        counts: [rows] int64, the number of values of each.
        values: [n], those of all rows.
        columns: [n] int64, the column of each value.
    """
    rows = len(counts)
    indices = np.empty((len(values), 2), np.int64)
    indices[:, 0] = 0 if rows == 1 else np.repeat(np.arange(rows), counts)
    indices[:, 1] = columns
    longest = counts[0] if rows == 1 else counts.max(initial=0)
    return indices, values, np.array([rows, longest], np.int64)
