"""Which columns of wide and deep estimators are numbers, and which are names of things."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from sparkflow.spark.data.schema.row_format import DENSE, RAGGED, SPARSE, Input
from sparkflow.spark.estimators.statistics import RowStatistics

_log = logging.getLogger(__name__)

MOST_VALUES: Final = 100
"""Integers with more values than that are numbers, unless somebody says otherwise."""
LEAST_ROWS: Final = 10
"""So many rows a value must have on average to be learnt for itself."""


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """What a column is treated as.

    Attributes:
        categorical: Whether its values are names of things: hashed, weighed or embedded one by one.
        text: What is said of it.
        guessed: Whether it holds integers and was taken for numbers by what is in the rows.
    """

    categorical: bool
    text: str
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the parameters say of columns.

    Attributes:
        categorical: `categoricalCols`.
        numeric: `numericCols`.
        implied: Columns of which something is said that only categories have.
    """

    categorical: Collection[str]
    numeric: Collection[str]
    implied: Collection[str]


def column_kinds(
    inputs: Mapping[str, Input], wanted: Wanted, facts: RowStatistics, *, standardized: bool
) -> dict[str, ColumnKind]:
    """How each column is treated.

    Args:
        inputs: The columns by name.
        wanted: What the user says of them.
        facts: How many values there are of integers.
        standardized: Whether numbers are.

    Raises:
        TypeError: A column cannot be what the user says.
    """
    number = "number (standardised)" if standardized else "number"
    return {name: _kind(each, wanted, facts, number) for name, each in inputs.items()}


def log_kinds(kinds: Mapping[str, ColumnKind], facts: RowStatistics) -> None:
    """Says what each column is treated as, and warns where that may be wrong."""
    _log.info("columns: %s", "; ".join(f"{name}: {kind.text}" for name, kind in kinds.items()))
    guessed = sorted(name for name, kind in kinds.items() if kind.guessed)
    if guessed:
        _log.warning(
            "these columns hold integers and are taken as numbers: %s. Where they are names of "
            "things, as numbers of customers are, say categoricalCols=%r; numericCols=%r says that "
            "they are numbers, and ends this warning",
            ", ".join(f"{name} ({_count(facts, name)})" for name in guessed),
            guessed,
            guessed,
        )


def can_be_categories(given: Input) -> bool:
    """Whether values may be names of things: texts, integers, or lists of these."""
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
