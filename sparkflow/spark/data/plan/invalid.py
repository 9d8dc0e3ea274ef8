"""Finds, fills and explains values that cannot be trained on: nulls, NaNs and infinities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, functions as F

from sparkflow.spark.data.plan.selection import INDICES, VALUES, values
from sparkflow.spark.data.plan.sources import SCALAR, Source
from sparkflow.spark.data.schema.frame import quoted
from sparkflow.spark.data.schema.row_format import DENSE, SPARSE, Input
from sparkflow.spark.data.schema.row_schema import FEATURES, SCALARS, WEIGHT

ERROR, SKIP, FILL = "error", "skip", "fill"

NULLS, NANS, INFINITIES, NEGATIVE = "nulls", "NaNs", "infinities", "negative weights"
FAULTS: Final = (NULLS, NANS, INFINITIES, NEGATIVE)
"""The faults of values, by their names in error messages."""

_SHOWN_COLUMNS: Final = 10


@dataclass(frozen=True, slots=True)
class Faults:
    """The invalid values of one column.

    Attributes:
        column: Its name.
        role: `features`, `label` or `weight`.
        rows: Number of rows with an invalid value in it.
        counts: Number of rows for each fault that occurs.
    """

    column: str
    role: str
    rows: int
    counts: Mapping[str, int]


def find_faults(rows: DataFrame, sources: Sequence[Source]) -> list[Faults]:
    """Finds the invalid values of these inputs. Blocks for one Spark job.

    Args:
        rows: Held columns, named after their inputs.
        sources: The inputs to examine.
    """
    checks: list[tuple[str, str, Mapping[str, Column]]] = []
    for source in sources:
        held = quoted(source.name)
        if source.form == SCALARS:
            single = Source("", (), SCALAR, source.dtype, source.kind, (), role=source.role)
            checks += [
                (name, source.role, faults(single, held[index]))
                for index, name in enumerate(source.columns)
            ]
        else:
            checks.append((source.columns[0], source.role, faults(source, held)))
    counts = []
    for place, (_, _, found) in enumerate(checks):
        counts.append(F.count_if(_any(found)).alias(f"{place}"))
        counts += [F.count_if(flag).alias(f"{place} {fault}") for fault, flag in found.items()]
    (row,) = rows.agg(*counts).collect()
    return [
        Faults(name, role, row[f"{place}"], {f: n for f in found if (n := row[f"{place} {f}"])})
        for place, (name, role, found) in enumerate(checks)
        if row[f"{place}"]
    ]


def require_none(found: Sequence[Faults], total: int, policy: str) -> None:
    """Checks that there are no invalid values.

    Args:
        found: The invalid values.
        total: The number of all rows.
        policy: `handleInvalid`, for the advice.

    Raises:
        ValueError: There are some; the text says which, where, in how many rows, and what to do.
    """
    if not found:
        return
    kinds = [fault for fault in FAULTS if any(fault in each.counts for each in found)]
    what = _joined(kinds)
    where = "; ".join(_describe(each, total, kinds) for each in found[:_SHOWN_COLUMNS])
    more = f"; and {len(found) - _SHOWN_COLUMNS} more columns" if found[_SHOWN_COLUMNS:] else ""
    raise ValueError(
        f"{what[0].upper()}{what[1:]} cannot be trained on. Found in {where}{more}. "
        f"{_advice(found, kinds, policy)}"
    )


def _describe(found: Faults, total: int, kinds: Sequence[str]) -> str:
    text = f"{found.role} column {found.column!r}: "
    if len(kinds) == 1:
        return f"{text}{found.rows} of {total} rows"
    parts = [f"{fault} in {count}" for fault, count in found.counts.items()]
    return f"{text}{_joined(parts)} of {total} rows"


def _advice(found: Sequence[Faults], kinds: Sequence[str], policy: str) -> str:
    drop = "Leave these rows out (handleInvalid='skip', or df.dropna())"
    if all(each.role != FEATURES for each in found):
        only = "; handleInvalid='fill' fills features only" if policy == FILL else ""
        return f"{drop} or correct them{only}"
    if list(kinds) == [NEGATIVE]:
        return f"{drop} or correct them"
    return (
        f"{drop} or replace them (handleInvalid='fill' with fillValue, df.fillna(...), "
        "pyspark.ml.feature.Imputer)"
    )


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def is_invalid(source: Source, column: Column) -> Column:
    """Returns whether a row has a fault, in one fast pass over its elements. Never null.

    Args:
        source: The source of the input.
        column: Its held column.
    """
    given = values(source, column)
    if source.form == SCALAR:
        return _any(_scalar_faults(source, given))
    if source.dtype != "float32":
        nulls = given.isNull()
        return nulls | _has_null(given) if source.may_hold_nulls else nulls
    # array_contains treats NaNs as equal, and returns null if it met a null instead. Spark compiles
    # it, unlike F.exists.
    nothing = F.coalesce(F.array_contains(given, _float(math.nan)), F.lit(True))
    return nothing | _contains(given, math.inf) | _contains(given, -math.inf)


def faults(source: Source, column: Column) -> Mapping[str, Column]:
    """Returns for each fault whether a row has it; slower than `is_invalid`, never null."""
    given = values(source, column)
    if source.form == SCALAR:
        return _scalar_faults(source, given)
    found = {NULLS: given.isNull() | _has_null(given)}
    if source.dtype == "float32":
        found[NANS] = _contains(given, math.nan)
        found[INFINITIES] = _contains(given, math.inf) | _contains(given, -math.inf)
    return found


def filled(wanted: Input, column: Column, fill: float, kind: str) -> Column:
    """Returns the final column of an input with invalid values replaced.

    Numbers become `fill`, strings the empty string, missing lists empty lists, and missing sparse
    vectors vectors without stored elements.

    Args:
        wanted: The input.
        column: Its final column.
        fill: The value that replaces numbers.
        kind: The type of single values, as Spark DDL.
    """
    if wanted.kind == SPARSE:
        nothing = F.struct(
            F.array().cast("array<int>").alias(INDICES),
            F.array().cast("array<float>").alias(VALUES),
        )
        kept = F.struct(
            column[INDICES].alias(INDICES),
            F.transform(column[VALUES], lambda x: _filled(wanted, x, fill, kind)).alias(VALUES),
        )
        return F.when(column.isNull(), nothing).otherwise(kept)
    if wanted.shape == () and wanted.kind == DENSE:
        return _filled(wanted, column, fill, kind)
    elements = F.transform(column, lambda element: _filled(wanted, element, fill, kind))
    if wanted.kind == DENSE:
        missing = F.array_repeat(_fill(wanted, fill, kind), wanted.size)
    else:
        missing = F.array().cast(f"array<{kind}>")
    return F.when(column.isNull(), missing).otherwise(elements)


def _filled(wanted: Input, value: Column, fill: float, kind: str) -> Column:
    wrong = value.isNull()
    if wanted.dtype == "float32":
        wrong = wrong | F.isnan(value) | (F.abs(value) == _float(math.inf))
    return F.when(wrong, _fill(wanted, fill, kind)).otherwise(value)


def _fill(wanted: Input, fill: float, kind: str) -> Column:
    if wanted.dtype == "string":
        return F.lit("").cast(kind)
    return F.lit(int(fill) if wanted.dtype == "int64" else fill).cast(kind)


def _scalar_faults(source: Source, value: Column) -> dict[str, Column]:
    found = {NULLS: value.isNull()}
    if source.dtype == "float32":
        found[NANS] = F.coalesce(F.isnan(value), F.lit(False))
        found[INFINITIES] = F.coalesce(F.abs(value) == _float(math.inf), F.lit(False))
    if source.role == WEIGHT:
        found[NEGATIVE] = F.coalesce(value < 0, F.lit(False))
    return found


def _any(found: Mapping[str, Column]) -> Column:
    return reduce(lambda one, other: one | other, found.values())


def _has_null(elements: Column) -> Column:
    return F.coalesce(F.exists(elements, lambda element: element.isNull()), F.lit(False))


def _contains(elements: Column, value: float) -> Column:
    return F.coalesce(F.array_contains(elements, _float(value)), F.lit(False))


def _float(value: float) -> Column:
    return F.lit(value).cast("float")
