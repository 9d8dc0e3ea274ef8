"""Decodes `tf.train.Example` records to Arrow columns.

protobuf parses only the frame of a message: a map from names to serialized features. Values are
extracted from these for all rows at once, since packed floats have the same layout in a record as
in memory, and numpy can decode varints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from sparkflow.spark.data.tfrecord.examples import (
    BYTES,
    FLOAT,
    FLOAT_BYTES,
    TAGS,
    VALUES_TAG,
    FeatureColumn,
    RecordError,
)
from sparkflow.spark.data.tfrecord.wire import decode_varints, read_varint
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.protos.feature_pb2 import Feature


def _frame_class() -> Any:
    # The same fields and numbers as tf.train.Example, but features stay serialized.
    file = FileDescriptorProto(name="sparkflow_example_frame.proto", syntax="proto3")
    frame = file.message_type.add(name="Frame")
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    one, repeated = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
    message = FieldDescriptorProto.TYPE_MESSAGE
    entry.field.add(name="key", number=1, label=one, type=FieldDescriptorProto.TYPE_STRING)
    entry.field.add(name="value", number=2, label=one, type=FieldDescriptorProto.TYPE_BYTES)
    kind = ".Features.FeatureEntry"
    features.field.add(name="feature", number=1, label=repeated, type=message, type_name=kind)
    frame.field.add(name="features", number=1, label=one, type=message, type_name=".Features")
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("Frame"))


_Frame: Final = _frame_class()


def parse_frames(records: Sequence[bytes]) -> list[Mapping[str, bytes]]:
    """Returns for each record its features by name, each still serialized.

    Raises:
        RecordError: A record is not an Example.
    """
    found = []
    for row, record in enumerate(records):
        try:
            found.append(_Frame.FromString(record).features.feature)
        except DecodeError as error:
            raise RecordError(row, f"it is not a tf.train.Example: {error}") from error
    return found


def feature_kind(value: bytes) -> tuple[str, int] | None:
    """Returns the kind of a serialized feature and its number of values; None if it is empty.

    Raises:
        ValueError: It is not a Feature.
    """
    try:
        feature = Feature.FromString(value)
    except DecodeError as error:
        raise ValueError(f"it is not a tf.train.Feature: {error}") from error
    name = feature.WhichOneof("kind")
    if name is None:
        return None
    return name.removesuffix("_list"), len(getattr(feature, name).value)


def decode_columns(records: Sequence[bytes], columns: Sequence[FeatureColumn]) -> list[pa.Array]:
    """Returns the columns of records.

    A missing feature becomes null, and so does an empty list in a column without lists.

    Raises:
        RecordError: A record is not an Example, or a feature does not fit its column.
    """
    frames = parse_frames(records)
    return [_decode(column, [frame.get(column.name) for frame in frames]) for column in columns]


def _decode(column: FeatureColumn, features: Sequence[bytes | None]) -> pa.Array:
    try:
        return _decode_all(column, features)
    except (pa.ArrowInvalid, DataLossError) as error:
        if len(features) == 1:
            reason = f"its feature {column.name!r} is not {column.arrow_type}: {error}"
            raise RecordError(0, reason) from error
    # Find the record that causes the error.
    for row, value in enumerate(features):
        try:
            _decode(column, [value])
        except RecordError as found:
            raise RecordError(row, found.reason) from None
    raise AssertionError(
        f"feature {column.name!r} is invalid in all records together, but in none of them alone"
    )


def _decode_all(column: FeatureColumn, features: Sequence[bytes | None]) -> pa.Array:
    payloads = _Payloads(column)
    if column.kind == BYTES:
        return _decode_bytes(column, payloads, features)
    found = [payloads.take(row, value) if value else None for row, value in enumerate(features)]
    values, counts = _decode_numbers(column, found)
    return _assembled(column, values, counts, [each is None for each in found])


class _Payloads:
    """Extracts the values from the serialized features of one column."""

    def __init__(self, column: FeatureColumn) -> None:
        self._column = column
        self._tag = TAGS[column.kind]
        # The header of the values depends only on their size.
        self._heads: dict[int, bytes] = {}

    def take(self, row: int, value: bytes) -> bytes | None:
        """Returns the list's field 1 if it occurs once; None for a feature without a kind.

        Raises:
            RecordError: The feature has another kind or is damaged.
        """
        head = self._heads.get(len(value))
        if head is not None and value.startswith(head):
            return value[len(head) :]
        return self._parse(row, value)

    def take_texts(self, row: int, value: bytes) -> Sequence[bytes] | None:
        """Returns the values of a list of bytes; None for a feature without a kind.

        Raises:
            RecordError: See `take`.
        """
        head = self._heads.get(len(value))
        if head is not None and value.startswith(head):
            return (value[len(head) :],)
        start = self._single(value)
        if start is None:
            feature = self.message(row, value)
            return list(feature.bytes_list.value) if feature.WhichOneof("kind") else None
        self._heads.setdefault(len(value), value[:start])
        return (value[start:],)

    def _parse(self, row: int, value: bytes) -> bytes | None:
        start = self._single(value)
        if start is None:
            canonical = self.message(row, value).SerializeToString()
            if not canonical:
                return None
            value = canonical
            start = self._single(value)
        if start is None:  # an empty list
            return b""
        self._heads.setdefault(len(value), value[:start])
        return value[start:]

    def _single(self, value: bytes) -> int | None:
        """Returns the start of field 1 if it is the only one in the only list; otherwise None."""
        try:
            if value[0] != self._tag:
                return None
            size, at = read_varint(value, 1)
            if at + size != len(value) or value[at : at + 1] != VALUES_TAG:
                return None
            size, at = read_varint(value, at + 1)
        except DataLossError:
            return None
        return at if at + size == len(value) else None

    def message(self, row: int, value: bytes) -> Feature:
        """Parses the feature, which must have the column's kind or none."""
        name = self._column.name
        try:
            feature = Feature.FromString(value)
        except DecodeError as error:
            raise RecordError(row, f"its feature {name!r} is damaged: {error}") from error
        kind = feature.WhichOneof("kind")
        if kind is not None and kind != f"{self._column.kind}_list":
            raise RecordError(
                row,
                f"its feature {name!r} is a {kind}, but the column {self._column.arrow_type} needs "
                f"a {self._column.kind}_list",
            )
        return feature


