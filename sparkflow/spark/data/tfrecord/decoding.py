"""Decodes `tf.train.Example` records to Arrow columns, as `tf.parse_example` decodes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from sparkflow.spark.data.tfrecord.examples import BYTES, FLOAT, INT64, FeatureColumn, RecordError
from sparkflow_runtime.codegen.strings import example_wire, features
from sparkflow_runtime.once import latest
from sparkflow_runtime.ops.files.example_batch import FoundFeatures, Wanted
from sparkflow_runtime.protos.example_pb2 import Example

Array = np.ndarray[Any, Any]
_KINDS: Final = {BYTES: example_wire.BYTES, FLOAT: example_wire.FLOAT, INT64: example_wire.INT64}
_NAMES: Final = {kind: f"{name}_list" for name, kind in _KINDS.items()}


def features_of(row: int, record: bytes) -> Mapping[str, Any]:
    """Returns the features of a record by name.

    Raises:
        RecordError: It is not an Example.
    """
    try:
        found: Mapping[str, Any] = Example.FromString(record).features.feature
    except DecodeError as error:
        raise _no_example(row, error) from error
    return found


def _no_example(row: int, error: DecodeError) -> RecordError:
    return RecordError(row, f"it is not a tf.train.Example: {error}")


def feature_kind(feature: Any) -> tuple[str, int] | None:
    """Returns the kind of a feature and its number of values; None if it is empty."""
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
    messages = np.empty(len(records), np.object_)
    messages[:] = records
    wanted = _wanted(tuple((each.name, each.kind) for each in columns))
    found = FoundFeatures(messages, wanted, _no_example)
    return [_decode(column, found, wanted.rows[column.name], records) for column in columns]


@latest(16)
def _wanted(columns: tuple[tuple[str, str], ...]) -> Wanted:
    kinds = [_KINDS[kind] for _, kind in columns]
    rows = {name: row for row, (name, _) in enumerate(columns)}
    return Wanted.of(rows, kinds, [None] * len(kinds))


def _decode(
    column: FeatureColumn, found: FoundFeatures, row: int, records: Sequence[bytes]
) -> pa.Array:
    try:
        return _assembled(column, found, row)
    except pa.ArrowInvalid as error:
        if len(records) == 1:
            reason = f"its feature {column.name!r} is not {column.arrow_type}: {error}"
            raise RecordError(0, reason) from error
    # Find the record that causes the error.
    for number, record in enumerate(records):
        try:
            decode_columns([record], [column])
        except RecordError as wrong:
            raise RecordError(number, wrong.reason) from None
    raise AssertionError(
        f"feature {column.name!r} is invalid in all records together, but in none of them alone"
    )


def _assembled(column: FeatureColumn, found: FoundFeatures, row: int) -> pa.Array:
    kind, kinds, counts = _KINDS[column.kind], found.kinds(row), found.counts[row]
    missing = kinds == example_wire.NONE
    if (wrong := np.flatnonzero(~missing & (kinds != kind))).size:
        raise RecordError(
            int(wrong[0]),
            f"its feature {column.name!r} is a {_NAMES[int(kinds[wrong[0]])]}, but the column "
            f"{column.arrow_type} needs a {column.kind}_list",
        )
    starts = np.cumsum(counts) - counts
    values: Array = np.empty(int(counts.sum()), features.VALUE_DTYPES[kind])
    found.take(row, kind, values, starts)
    array = pa.array(values, pa.binary() if column.kind == BYTES else None)
    if column.is_list:
        offsets = np.append(starts, len(values)).astype(np.int32)
        lists = pa.ListArray.from_arrays(
            pa.array(offsets), array, mask=pa.array(missing, pa.bool_())
        )
        return lists.cast(column.arrow_type)
    if (bad := np.flatnonzero(counts > 1)).size:
        raise RecordError(
            int(bad[0]),
            f"its feature {column.name!r} has {counts[bad[0]]} values, but the column "
            f"{column.arrow_type} takes one. Give the column an array type in the schema",
        )
    if len(array) == len(counts):
        return array.cast(column.arrow_type)
    return array.cast(column.arrow_type).take(pa.array(starts, mask=counts == 0))
