"""Python values as arrays, with TensorFlow's default dtypes.

A Python float becomes float32 and a Python int int32 (int64 where it does not fit); a numpy array
keeps its dtype, as does what stands for one, such as a column of pandas. A dtype that is asked for
must be able to hold the value as it is.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType

Array = np.ndarray[Any, np.dtype[Any]]

_ACCEPTED_KINDS = {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc", "V": "biuf"}
"""Kinds of Python values that each kind of numpy dtype takes without loss of meaning; V is bfloat16
and the quantised types."""

_MANY_STRINGS: Final = 32
"""From here on, machine code converts them."""


def constant_array(value: Any, dtype: DType | None = None) -> Array:
    """`value` as an array of `dtype`, or of the dtype TensorFlow would choose.

    Raises:
        ValueError: `value` is None, or a ragged list.
        TypeError: Python values of another kind than `dtype`, or not values at all.
    """
    if value is None:
        raise ValueError("None values not supported.")
    dtype = None if dtype is None else dtype.base
    if isinstance(value, np.ndarray | np.generic) or _stands_for_array(value):
        array: Array = np.asarray(value)
        if array.dtype.kind == "O" and dtype not in (None, dtypes.string):
            return constant_array(array.tolist(), dtype)
        if array.dtype.kind in "OSU":
            return _strings(value, array, dtype)
        if dtype is dtypes.string and array.size:
            raise _unexpected(value, dtype)
        wanted = dtypes.as_dtype(array.dtype) if dtype is None else dtype
        # A copy: the caller may change the array later, but a constant stays as it was made.
        return array.astype(wanted.as_numpy_dtype)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"Cannot make a tensor of {value!r}: the lists differ in length"
        ) from error
    if array.dtype.kind in "SU":
        array = np.asarray(value, np.object_)  # numpy's own texts lose zero bytes at their end
    if array.dtype.kind == "O":
        return _strings(value, array, dtype)
    if dtype is None:
        return _preferred(array)
    if dtype is dtypes.string and not array.size:
        return np.empty(array.shape, np.object_)
    if dtype is dtypes.string or (
        array.size and array.dtype.kind not in _ACCEPTED_KINDS[np.dtype(dtype.as_numpy_dtype).kind]
    ):
        raise _unexpected(value, dtype)
    if dtype.is_integer and array.size:
        low, high = array.min(), array.max()
        if low < dtype.min or high > dtype.max:
            bad = low if low < dtype.min else high
            raise ValueError(f"Value {bad} is out of range for {dtype.name}")
    return array.astype(dtype.as_numpy_dtype, copy=False)


def _stands_for_array(value: Any) -> bool:
    """Whether it has numpy's protocol, as columns of pandas and images of PIL do."""
    kind = type(value)
    return hasattr(kind, "__array__") or hasattr(kind, "__array_interface__")


def _preferred(array: Array) -> Array:
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.int64:
        narrow = array.astype(np.int32)
        return narrow if np.array_equal(narrow, array) else array
    return array


def _strings(value: Any, array: Array, dtype: DType | None) -> Array:
    if dtype is not None and dtype is not dtypes.string:
        raise _unexpected(value, dtype)

    def encoded(item: object) -> bytes:
        if isinstance(item, str):
            return item.encode()
        if not isinstance(item, bytes):
            raise TypeError(
                f"Failed to convert object of type {type(value).__name__} to Tensor. Contents: "
                f"{value!r}. Consider casting elements to a supported type: {item!r} is of type "
                f"{type(item).__name__!r}, and strings consist of str or bytes."
            )
        return bytes(item)

    flat = np.ascontiguousarray(array, np.object_).reshape(-1)
    if flat.size >= _MANY_STRINGS:
        from sparkflow_runtime.codegen.strings import encoding  # only programs with strings need it

        return encoding.encoded(flat, encoded).reshape(array.shape)
    result = np.empty(flat.size, np.object_)
    result[:] = [encoded(item) for item in flat.tolist()]
    return result.reshape(array.shape)


def _unexpected(value: Any, dtype: DType) -> TypeError:
    item = value
    accepted = _ACCEPTED_KINDS.get(np.dtype(dtype.as_numpy_dtype).kind, "SU")
    while isinstance(item, list | tuple):
        item = next((each for each in item if np.asarray(each).dtype.kind not in accepted), item[0])
    return TypeError(
        f"Expected {dtype.name}, got {item!r} of type '{type(item).__name__}' instead."
    )


def filled(array: Array, shape: tuple[int, ...]) -> Array:
    """`array` reshaped to `shape`; its last element is repeated where it has too few.

    Raises:
        ValueError: It has too many elements, or none to repeat.
    """
    size = int(np.prod(shape, dtype=np.int64))
    if array.size == size:
        return array.reshape(shape)
    if array.size > size or not array.size:
        raise ValueError(
            f"Too many elements provided. Needed at most {size}, but received {array.size}"
            if array.size
            else f"Cannot fill shape {shape} from an empty value"
        )
    result = np.full(size, array.reshape(-1)[-1], array.dtype)
    result[: array.size] = array.reshape(-1)
    return result.reshape(shape)
