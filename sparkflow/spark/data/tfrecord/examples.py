"""The type of a column of `tf.train.Example` records, for reading and for writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

BYTES, FLOAT, INT64 = "bytes", "float", "int64"
"""The kinds of values that a feature holds a list of."""

TAGS: Final = {BYTES: 0x0A, FLOAT: 0x12, INT64: 0x1A}
"""What a serialized feature begins with: the number of its only field."""
VALUES_TAG: Final = b"\x0a"
"""What the list in it begins with: field 1, the packed numbers or one text."""
FLOAT_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """One feature of every record.

    Attributes:
        name: Of the feature and of the column.
        kind: `bytes`, `float` or `int64`.
        is_list: Whether the column holds lists; else every record has one value or none.
        arrow_type: Of the column.
    """

    name: str
    kind: str
    is_list: bool
    arrow_type: pa.DataType


class RecordError(ValueError):
    """A record that does not fit its columns.

    Args:
        row: Which of the records given, from 0.
        reason: What is wrong with it.
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"record {row}: {reason}")
        self.row = row
        self.reason = reason
