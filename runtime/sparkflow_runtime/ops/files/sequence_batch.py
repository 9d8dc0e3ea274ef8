"""The features of a batch of `tf.train.SequenceExample` messages, as tensors.

Machine code reads messages that are written as protobuf writes them; protobuf reads the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.strings import example_wire, feature_lists, features
from sparkflow_runtime.codegen.strings.parts import substrings
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.once import latest
from sparkflow_runtime.ops.files.example_batch import DTYPES, KIND_OF, KINDS, ExampleBatch, Wanted
from sparkflow_runtime.ops.files.example_features import absence, malformed, miscount, mismatch
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.protos.example_pb2 import Example, SequenceExample

WHAT = "sequence example input"


@dataclass(frozen=True, slots=True)
class _Elements:
    """The features of one list of all messages, one after another.

    Attributes:
        owners: [m] int64, the number of the message of each.
        numbers: [m] int64, the number of each in its list.
        kinds: [m] int64.
        counts: [m] int64, the number of values of each.
        starts: [m] int64, see `features.find`.
    """

    owners: Array
    numbers: Array
    kinds: Array
    counts: Array
    starts: Array


def _places(lengths: Array) -> tuple[Array, Array, Array]:
    """Where the features of each message's list begin; for each feature its message and number."""
    if len(lengths) == 1:
        count = int(lengths[0])
        return np.zeros(1, np.int64), np.zeros(count, np.int64), np.arange(count)
    places = np.cumsum(lengths) - lengths
    owners = np.repeat(np.arange(len(lengths)), lengths)
    return places, owners, np.arange(len(owners)) - places[owners]


@latest(64)
def _keys(keys: tuple[str, ...]) -> example_wire.Keys:
    return example_wire.Keys([key.encode() for key in keys])


