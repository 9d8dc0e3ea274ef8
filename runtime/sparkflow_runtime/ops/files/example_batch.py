"""The features of a batch of `tf.train.Example` messages, as columns.

Machine code reads messages that are written as protobuf writes them; protobuf reads the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.strings import features
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.once import latest
from sparkflow_runtime.ops.files.example_features import (
    absence,
    feature_map,
    miscount,
    mismatch,
    parsed,
)
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.ops.strings.string_arrays import sparse_rows
from sparkflow_runtime.protos.example_pb2 import Example
from sparkflow_runtime.shapes import Shape

_KINDS = {
    "bytes_list": features.BYTES,
    "float_list": features.FLOAT,
    "int64_list": features.INT64,
}
_DTYPES = {
    features.BYTES: dtypes.string,
    features.FLOAT: dtypes.float32,
    features.INT64: dtypes.int64,
}
_KIND_OF = {dtype: kind for kind, dtype in _DTYPES.items()}


class ExampleBatch:
    """Messages whose features have been found.

    Args:
        messages: [n] objects, bytes, contiguous.
        labels: [n] names of the messages, for error texts.
        keys: The keys of features; one may be given twice.
        dtypes: Of their values.
        shapes: Of each feature; None if it may have any number of values.

    Raises:
        InvalidArgumentError: A message is malformed.
    """

    def __init__(
        self,
        messages: Array,
        labels: Sequence[str],
        keys: Sequence[str],
        dtypes: Sequence[DType],
        shapes: Sequence[tuple[int, ...] | None],
    ) -> None:
        self._messages = messages.copy()  # a fed array may change in the meantime
        self._labels = labels
        self._rows, wanted = _wanted(tuple(keys), tuple(dtypes), tuple(shapes))
        self._parsed: dict[int, Mapping[str, Any]] = {}
        found = np.zeros((3, wanted.count, len(messages)), np.int64)
        self._kinds, self._counts, self._starts = found
        self._decoded, addresses = wanted.outputs(len(messages))
        features.find(self._messages, wanted, addresses, self._find_by_protobuf, found)
        self._by_protobuf = list(self._parsed)

    def _find_by_protobuf(self, number: int) -> None:
        self._kinds[:, number] = features.NONE
        self._counts[:, number] = 0
        for key, row in self._rows.items():
            feature = self._features(number).get(key)
            kind = feature and feature.WhichOneof("kind")
            if kind:
                self._kinds[row, number] = _KINDS[kind]
                self._counts[row, number] = len(getattr(feature, kind).value)

    def _features(self, number: int) -> Mapping[str, Any]:
        found = self._parsed.get(number)
        if found is None:
            message = parsed(Example, self._messages[number], "example input")
            found = self._parsed[number] = feature_map(message.features)
        return found

    def sparse(self, key: str, dtype: DType) -> tuple[Array, Array, Array]:
        """Returns a feature of any number of values as a sparse matrix: indices, values, shape.

        Raises:
            InvalidArgumentError: It has values of another dtype.
        """
        row = self._row(key, dtype)
        counts = self._counts[row]
        starts = np.cumsum(counts) - counts
        values = np.empty(int(counts.sum()), dtype.as_numpy_dtype)
        self._take(key, dtype, values, starts)
        return sparse_rows(counts, values, np.arange(len(values)) - np.repeat(starts, counts))

    def dense(self, key: str, dtype: DType, shape: tuple[int, ...], default: Array) -> Array:
        """Returns a feature of one shape, [n, *shape]; the default for messages without it.

        Raises:
            InvalidArgumentError: It has values of another dtype or another number of them, or it is
                missing without a default.
        """
        row, kind = self._rows[key], _KIND_OF[dtype]
        values, kinds = self._decoded.get(row), self._kinds[row]
        if values is None or np.count_nonzero(kinds - (kind | features.DONE)):
            values = self._dense(key, dtype, shape, default)
        return values.reshape(len(kinds), *shape)

    def _dense(self, key: str, dtype: DType, shape: tuple[int, ...], default: Array) -> Array:
        """As `dense`, where not all features are as they should be."""
        size, kind, row = math.prod(shape), _KIND_OF[dtype], self._rows[key]
        kinds, counts = self._found_kinds(row), self._counts[row]
        missing = kinds == features.NONE
        refused = ((kinds != kind) | (counts != size)) & ~missing
        if not np.size(default) and 0 not in shape:
            refused |= missing
        if refused.any():
            raise self._refusal(int(refused.argmax()), key, dtype, shape)
        values = np.empty((len(kinds), size), dtype.as_numpy_dtype)
        if missing.any():
            values[missing] = np.asarray(default, dtype.as_numpy_dtype).reshape(-1)
        self._take(key, dtype, values.reshape(-1), np.arange(len(kinds)) * size)
        return values

    def _found_kinds(self, row: int) -> Array:
        kinds: Array = self._kinds[row] & ~features.DONE
        return kinds

    def ragged(self, key: str, dtype: DType, shape: Shape, default: Array) -> Array:
        """Returns a feature of any number of rows, padded to the longest: [n, longest, ...].

        Args:
            key: Its key.
            dtype: Of its values.
            shape: [None, ...], the shape of one feature.
            default: One value to pad with; zero or "" if it is empty.

        Raises:
            InvalidArgumentError: It has values of another dtype, or not a multiple of a row's.
        """
        assert shape is not None
        inner = tuple(size for size in shape[1:] if size is not None)
        size = math.prod(inner)
        counts = self._counts[self._row(key, dtype)]
        if size and (uneven := counts % size != 0).any():
            number = int(uneven.argmax())
            raise InvalidArgumentError(
                message=f"Name: {self._labels[number]}, Key: {key}, Number of {dtype.name} values "
                f"is not a multiple of stride length. Saw {counts[number]} values but output "
                f"shape is: {bracketed(shape)}"
            )
        longest = int(counts.max(initial=0)) // max(size, 1)
        values = np.empty(len(counts) * longest * size, dtype.as_numpy_dtype)
        filler = np.ravel(default)
        values[:] = filler[0] if filler.size else b"" if dtype is dtypes.string else 0
        self._take(key, dtype, values, np.arange(len(counts)) * (longest * size))
        return values.reshape(len(counts), longest, *inner)

    def _row(self, key: str, dtype: DType) -> int:
        row = self._rows[key]
        kinds = self._found_kinds(row)
        wrong = (kinds != features.NONE) & (kinds != _KIND_OF[dtype])
        if np.count_nonzero(wrong):
            raise self._refusal(int(wrong.argmax()), key, dtype, ())
        return row

    def _refusal(
        self, number: int, key: str, dtype: DType, shape: tuple[int, ...]
    ) -> InvalidArgumentError:
        row, name = self._rows[key], self._labels[number]
        kind = int(self._found_kinds(row)[number])
        if kind == features.NONE:
            return absence(name, key, dtype)
        if kind != _KIND_OF[dtype]:
            return mismatch(name, key, _DTYPES[kind], dtype)
        return miscount(name, key, dtype, int(self._counts[row, number]), shape)

    def _take(self, key: str, dtype: DType, values: Array, places: Array) -> None:
        """Writes the values of a feature, those of each message from its place on."""
        row = self._rows[key]
        counts = self._counts[row]

        def by_protobuf(number: int) -> None:
            count, place = self._counts[row, number], places[number]
            if count:
                feature = self._features(number)[key]
                found = getattr(feature, feature.WhichOneof("kind")).value
                values[place : place + count] = found[:]

        if self._by_protobuf:
            counts = counts.copy()
            counts[self._by_protobuf] = 0
        kind = _KIND_OF[dtype]
        features.take(self._messages, kind, counts, self._starts[row], values, places, by_protobuf)
        for number in self._by_protobuf:
            by_protobuf(number)


@latest(64)
def _wanted(
    keys: tuple[str, ...],
    dtypes: tuple[DType, ...],
    shapes: tuple[tuple[int, ...] | None, ...],
) -> tuple[Mapping[str, int], features.Features]:
    """The row of each key, and what is expected of its first use."""
    rows: dict[str, int] = {}
    kinds, sizes = [], []
    for key, dtype, shape in zip(keys, dtypes, shapes, strict=True):
        if key not in rows:
            rows[key] = len(rows)
            kinds.append(_KIND_OF[dtype])
            sizes.append(-1 if shape is None else math.prod(shape))
    return rows, features.Features([key.encode() for key in rows], kinds, sizes)
