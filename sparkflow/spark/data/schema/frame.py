"""Columns of a DataFrame: lookup by name, properties of their types, conversion to numbers in SQL.

Starts no Spark job. `arrow_columns.plain` converts dates, timestamps and decimals to the same
numbers in Arrow.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_SHOWN_COLUMNS = 20
DAYS, MICROSECONDS = "days", "microseconds"

BatchFunction: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_DAY_US: Final = 86_400_000_000
_LONG_DIGITS: Final = 18
"""Decimals of up to this many digits fit into int64."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a DataFrame, found by name as Spark finds them.

    Attributes:
        fields: The columns.
        case_sensitive: The value of `spark.sql.caseSensitive`.
        owner: What has these columns, for error texts.
    """

    fields: tuple[StructField, ...]
    case_sensitive: bool = False
    owner: str = "the DataFrame"

    @classmethod
    def of(cls, df: DataFrame, owner: str = "the DataFrame") -> Schema:
        """Returns the schema of a DataFrame."""
        setting: Any = df.sparkSession.conf.get("spark.sql.caseSensitive", "false")
        return cls(tuple(df.schema.fields), str(setting).lower() == "true", owner)

    def find(self, name: str, param: str) -> StructField:
        """Returns the column with this name.

        Args:
            name: The name; dots are part of it and do not select fields of structs.
            param: The parameter that names the column, for error texts.

        Raises:
            ValueError: There is no such column, or more than one.
        """
        exact = [field for field in self.fields if field.name == name]
        found = exact if self.case_sensitive else [f for f in self.fields if _same(f.name, name)]
        if len(found) > 1:
            names = ", ".join(repr(field.name) for field in found)
            raise ValueError(
                f"{param} names the column {name!r}, but {self.owner} has {len(found)} columns of "
                f"this name ({names}): rename or drop all but one"
            )
        if not found:
            raise ValueError(f"There is no column {name!r}; {self._known(name)} ({param} names it)")
        return found[0]

    def _known(self, name: str) -> str:
        names = [field.name for field in self.fields]
        by_lower = {each.lower(): each for each in names}
        close = difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.6)
        shown = ", ".join(names[:_SHOWN_COLUMNS])
        more = f" and {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
        text = f"{self.owner} has {shown}{more}" if names else f"{self.owner} has no columns"
        if close:
            meant = " or ".join(repr(by_lower[each]) for each in close)
            text += f". Did you mean {meant}?"
        head, _, field = name.partition(".")
        kinds = {each.name: each.dataType for each in self.fields}
        if isinstance(kinds.get(head), StructType) and field:
            text += (
                f". To use a field of the struct {head!r}, make it a column first: "
                f"df.withColumn({field!r}, F.col({name!r}))"
            )
        return text


def require_frame(given: Any, caller: str) -> None:
    """Checks that a value is a Spark DataFrame.

    Args:
        given: The user's value.
        caller: The method that received it, for the error text.

    Raises:
        TypeError: It is something else; the text says how to create a DataFrame from it.
    """
    if hasattr(given, "sparkSession") and hasattr(given, "select"):
        return
    kind = type(given)
    package = kind.__module__.partition(".")[0]
    if kind.__module__.startswith("pyspark.pandas"):
        advice = "convert it with .to_spark()"
    elif kind.__name__.endswith("RDD"):
        advice = "convert it with rdd.toDF(['features', 'label'])"
    elif package in ("pandas", "pyarrow"):
        advice = "convert it with spark.createDataFrame(...)"
    elif package == "polars":
        advice = "convert it with spark.createDataFrame(frame.to_pandas())"
    elif isinstance(given, str):
        advice = f"read it with spark.read.parquet({given!r}), or give the path to fitOnParquet"
    else:
        advice = (
            "create one from Python rows with "
            "spark.createDataFrame([(features, label), ...], 'features array<float>, label float')"
        )
    raise TypeError(
        f"{caller} takes a Spark DataFrame, got {package}.{kind.__name__}: {advice}"
        if package != "builtins"
        else f"{caller} takes a Spark DataFrame, got a {kind.__name__}: {advice}"
    )


def quoted(name: str) -> Column:
    """Returns the column with this name, in which dots do not select fields of structs."""
    return F.col("`" + name.replace("`", "``") + "`")


def without_dots(rows: DataFrame, task: BatchFunction) -> tuple[DataFrame, BatchFunction]:
    """Returns rows and a function for `mapInArrow`, which takes dots for fields of structs.

    Args:
        rows: The rows.
        task: The function; it still gets the names with dots.
    """
    names = tuple(rows.columns)
    if not any("." in name for name in names):
        return rows, task
    renamed = rows.select(*(quoted(name).alias(f"c{i}") for i, name in enumerate(names)))
    return renamed, _Renamed(names, task)


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A function for `mapInArrow` whose batches have names of their own."""

    names: tuple[str, ...]
    task: BatchFunction

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.task(
            pa.RecordBatch.from_arrays(batch.columns, list(self.names)) for batch in batches
        )


