"""Which columns of wide and deep estimators are numeric, and which are categorical."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from sparkflow.spark.data.schema.row_format import DENSE, RAGGED, SPARSE, Input
from sparkflow.spark.estimators.statistics import RowStatistics

_log = logging.getLogger(__name__)

MOST_VALUES: Final = 100
"""Integers with more distinct values than this are numeric unless configured otherwise."""
LEAST_ROWS: Final = 10
"""The average number of rows per value that a categorical column needs."""


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """How a column is treated.

    Attributes:
        categorical: Whether its values are categories, which are hashed and weighted or embedded
            separately.
        text: A description for the log.
        guessed: Whether it holds integers and was classified as numeric from the content of the
            rows.
    """

    categorical: bool
    text: str
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parameters that classify columns.

    Attributes:
        categorical: `categoricalCols`.
        numeric: `numericCols`.
        implied: Columns with a parameter that applies only to categories.
    """

    categorical: Collection[str]
    numeric: Collection[str]
    implied: Collection[str]


def column_kinds(
    inputs: Mapping[str, Input], wanted: Wanted, facts: RowStatistics, *, standardized: bool
) -> dict[str, ColumnKind]:
    """Returns how each column is treated.

    Args:
        inputs: The columns by name.
        wanted: The user's classification.
        facts: The numbers of distinct values of integers.
        standardized: Whether numbers are standardized.

    Raises:
        TypeError: The type of a column does not allow the user's classification.
    """
    number = "number (standardised)" if standardized else "number"
    return {name: _kind(each, wanted, facts, number) for name, each in inputs.items()}


def log_kinds(kinds: Mapping[str, ColumnKind], facts: RowStatistics) -> None:
    """Logs how each column is treated, and warns if that may be wrong."""
    _log.info("columns: %s", "; ".join(f"{name}: {kind.text}" for name, kind in kinds.items()))
    guessed = sorted(name for name, kind in kinds.items() if kind.guessed)
    if guessed:
        _log.warning(
            "these integer columns are treated as numbers: %s. If their values are categories, "
            "such as customer ids, set categoricalCols=%r; numericCols=%r confirms that they are "
            "numbers and silences this warning",
            ", ".join(f"{name} ({_count(facts, name)})" for name in guessed),
            guessed,
            guessed,
        )


def can_be_categories(given: Input) -> bool:
    """Whether values can be categories: strings, integers, or lists of these."""
    return given.dtype == "string" or (given.dtype == "int64" and given.kind != SPARSE)


def _kind(given: Input, wanted: Wanted, facts: RowStatistics, number: str) -> ColumnKind:
    name = given.name
    lists = "lists of " if given.kind == RAGGED or given.shape else ""
    if name in wanted.categorical and not can_be_categories(given):
        raise TypeError(
            f"categoricalCols names the column {name!r}, which holds fractional numbers; integers "
            "and texts can be categories: cast it to bigint or string (pyspark.ml's Bucketizer "
            "makes integers of ranges)"
        )
    if name in wanted.numeric and (given.dtype == "string" or given.kind == RAGGED):
        what = (
            "texts: cast it to double"
            if given.dtype == "string"
            else (f"lists of any length; say how long they are: inputShapes={{{name!r}: [length]}}")
        )
        raise TypeError(f"numericCols names the column {name!r}, which holds {what}")
    if given.dtype == "string":
        return ColumnKind(True, f"{lists}category (texts)")
    if not can_be_categories(given) or name in wanted.numeric:
        return ColumnKind(False, f"{lists}{number}")
    values = facts.values.get(name)
    of_values = "" if values is None else f" of {values:,} values"
    if given.kind == RAGGED or name in wanted.categorical or name in wanted.implied:
        return ColumnKind(True, f"{lists}category{of_values}")
    few = values is not None and values <= MOST_VALUES and values * LEAST_ROWS <= facts.num_rows
    if given.kind == DENSE and few:
        return ColumnKind(True, f"category{of_values}")
    return ColumnKind(False, f"{lists}{number}, integers{of_values}", guessed=True)


def _count(facts: RowStatistics, name: str) -> str:
    values = facts.values.get(name)
    return "arrays" if values is None else f"{values:,} values in {facts.num_rows:,} rows"