class SequenceBatch:
    """Messages whose lists have been found.

    Args:
        messages: [n] objects, bytes, contiguous.
        labels: [n] names of the messages, for error texts.
        context: The features of the contexts.
        keys: The keys of lists.

    Attributes:
        context: The features of the contexts, found.

    Raises:
        InvalidArgumentError: A message is malformed.
    """

    def __init__(
        self, messages: Array, labels: Sequence[str], context: Wanted, keys: Sequence[str]
    ) -> None:
        self._messages = messages.copy()  # a fed array may change in the meantime
        self._labels = labels
        self._rows = {key: row for row, key in enumerate(dict.fromkeys(keys))}
        self._parsed: dict[int, Any] = {}
        count = len(messages)
        bounds = np.zeros((2, count), np.int64)
        self._lists = np.full((3, len(self._rows), count), feature_lists.MISSING, np.int64)
        wanted = _keys(tuple(self._rows))
        feature_lists.find(self._messages, wanted, self._find_by_protobuf, bounds, self._lists)
        self.context = ExampleBatch(self._contexts(bounds), labels, context, WHAT)

    def _find_by_protobuf(self, number: int) -> None:
        lists = self._message(number).feature_lists.feature_list
        for key, row in self._rows.items():
            self._lists[0, row, number] = (
                len(lists[key].feature) if key in lists else feature_lists.MISSING
            )

    def _message(self, number: int) -> Any:
        found = self._parsed.get(number)
        if found is None:
            try:
                found = SequenceExample.FromString(self._messages[number])
            except DecodeError as error:
                raise malformed(WHAT, self._messages[number]) from error
            self._parsed[number] = found
        return found

    def _contexts(self, bounds: Array) -> Array:
        """The field of the context alone is an Example."""
        found = np.empty(len(self._messages), np.object_)
        start, end = bounds

        def by_python(number: int) -> None:
            found[number] = self._messages[number][start[number] : end[number]]

        substrings(self._messages, start, end - start, by_python, found)
        for number in self._parsed:
            context = self._message(number).context
            found[number] = Example(features=context).SerializeToString()
        return found

    def sparse(self, key: str, dtype: DType) -> tuple[Array, Array, Array]:
        """Returns a list of features of any number of values as a sparse tensor.

        Returns:
            Indices [values, 3] of message, feature and value; the values; the shape.

        Raises:
            InvalidArgumentError: It has values of another dtype.
        """
        elements = self._elements(key)
        wrong = (elements.kinds != example_wire.NONE) & (elements.kinds != KIND_OF[dtype])
        if wrong.any():
            raise self._refusal(elements, int(wrong.argmax()), key, dtype, None)
        counts = elements.counts
        starts = np.cumsum(counts) - counts
        values = np.empty(int(counts.sum()), dtype.as_numpy_dtype)
        self._take(key, dtype, elements, values, starts)
        indices = np.empty((len(values), 3), np.int64)
        indices[:, 0] = np.repeat(elements.owners, counts)
        indices[:, 1] = np.repeat(elements.numbers, counts)
        indices[:, 2] = np.arange(len(values)) - np.repeat(starts, counts)
        longest = self._lists[0, self._rows[key]].max(initial=0), counts.max(initial=0)
        return indices, values, np.array([len(self._messages), *longest], np.int64)

    def dense(
        self, key: str, dtype: DType, shape: tuple[int, ...], may_miss: bool
    ) -> tuple[Array, Array]:
        """Returns a list of features of one shape, padded with zeros or "" to the longest.

        Args:
            key: Its key.
            dtype: Of its values.
            shape: Of each feature.
            may_miss: Whether messages without it have an empty one.

        Returns:
            [n, longest, *shape], and the lengths, [n] int64.

        Raises:
            InvalidArgumentError: It has values of another dtype or another number of them, or it is
                missing.
        """
        elements, size = self._elements(key), math.prod(shape)
        lengths = self._lists[0, self._rows[key]]
        wrong = (elements.kinds != KIND_OF[dtype]) | (elements.counts != size)
        if 0 in shape:
            wrong &= elements.kinds != example_wire.NONE
        missing = lengths == feature_lists.MISSING
        is_missing, is_wrong = not may_miss and bool(missing.any()), bool(wrong.any())
        if is_missing or is_wrong:
            first = int(missing.argmax()) if is_missing else len(lengths)
            bad = int(wrong.argmax()) if is_wrong else None
            if bad is None or first < elements.owners[bad]:
                raise InvalidArgumentError(
                    message=f"Name: {self._labels[first]}, Feature list '{key}' is required but "
                    "could not be found.  Did you mean to include it in "
                    "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
                )
            raise self._refusal(elements, bad, key, dtype, shape)
        lengths = np.maximum(lengths, 0)
        longest = int(lengths.max(initial=0))
        values = np.empty(len(lengths) * longest * size, dtype.as_numpy_dtype)
        if len(elements.owners) < len(lengths) * longest:
            values[:] = b"" if dtype is dtypes.string else 0
        places = (elements.owners * longest + elements.numbers) * size
        self._take(key, dtype, elements, values, places)
        return values.reshape(len(lengths), longest, *shape), lengths

    def _elements(self, key: str) -> _Elements:
        lists = self._lists[:, self._rows[key]]
        lengths = np.maximum(lists[0], 0)
        places, owners, numbers = _places(lengths)
        found = np.zeros((3, len(owners)), np.int64)

        def by_protobuf(number: int) -> None:
            each = self._message(number).feature_lists.feature_list
            for place, feature in enumerate(each[key].feature if key in each else ()):
                kind = feature.WhichOneof("kind")
                at = places[number] + place
                found[:, at] = example_wire.NONE
                if kind:
                    found[:2, at] = KINDS[kind], len(getattr(feature, kind).value)

        counts = lengths
        left = list(self._parsed)
        if left:
            counts = lengths.copy()
            counts[left] = 0
        given = (counts, *lists[1:])
        feature_lists.features_of(self._messages, given, places, by_protobuf, found)
        for number in left:
            by_protobuf(number)
        return _Elements(owners, numbers, *found)

    def _take(
        self, key: str, dtype: DType, elements: _Elements, values: Array, places: Array
    ) -> None:
        """Writes the values of a list's features, those of each from its place on."""

        def by_protobuf(element: int) -> None:
            count, place = elements.counts[element], places[element]
            if count:
                message = self._message(int(elements.owners[element]))
                each = message.feature_lists.feature_list[key].feature[elements.numbers[element]]
                found = getattr(each, each.WhichOneof("kind")).value
                values[place : place + count] = found[:]

        counts, left = elements.counts, np.empty(0, np.int64)
        if self._parsed:  # also those that were only left when the features of a list were found
            is_left = np.isin(elements.owners, list(self._parsed))
            counts, left = np.where(is_left, 0, counts), np.flatnonzero(is_left)
        owners = self._messages[elements.owners]
        kind = KIND_OF[dtype]
        features.take(owners, kind, counts, elements.starts, values, places, by_protobuf)
        for element in left.tolist():
            by_protobuf(element)

    def _refusal(
        self,
        elements: _Elements,
        element: int,
        key: str,
        dtype: DType,
        shape: tuple[int, ...] | None,
    ) -> InvalidArgumentError:
        name, kind = self._labels[elements.owners[element]], int(elements.kinds[element])
        if shape is not None:
            key = f"{key}, Index: {elements.numbers[element]}"
        if kind == example_wire.NONE:
            return absence(name, key, dtype)
        if kind != KIND_OF[dtype]:
            return mismatch(name, key, DTYPES[kind], dtype)
        return miscount(name, key, dtype, int(elements.counts[element]), shape or ())
