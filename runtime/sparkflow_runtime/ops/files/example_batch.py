"""The features of a batch of `tf.train.Example` messages, as columns.

Machine code reads messages that are written as protobuf writes them; protobuf reads the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.strings import example_wire, features
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.once import latest
from sparkflow_runtime.ops.files.example_features import (
    absence,
    feature_map,
    malformed,
    miscount,
    mismatch,
)
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.ops.strings.string_arrays import sparse_rows
from sparkflow_runtime.protos.example_pb2 import Example
from sparkflow_runtime.shapes import Shape

KINDS = {
    "bytes_list": example_wire.BYTES,
    "float_list": example_wire.FLOAT,
    "int64_list": example_wire.INT64,
}
DTYPES = {
    example_wire.BYTES: dtypes.string,
    example_wire.FLOAT: dtypes.float32,
    example_wire.INT64: dtypes.int64,
}
KIND_OF = {dtype: kind for kind, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Features to find in messages.

    Attributes:
        rows: The row of each key.
        keys: The key of each row.
        features: What is expected of the rows.
    """

    rows: Mapping[str, int]
    keys: Sequence[str]
    features: features.Features

    @staticmethod
    def of(
        rows: Mapping[str, int],
        kinds: Sequence[int],
        shapes: Sequence[tuple[int, ...] | None],
    ) -> Wanted:
        """Returns those of the given rows, kinds and shapes."""
        keys = tuple(rows)
        return Wanted(
            rows, keys, features.Features([each.encode() for each in keys], kinds, shapes)
        )


class FoundFeatures:
    """The features of messages, found but for their values.

    Args:
        messages: [n] objects, bytes, contiguous.
        wanted: The features to find.
        refusal: Returns the error for a malformed message, given its number and protobuf's error.

    Attributes:
        counts: [keys, n] int64, the number of values.
        decoded: The values [n, *shape] of each key if all are as expected, else None.
    """

    def __init__(
        self,
        messages: Array,
        wanted: Wanted,
        refusal: Callable[[int, DecodeError], Exception],
    ) -> None:
        self._messages = messages.copy()  # a fed array may change in the meantime
        self._wanted = wanted
        self._refusal = refusal
        self._parsed: dict[int, Mapping[str, Any]] = {}
        columns = wanted.features
        found = np.zeros((3, columns.keys.count, len(messages)), np.int64)
        self._kinds, self.counts, self._starts = found
        outputs = columns.outputs(len(messages))
        features.find(self._messages, columns, outputs, self._find_by_protobuf, found)
        self._by_protobuf = list(self._parsed)
        is_done = (self._kinds == columns.done).all(1).tolist()
        self.decoded = [
            output if done else None for output, done in zip(outputs, is_done, strict=True)
        ]

    def kinds(self, row: int) -> Array:
        """Returns [n] int64, the kind of a feature in each message; see `codegen.features`."""
        kinds: Array = self._kinds[row] & ~features.DONE
        return kinds

    def take(self, row: int, kind: int, values: Array, places: Array) -> None:
        """Writes the values of a feature, those of each message from a place on.

        Args:
            row: The row of its key.
            kind: Its kind in all messages that have it.
            values: Values to write to: objects, float32 or int64.
            places: [n] int64.
        """
        counts, key = self.counts[row], self._wanted.keys[row]

        def by_protobuf(number: int) -> None:
            count, place = self.counts[row, number], places[number]
            if count:
                feature = self._features(number)[key]
                found = getattr(feature, feature.WhichOneof("kind")).value
                values[place : place + count] = found[:]

        if self._by_protobuf:
            counts = counts.copy()
            counts[self._by_protobuf] = 0
        starts = self._starts[row]
        features.take(self._messages, kind, counts, starts, values, places, by_protobuf)
        for number in self._by_protobuf:
            by_protobuf(number)

    def _find_by_protobuf(self, number: int) -> None:
        self._kinds[:, number] = example_wire.NONE
        self.counts[:, number] = 0
        for row, key in enumerate(self._wanted.keys):
            feature = self._features(number).get(key)
            kind = feature and feature.WhichOneof("kind")
            if kind:
                self._kinds[row, number] = KINDS[kind]
                self.counts[row, number] = len(getattr(feature, kind).value)

    def _features(self, number: int) -> Mapping[str, Any]:
        found = self._parsed.get(number)
        if found is None:
            try:
                message = Example.FromString(self._messages[number])
            except DecodeError as error:
                raise self._refusal(number, error) from error
            found = self._parsed[number] = feature_map(message.features)
        return found


