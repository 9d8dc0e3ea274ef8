"""The contents of lookup tables: fixed ones that are filled once, and mutable ones.

A dictionary has the rows. Tables that are asked more often than they change also have an index in
machine code, which finds all keys of a batch at once.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import FailedPreconditionError, InvalidArgumentError
from sparkflow_runtime.ops.native import key_index
from sparkflow_runtime.ops.native.key_index import KeyIndex
from sparkflow_runtime.ops.native.string_index import StringIndex
from sparkflow_runtime.shapes import Shape

Array = Any


class LookupTable:
    """A table that steps share. Safe to use from several threads; `_lock` guards `_rows`.

    Args:
        name: For error texts.
        key_dtype: Of the keys, which are scalars.
        value_dtype: Of the values.
        value_shape: Of each value.
        mutable: Whether it can change after it was filled, and needs no initialization.
    """

    def __init__(
        self,
        name: str,
        key_dtype: DType,
        value_dtype: DType,
        value_shape: tuple[int, ...] = (),
        mutable: bool = False,
    ) -> None:
        self.name = name
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.value_shape = value_shape
        self.mutable = mutable
        self._lock = threading.Lock()
        self._rows: dict[Any, Any] | None = {} if mutable else None
        self._index: _Index | None = None
        self._asked = 0

    def find(self, keys: Array, default: Array) -> Array:
        """Returns the value of each key; the default for missing ones.

        Args:
            keys: Any shape.
            default: Of a value's shape, or one per key.

        Raises:
            FailedPreconditionError: It has not been filled.
            InvalidArgumentError: The default does not fit.
        """
        asked = np.asarray(keys, self.key_dtype.as_numpy_dtype)
        standing_in = np.asarray(default, self.value_dtype.as_numpy_dtype)
        flat = np.ascontiguousarray(asked).reshape(-1)
        each = standing_in.shape == asked.shape + self.value_shape and bool(asked.shape)
        if not each and standing_in.shape != self.value_shape:
            raise InvalidArgumentError(
                message=f"Expected shape {list(self.value_shape)} for default value, "
                f"got {list(standing_in.shape)}"
            )
        fallback = standing_in.reshape(-1, *self.value_shape)
        with self._lock:
            rows = self._filled()
            index = self._index_for(rows, flat.size)
            if index is None:
                result = np.empty((flat.size, *self.value_shape), standing_in.dtype)
                for place, key in enumerate(flat.tolist()):
                    found = rows.get(key)
                    result[place] = fallback[place if each else 0] if found is None else found
        if index is not None:
            result = index.find(flat, fallback)
        return result.reshape(asked.shape + self.value_shape)

    def _index_for(self, rows: dict[Any, Any], asked: int) -> _Index | None:
        """The index of the rows, if as many keys have been asked for as there are rows."""
        if self._index is None and self._asked >= 0:
            self._asked += asked
            if rows and self._asked >= len(rows):
                self._index = _Index.of(*self._arrays(rows))
                if self._index is None:
                    self._asked = -1  # not until the rows change
        return self._index

    def _changed(self) -> None:
        self._index, self._asked = None, 0

    def fill(self, keys: Array, values: Array) -> None:
        """Fills a fixed table; repeating it with the same entries is no error.

        Raises:
            FailedPreconditionError: It was filled with something else.
            InvalidArgumentError: A key is given twice with different values.
        """
        rows: dict[Any, Any] = {}
        for key, value in self._pairs(keys, values):
            if key in rows and not np.array_equal(rows[key], value):
                raise FailedPreconditionError(
                    message=f"HashTable has different value for same key. Key {key!r} has "
                    f"{rows[key]!r} and trying to add value {value!r}"
                )
            rows[key] = value
        with self._lock:
            if self._rows is None or self.mutable:
                self._rows = rows
                self._changed()
            elif self._rows.keys() != rows.keys() or any(
                not np.array_equal(self._rows[key], rows[key]) for key in rows
            ):
                raise FailedPreconditionError(message="Table already initialized.")

    def insert(self, keys: Array, values: Array) -> None:
        """Adds or replaces rows of a mutable table."""
        self._require_mutable("insert into")
        pairs = self._pairs(keys, values)
        with self._lock:
            self._filled().update(pairs)
            self._changed()

    def replace(self, keys: Array, values: Array) -> None:
        """Replaces all rows; a fixed table is filled, as TensorFlow fills one of constants."""
        if not self.mutable:
            self.fill(keys, values)
            return
        pairs = self._pairs(keys, values)
        with self._lock:
            self._rows = dict(pairs)
            self._changed()

    def remove(self, keys: Array) -> None:
        """Removes rows; missing ones are no error."""
        self._require_mutable("remove from")
        with self._lock:
            for key in np.asarray(keys, self.key_dtype.as_numpy_dtype).ravel().tolist():
                self._filled().pop(key, None)
            self._changed()

    def export(self) -> tuple[Array, Array]:
        """Returns all keys and their values."""
        with self._lock:
            rows = dict(self._filled())
        return self._arrays(rows)

    def _arrays(self, rows: dict[Any, Any]) -> tuple[Array, Array]:
        keys = np.empty(len(rows), self.key_dtype.as_numpy_dtype)
        values = np.empty((len(rows), *self.value_shape), self.value_dtype.as_numpy_dtype)
        for index, (key, value) in enumerate(rows.items()):
            keys[index] = key
            values[index] = value
        return keys, values

    def __len__(self) -> int:
        with self._lock:
            return len(self._filled())

    def _filled(self) -> dict[Any, Any]:
        if self._rows is None:
            raise FailedPreconditionError(message=f"Table not initialized. ({self.name})")
        return self._rows

    def _require_mutable(self, what: str) -> None:
        if not self.mutable:
            raise FailedPreconditionError(
                message=f"Cannot {what} table {self.name!r}: it is a HashTable, which is filled "
                "once; use a MutableHashTable"
            )

    def _pairs(self, keys: Array, values: Array) -> list[tuple[Any, Any]]:
        given = np.asarray(keys, self.key_dtype.as_numpy_dtype)
        # A copy: rows of it are kept, and the caller may reuse an array that it fed.
        rows = np.array(values, self.value_dtype.as_numpy_dtype)
        wanted = given.shape + self.value_shape
        if rows.shape != wanted:
            raise InvalidArgumentError(
                message=f"Expected shape {shapes.text(wanted)} for value, "
                f"got {shapes.text(rows.shape)}"
            )
        flat = rows.reshape(-1, *self.value_shape)
        return [(key, flat[index]) for index, key in enumerate(given.ravel().tolist())]


class _Index:
    """An unchanging copy of a table's rows, found by machine code.

    Args:
        numbers: Finds the numbers of keys.
        values: [rows, ...] their values.
    """

    def __init__(self, numbers: KeyIndex | StringIndex, values: Array) -> None:
        self._numbers = numbers
        self._values = values

    @classmethod
    def of(cls, keys: Array, values: Array) -> _Index | None:
        """Returns the index of distinct keys; None if machine code does not support them."""
        if not native.available():
            return None
        if keys.dtype.kind in "iu":
            return cls(key_index.make(keys.astype(np.int64), np.arange(len(keys))), values)
        if not keys.dtype.hasobject:
            return None
        try:
            return cls(StringIndex(keys), values)
        except ValueError:
            return None

    def find(self, keys: Array, default: Array) -> Array:
        """Returns the values of keys.

        Args:
            keys: [n] keys.
            default: [n or 1, ...] for missing ones.
        """
        if keys.dtype.kind in "iu":
            keys = keys.astype(np.int64)
        numbers = self._numbers.find(keys)
        result = self._values[numbers]
        missing = numbers < 0
        if missing.any():
            result[missing] = default[missing] if len(default) == len(keys) else default[0]
        return result


def require_types(table: LookupTable, key_dtype: DType, value_dtype: DType | None) -> None:
    """Checks that a table has these dtypes.

    Raises:
        InvalidArgumentError: It has others.
    """
    if table.key_dtype is not key_dtype or value_dtype not in (None, table.value_dtype):
        raise InvalidArgumentError(
            message=f"Table {table.name!r} maps {table.key_dtype.name} to "
            f"{table.value_dtype.name}, not {key_dtype.name} to "
            f"{'anything' if value_dtype is None else value_dtype.name}"
        )


def known_shape(shape: Shape) -> tuple[int, ...]:
    """Returns a shape after checking that it is complete, as a table's values require.

    Raises:
        InvalidArgumentError: A size is unknown.
    """
    if shape is None or None in shape:
        raise InvalidArgumentError(
            message=f"The shape of a table's values must be known, got {shapes.text(shape)}"
        )
    return tuple(size for size in shape if size is not None)