def _decode_numbers(
    column: FeatureColumn, payloads: Sequence[bytes | None]
) -> tuple[Any, np.ndarray[Any, Any]]:
    """Returns all values of a column, and the number of values per record."""
    sizes = np.fromiter((len(each or b"") for each in payloads), np.int64, len(payloads))
    data = b"".join(each for each in payloads if each)
    if column.kind == FLOAT:
        if (bad := np.flatnonzero(sizes % FLOAT_BYTES)).size:
            raise RecordError(int(bad[0]), f"its feature {column.name!r} ends inside a number")
        return np.frombuffer(data, "<f4"), sizes // FLOAT_BYTES
    if any(each and each[-1] & 0x80 for each in payloads):
        raise DataLossError(message="a list of integers ends inside a number")
    values, ends = decode_varints(data)
    borders = np.searchsorted(ends, np.cumsum(sizes), side="right")
    return values, np.diff(borders, prepend=0)


def _decode_bytes(
    column: FeatureColumn, payloads: _Payloads, features: Sequence[bytes | None]
) -> pa.Array:
    values: list[bytes] = []
    counts = np.zeros(len(features), np.int64)
    missing = []
    for row, value in enumerate(features):
        before = len(values)
        found = payloads.take_texts(row, value) if value else None
        missing.append(found is None)
        if found:
            values += found
        counts[row] = len(values) - before
    return _assembled(column, pa.array(values, pa.binary()), counts, missing)


def _assembled(
    column: FeatureColumn, values: Any, counts: np.ndarray[Any, Any], missing: Sequence[bool]
) -> pa.Array:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    if column.is_list:
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        mask = pa.array(missing, pa.bool_())
        lists = pa.ListArray.from_arrays(pa.array(offsets), array, mask=mask)
        return lists.cast(column.arrow_type)
    if (bad := np.flatnonzero(counts > 1)).size:
        raise RecordError(
            int(bad[0]),
            f"its feature {column.name!r} has {counts[bad[0]]} values, but the column "
            f"{column.arrow_type} takes one. Give the column an array type in the schema",
        )
    if len(array) == len(counts):
        return array.cast(column.arrow_type)
    places = np.cumsum(counts) - 1
    return array.cast(column.arrow_type).take(pa.array(places, mask=counts == 0))