class ExampleBatch:
    """Messages whose features become tensors.

    Args:
        messages: [n] objects, bytes, contiguous.
        labels: [n] names of the messages, for error texts.
        wanted: The features.
        what: The messages, in error texts.

    Attributes:
        decoded: See `FoundFeatures`.

    Raises:
        InvalidArgumentError: A message is malformed.
    """

    def __init__(
        self,
        messages: Array,
        labels: Sequence[str],
        wanted: Wanted,
        what: str = "example input",
    ) -> None:
        self._labels = labels
        self._rows = wanted.rows

        def refusal(number: int, _: DecodeError) -> InvalidArgumentError:
            return malformed(what, messages[number])

        self._found = FoundFeatures(messages, wanted, refusal)
        self.decoded = self._found.decoded

    def sparse(self, key: str, dtype: DType) -> tuple[Array, Array, Array]:
        """Returns a feature of any number of values as a sparse matrix: indices, values, shape.

        Raises:
            InvalidArgumentError: It has values of another dtype.
        """
        row = self._row(key, dtype)
        counts = self._found.counts[row]
        starts = np.cumsum(counts) - counts
        values = np.empty(int(counts.sum()), dtype.as_numpy_dtype)
        self._found.take(row, KIND_OF[dtype], values, starts)
        return sparse_rows(counts, values, np.arange(len(values)) - np.repeat(starts, counts))

    def dense(self, key: str, dtype: DType, shape: tuple[int, ...], default: Array) -> Array:
        """Returns a feature of one shape, [n, *shape]; the default for messages without it.

        Raises:
            InvalidArgumentError: It has values of another dtype or another number of them, or it is
                missing without a default.
        """
        values = self.decoded[self._rows[key]]
        if values is None or values.dtype != dtype.as_numpy_dtype or values.shape[1:] != shape:
            return self._dense(key, dtype, shape, default)
        return values

    def _dense(self, key: str, dtype: DType, shape: tuple[int, ...], default: Array) -> Array:
        """As `dense`, where not all features are as they should be."""
        size, kind, row = math.prod(shape), KIND_OF[dtype], self._rows[key]
        kinds, counts = self._found.kinds(row), self._found.counts[row]
        missing = kinds == example_wire.NONE
        refused = ((kinds != kind) | (counts != size)) & ~missing
        if not np.size(default) and 0 not in shape:
            refused |= missing
        if refused.any():
            raise self._refusal(int(refused.argmax()), key, dtype, shape)
        values = np.empty((len(kinds), size), dtype.as_numpy_dtype)
        if missing.any():
            values[missing] = np.asarray(default, dtype.as_numpy_dtype).reshape(-1)
        self._found.take(row, kind, values.reshape(-1), np.arange(len(kinds)) * size)
        return values.reshape(len(kinds), *shape)

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
        row = self._row(key, dtype)
        counts = self._found.counts[row]
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
        places = np.arange(len(counts)) * (longest * size)
        self._found.take(row, KIND_OF[dtype], values, places)
        return values.reshape(len(counts), longest, *inner)

    def vector(self, key: str, dtype: DType) -> tuple[Array, Array, Array]:
        """Returns a feature of the first message as a sparse vector: indices, values, shape.

        Raises:
            InvalidArgumentError: It has values of another dtype.
        """
        row = self._row(key, dtype)
        count = int(self._found.counts[row, 0])
        values = np.empty(count, dtype.as_numpy_dtype)
        self._found.take(row, KIND_OF[dtype], values, np.zeros(1, np.int64))
        return np.arange(count).reshape(count, 1), values, np.array([count])

    def _row(self, key: str, dtype: DType) -> int:
        row = self._rows[key]
        kinds = self._found.kinds(row)
        wrong = (kinds != example_wire.NONE) & (kinds != KIND_OF[dtype])
        if np.count_nonzero(wrong):
            raise self._refusal(int(wrong.argmax()), key, dtype, ())
        return row

    def _refusal(
        self, number: int, key: str, dtype: DType, shape: tuple[int, ...]
    ) -> InvalidArgumentError:
        row, name = self._rows[key], self._labels[number]
        kind = int(self._found.kinds(row)[number])
        if kind == example_wire.NONE:
            return absence(name, key, dtype)
        if kind != KIND_OF[dtype]:
            return mismatch(name, key, DTYPES[kind], dtype)
        return miscount(name, key, dtype, int(self._found.counts[row, number]), shape)


@latest(64)
def wanted_features(
    keys: tuple[str, ...], dtypes: tuple[DType, ...], shapes: tuple[tuple[int, ...] | None, ...]
) -> Wanted:
    """Returns the features to find.

    Args:
        keys: Their keys; of one that is given twice, its first use is what is expected.
        dtypes: Of their values.
        shapes: Of each; None if it may have any number of values.
    """
    rows: dict[str, int] = {}
    kinds, first_shapes = [], []
    for key, dtype, shape in zip(keys, dtypes, shapes, strict=True):
        if key not in rows:
            rows[key] = len(rows)
            kinds.append(KIND_OF[dtype])
            first_shapes.append(shape)
    return Wanted.of(rows, kinds, first_shapes)