def is_vector(kind: DataType) -> bool:
    """Whether the type is a Spark ML vector."""
    return kind.simpleString() == "vector" or kind.typeName() == "vectorudt"


def is_scalar(kind: DataType) -> bool:
    """Whether a value is a single number or a time, which is converted to a number."""
    return isinstance(kind, NumericType | BooleanType) or is_time(kind)


def is_time(kind: DataType) -> bool:
    """Whether a value is a date or a timestamp."""
    return bool(unit_of(kind))


def unit_of(kind: DataType) -> str:
    """Returns the unit that times are counted in since 1970; empty for other types."""
    if isinstance(kind, DateType):
        return DAYS
    return MICROSECONDS if isinstance(kind, TimestampType | TimestampNTZType) else ""


def is_text(kind: DataType) -> bool:
    """Whether a value is a string or bytes, which string tensors do not distinguish."""
    return isinstance(kind, StringType) or is_bytes(kind)


def is_bytes(kind: DataType) -> bool:
    """Whether a value is bytes, such as an image."""
    return isinstance(kind, BinaryType)


def is_whole(kind: DataType) -> bool:
    """Whether values are integers, booleans or times."""
    return (
        isinstance(kind, IntegralType | BooleanType)
        or is_time(kind)
        or (isinstance(kind, DecimalType) and kind.scale == 0)
    )


def unnested(kind: DataType) -> tuple[DataType, int, bool]:
    """Returns the element type and depth of nested arrays.

    Returns:
        The type of the innermost elements, the number of arrays around them, and whether there may
        be nulls inside the outermost array.
    """
    depth = 0
    nullable = False
    while isinstance(kind, ArrayType):
        depth += 1
        nullable |= kind.containsNull
        kind = kind.elementType
    return kind, depth, nullable


def needs_more_than_cast(kind: DataType) -> bool:
    """Whether Spark's cast returns other numbers than those required."""
    return is_time(kind) or isinstance(kind, DecimalType)


def as_numbers(column: Column, kind: DataType, target: str) -> Column:
    """Returns a column of single values as numbers; null for nulls and values beyond int64.

    Args:
        column: Numbers, booleans, dates or timestamps.
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
    """Returns the microseconds of a timestamp without a zone, read as UTC in any session."""
    minutes = F.hour(column) * 60 + F.minute(column)
    seconds = F.date_part(F.lit("SECOND"), column)  # with six decimals
    of_day = minutes.cast("bigint") * 60_000_000 + (seconds * 1_000_000).cast("bigint")
    return F.unix_date(column.cast("date")).cast("bigint") * F.lit(_DAY_US) + of_day


def text_of(kinds: Sequence[str]) -> str:
    """Returns names of columns for error texts."""
    return ", ".join(map(repr, kinds))


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()
