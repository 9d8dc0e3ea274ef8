"""Values that no network can be trained on: nulls, NaNs and infinities; finding and filling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, functions as F

from sparkflow.spark.data.plan.selection import INDICES, VALUES, values
from sparkflow.spark.data.plan.sources import SCALAR, Source
from sparkflow.spark.data.schema.row_format import DENSE, SPARSE, Input
from sparkflow.spark.data.schema.row_schema import WEIGHT

NULLS, NANS, INFINITIES, NEGATIVE = "nulls", "NaNs", "infinities", "negative weights"
FAULTS: Final = (NULLS, NANS, INFINITIES, NEGATIVE)
"""What can be wrong with a value, as error texts call it."""


def is_invalid(source: Source, column: Column) -> Column:
    """Whether a row has something that is wrong, in one fast pass over its elements. Never null.

    Args:
        source: What the input is made of.
        column: Its held column.
    """
    given = values(source, column)
    if source.form == SCALAR:
        return _any(_scalar_faults(source, given))
    if source.dtype != "float32":
        nulls = given.isNull()
        return nulls | _has_null(given) if source.may_hold_nulls else nulls
    # array_contains takes NaNs for equal, and is null where it met a null instead: code that Spark
    # compiles, unlike F.exists.
    nothing = F.coalesce(F.array_contains(given, _float(math.nan)), F.lit(True))
    return nothing | _contains(given, math.inf) | _contains(given, -math.inf)


def faults(source: Source, column: Column) -> Mapping[str, Column]:
    """Whether a row has this fault, by fault; slower than `is_invalid`, never null."""
    given = values(source, column)
    if source.form == SCALAR:
        return _scalar_faults(source, given)
    found = {NULLS: given.isNull() | _has_null(given)}
    if source.dtype == "float32":
        found[NANS] = _contains(given, math.nan)
        found[INFINITIES] = _contains(given, math.inf) | _contains(given, -math.inf)
    return found


def filled(wanted: Input, column: Column, fill: float, kind: str) -> Column:
    """The final column of an input with what is wrong replaced.

    Numbers become `fill`, texts the empty text, missing lists empty ones, missing sparse vectors
    those without stored elements.

    Args:
        wanted: The input.
        column: Its final column.
        fill: What numbers become.
        kind: The type of single values, in Spark's DDL.
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
    first, *others = found.values()
    for other in others:
        first = first | other
    return first


def _has_null(elements: Column) -> Column:
    return F.coalesce(F.exists(elements, lambda element: element.isNull()), F.lit(False))


def _contains(elements: Column, value: float) -> Column:
    return F.coalesce(F.array_contains(elements, _float(value)), F.lit(False))


def _float(value: float) -> Column:
    return F.lit(value).cast("float")
