"""The features of a batch of `tf.train.Example` messages, as columns.

Machine code reads messages that are written as protobuf writes them; protobuf reads the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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


class FoundFeatures:
    """The features of messages, found but for their values.

    Args:
        messages: [n] objects, bytes, contiguous.
        rows: The row of each key.
        wanted: The features of the keys, in the order of rows.
        refusal: Returns the error for a malformed message, given its number and protobuf's error.

    Attributes:
        counts: [keys, n] int64, the number of values.
    """

    def __init__(
        self,
        messages: Array,
        rows: Mapping[str, int],
        wanted: features.Features,
        refusal: Callable[[int, DecodeError], Exception],
    ) -> None:
        self._messages = messages.copy()  # a fed array may change in the meantime
        self._keys = list(rows)
        self._refusal = refusal
        self._parsed: dict[int, Mapping[str, Any]] = {}
        found = np.zeros((3, wanted.count, len(messages)), np.int64)
        self._kinds, self.counts, self._starts = found
        self._decoded, addresses = wanted.outputs(len(messages))
        features.find(self._messages, wanted, addresses, self._find_by_protobuf, found)
        self._by_protobuf = list(self._parsed)

    def kinds(self, row: int) -> Array:
        """Returns [n] int64, the kind of a feature in each message; see `codegen.features`."""
        kinds: Array = self._kinds[row] & ~features.DONE
        return kinds

    def decoded(self, row: int, kind: int) -> Array | None:
        """Returns [n, size], the values of a feature, if all are as expected; else None."""
        if np.count_nonzero(self._kinds[row] - (kind | features.DONE)):
            return None
        return self._decoded.get(row)

    def take(self, row: int, kind: int, values: Array, places: Array) -> None:
        """Writes the values of a feature, those of each message from a place on.

        Args:
            row: The row of its key.
            kind: Its kind in all messages that have it.
            values: Values to write to: objects, float32 or int64.
            places: [n] int64.
        """
        counts, key = self.counts[row], self._keys[row]

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
        for row, key in enumerate(self._keys):
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
        keys: The keys of features; one may be given twice.
        dtypes: Of their values.
        shapes: Of each feature; None if it may have any number of values.
        what: The messages, in error texts.

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
        what: str = "example input",
    ) -> None:
        self._labels = labels
        self._rows, wanted = _wanted(tuple(keys), tuple(dtypes), tuple(shapes))

        def refusal(number: int, _: DecodeError) -> InvalidArgumentError:
            return malformed(what, messages[number])

        self._found = FoundFeatures(messages, self._rows, wanted, refusal)

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
        values = self._found.decoded(self._rows[key], KIND_OF[dtype])
        if values is None:
            values = self._dense(key, dtype, shape, default)
        return values.reshape(len(values), *shape)

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
        return values

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
            kinds.append(KIND_OF[dtype])
            sizes.append(-1 if shape is None else math.prod(shape))
    return rows, features.Features([key.encode() for key in rows], kinds, sizes)
