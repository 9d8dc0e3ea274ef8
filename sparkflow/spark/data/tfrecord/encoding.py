"""Encodes Arrow columns as `tf.train.Example` records.

The values of a column are encoded for all rows at once; a record then joins a few slices, with
headers that depend only on the size of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sparkflow.spark.data.tfrecord.examples import (
    BYTES,
    FLOAT,
    FLOAT_BYTES,
    TAGS,
    VALUES_TAG,
    FeatureColumn,
)
from sparkflow.spark.data.tfrecord.wire import encode_varint, encode_varints
from sparkflow_runtime.resources.datasets.arrow_columns import lists, numbers, present_in, texts

_ENTRY_TAG: Final = b"\x0a"
_KEY_TAG: Final = b"\x0a"
_VALUE_TAG: Final = b"\x12"
_FEATURES_TAG: Final = b"\x0a"


def encode_records(batch: pa.RecordBatch, columns: Sequence[FeatureColumn]) -> Iterator[bytes]:
    """Returns one record per row; a null omits its feature.

    Args:
        batch: The rows, with columns in the order of `columns`.
        columns: The feature that each column becomes.

    Raises:
        ValueError: There is a null inside a list.
    """
    if not columns:
        yield from (b"" for _ in range(batch.num_rows))
        return
    encoded = [_entries(column, batch.column(at)) for at, column in enumerate(columns)]
    for entries in zip(*encoded, strict=True):
        body = b"".join(entries)
        yield _FEATURES_TAG + encode_varint(len(body)) + body if body else b""


def _entries(column: FeatureColumn, array: pa.Array) -> list[bytes]:
    """Returns the feature's map entry for each row, empty if it is null."""
    present = present_in(array)
    values, counts = _flat(column, array)
    if column.kind == BYTES:
        return _text_entries(column, values, counts, present)
    if column.kind == FLOAT:
        data = np.ascontiguousarray(numbers(values.cast(pa.float32())), "<f4").tobytes()
        sizes = counts * FLOAT_BYTES
    else:
        data, lengths = encode_varints(numbers(values.cast(pa.int64())))
        ends = np.concatenate(([0], np.cumsum(lengths)))
        sizes = np.diff(ends[np.cumsum(counts)], prepend=0)
    head = _numbers_head(column)
    bounds = np.concatenate(([0], np.cumsum(sizes))).tolist()
    rows = zip(pairwise(bounds), present.tolist(), strict=True)
    return [head(end - start) + data[start:end] if here else b"" for (start, end), here in rows]


def _flat(column: FeatureColumn, array: pa.Array) -> tuple[pa.Array, np.ndarray[Any, Any]]:
    """Returns all values of a column, and the number of values per row."""
    if not column.is_list:
        return array.drop_null(), present_in(array).astype(np.int64)
    found = lists(array)
    if found.elements.null_count:
        raise ValueError(
            f"Column {column.name!r} has a null inside an array; a tf.train.Feature cannot hold "
            "nulls. Remove it (array_compact) or replace it before writing"
        )
    return found.elements, found.lengths.astype(np.int64)


def _numbers_head(column: FeatureColumn) -> Callable[[int], bytes]:
    """Returns the function from the size of packed numbers in bytes to their header."""
    known: dict[int, bytes] = {}

    def head(size: int) -> bytes:
        found = known.get(size)
        if found is None:
            values = VALUES_TAG + encode_varint(size) if size else b""
            found = known[size] = _entry_head(column, values, size)
        return found

    return head


def _entry_head(column: FeatureColumn, values_head: bytes, size: int) -> bytes:
    """Returns a map entry without its last `size` bytes."""
    key = column.name.encode()
    of_list = bytes([TAGS[column.kind]]) + encode_varint(len(values_head) + size) + values_head
    entry = _KEY_TAG + encode_varint(len(key)) + key
    entry += _VALUE_TAG + encode_varint(len(of_list) + size) + of_list
    return _ENTRY_TAG + encode_varint(len(entry) + size) + entry


def _text_entries(
    column: FeatureColumn,
    values: pa.Array,
    counts: np.ndarray[Any, Any],
    present: np.ndarray[Any, Any],
) -> list[bytes]:
    each_text = texts(values).tolist()
    found = []
    at = 0
    for count, here in zip(counts.tolist(), present.tolist(), strict=True):
        body = b"".join(
            VALUES_TAG + encode_varint(len(text)) + text for text in each_text[at : at + count]
        )
        found.append(_entry_head(column, b"", len(body)) + body if here else b"")
        at += count
    return found
