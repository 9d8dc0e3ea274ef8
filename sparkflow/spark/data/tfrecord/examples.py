"""The type of a column of `tf.train.Example` records, for reading and writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

BYTES, FLOAT, INT64 = "bytes", "float", "int64"
"""The kinds of values that features hold lists of."""

TAGS: Final = {BYTES: 0x0A, FLOAT: 0x12, INT64: 0x1A}
"""The first byte of a serialized feature of each kind: the tag of its only field."""
VALUES_TAG: Final = b"\x0a"
"""The first byte of the list in it: the tag of field 1, packed numbers or one string."""
FLOAT_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """One feature of every record.

    Attributes:
        name: The name of the feature and of the column.
        kind: `bytes`, `float` or `int64`.
        is_list: Whether the column holds lists; otherwise every record has at most one value.
        arrow_type: The type of the column.
    """

    name: str
    kind: str
    is_list: bool
    arrow_type: pa.DataType


class RecordError(ValueError):
    """A record that does not fit its columns.

    Args:
        row: The index of the record among those given.
        reason: What is wrong with it.
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"record {row}: {reason}")
        self.row = row
        self.reason = reason
