"""What is done with rows that cannot be trained on: an error, or leaving out, or filling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, functions as F

from sparkflow.spark.data.plan.sources import SCALAR, Source
from sparkflow.spark.data.plan.value_checks import FAULTS, NEGATIVE, faults
from sparkflow.spark.data.schema.frame import quoted
from sparkflow.spark.data.schema.row_schema import FEATURES, SCALARS

ERROR, SKIP, FILL = "error", "skip", "fill"

_SHOWN_COLUMNS: Final = 10


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with one column.

    Attributes:
        column: Its name.
        role: `features`, `label` or `weight`.
        rows: Rows in which something is wrong with it.
        counts: Rows by fault, only those that there are.
    """

    column: str
    role: str
    rows: int
    counts: Mapping[str, int]


def find_faults(rows: DataFrame, sources: Sequence[Source]) -> list[Faults]:
    """What is wrong with the columns of these inputs. Blocks for one Spark job.

    Args:
        rows: Held columns by the names of their inputs.
        sources: The inputs to look at.
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
    """Passes where nothing is wrong.

    Args:
        found: What is wrong.
        total: All rows.
        policy: `handleInvalid`, for the advice.

    Raises:
        ValueError: Something is; it says what, where, in how many rows, and what to do.
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


def _any(flags: Mapping[str, Column]) -> Column:
    return reduce(lambda one, other: one | other, flags.values())


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
