"""Dates, timestamps and decimals as numbers, in SQL; in Arrow it is `arrow_columns.plain`."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, functions as F
from pyspark.sql.types import DataType, DateType, DecimalType, TimestampNTZType, TimestampType

DAYS, MICROSECONDS = "days", "microseconds"

_DAY_US: Final = 86_400_000_000
_LONG_DIGITS: Final = 18
"""Decimals of so many digits fit into int64."""


def unit_of(kind: DataType) -> str:
    """What numbers that are made of a time count since 1970; empty for other types."""
    if isinstance(kind, DateType):
        return DAYS
    return MICROSECONDS if isinstance(kind, TimestampType | TimestampNTZType) else ""


def needs_more_than_cast(kind: DataType) -> bool:
    """Whether a cast of Spark's does not give the numbers that are wanted."""
    return bool(unit_of(kind)) or isinstance(kind, DecimalType)


def as_numbers(column: Column, kind: DataType, target: str) -> Column:
    """A column of single values as numbers; null where they are, or int64 cannot hold them.

    Args:
        column: Numbers, truth values, dates or timestamps.
        kind: Their type.
        target: `bigint` or `float`.
    """
    if isinstance(kind, DateType):
        return F.unix_date(column).cast(target)
    if isinstance(kind, TimestampType):
        return F.unix_micros(column).cast(target)
    if isinstance(kind, TimestampNTZType):
        return _wall_clock(column).cast(target)
    if isinstance(kind, DecimalType):
        if target != "bigint":
            return column.cast("double").cast(target)
        if kind.precision - kind.scale > _LONG_DIGITS:
            least, most = (F.lit(str(n)).cast("decimal(19,0)") for n in (-(2**63), 2**63 - 1))
            return F.when(column.between(least, most), column.cast(target))
    return column.cast(target)


def _wall_clock(column: Column) -> Column:
    """Microseconds of a timestamp without a zone, in UTC whatever zone the session is in."""
    minutes = F.hour(column) * 60 + F.minute(column)
    seconds = F.date_part(F.lit("SECOND"), column)  # with six decimals
    of_day = minutes.cast("bigint") * 60_000_000 + (seconds * 1_000_000).cast("bigint")
    return F.unix_date(column.cast("date")).cast("bigint") * F.lit(_DAY_US) + of_day
