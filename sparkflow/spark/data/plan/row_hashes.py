"""Hashes of what is in rows: of one row, and of all of them in whatever order they come."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, functions as F

from sparkflow.spark.data.schema.frame import quoted

CONTENT_SUMS: Final = ("content_high", "content_low")

_HALF: Final = 32
_MASK: Final = (1 << _HALF) - 1


def content_hash(rows: DataFrame, seed: int) -> Column:
    """A bigint that depends on what is in the row, and on the seed."""
    return F.xxhash64(F.lit(seed), *(quoted(name) for name in sorted(rows.columns)))


def content_sums(hashed: Column) -> dict[str, Column]:
    """Sums over the hashes of rows, in halves, so that no sum overflows."""
    high, low = CONTENT_SUMS
    return {
        high: F.sum(F.shiftright(hashed, _HALF)),
        low: F.sum(hashed.bitwiseAND(F.lit(_MASK))),
    }


def content_text(way: str, high: int, low: int) -> str:
    """The hash of all rows, from the sums over parts of them; "" where nothing was summed up.

    Args:
        way: What was hashed; hashes of other ways say nothing of this one.
        high: The sum over the upper halves.
        low: The sum over the lower ones.
    """
    if not high and not low:
        return ""
    return f"{way}:{((high << _HALF) + low) % (1 << 2 * _HALF):016x}"
