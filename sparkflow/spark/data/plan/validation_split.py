"""Selection of validation rows: by a column, a fraction, or a second DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window, functions as F
from pyspark.sql.types import BooleanType

from sparkflow.spark.data.plan.sources import SCALAR, Source
from sparkflow.spark.data.schema.frame import Schema, quoted, unit_of
from sparkflow.spark.data.schema.row_format import VALIDATES
from sparkflow.spark.errors import NoRowsError
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.tables.data_rows import CONTENT, SINGLE, STRATIFIED

_STEPS: Final = 1 << 31


def require_one_way(config: FitConfig, validation: DataFrame | None) -> None:
    """Checks that validation rows are selected in at most one way.

    Raises:
        ValueError: They are selected in several ways.
    """
    given = {
        "validationIndicatorCol": bool(config.validation_indicator_col),
        "validationFraction": config.validation_fraction > 0,
        "a DataFrame of validation rows": validation is not None,
    }
    asked = [name for name, is_given in given.items() if is_given]
    if len(asked) > 1:
        raise ValueError(f"Validation rows are given in more than one way: {' and '.join(asked)}")


def indicator(schema: Schema, column: str) -> Column:
    """Returns whether a row is a validation row according to a column; null counts as false.

    Raises:
        ValueError: The column does not exist or exists twice.
        TypeError: It is not boolean.
    """
    field = schema.find(column, "validationIndicatorCol")
    if not isinstance(field.dataType, BooleanType):
        raise TypeError(
            f"The validation column {field.name!r} is {field.dataType.simpleString()}; it must be "
            "boolean: true for validation rows"
        )
    return F.coalesce(quoted(field.name), F.lit(False)).alias(VALIDATES)


def drawn(
    names: Sequence[str],
    fraction: float,
    seed: int,
    how: str = CONTENT,
    label: Source | None = None,
) -> Column:
    """Returns whether a row belongs to the fraction for validation.

    A hash of its content decides, so the same rows are drawn however they are partitioned. With
    `CONTENT`, equal rows are on one side, since otherwise a network would be validated on rows that
    it has seen. With `SINGLE` and `STRATIFIED`, rows are drawn one by one; which of several equal
    rows are drawn makes no difference.

    Args:
        names: The columns that make up the content.
        fraction: The fraction of rows to draw.
        seed: The seed of the draw.
        how: One of `params.tables.data_rows.DRAWS`.
        label: The labels; `STRATIFIED` draws the fraction from each of their classes.

    Raises:
        ValueError: The labels are not classes.
    """
    content = F.xxhash64(F.lit(seed), F.lit(VALIDATES), *(quoted(name) for name in sorted(names)))
    if how == STRATIFIED:
        if label is None or label.dtype != "int64" or label.form != SCALAR:
            raise ValueError(
                "validationDraw='stratified' draws from each class, so labelCol must be a column "
                "of integers; it is "
                f"{'missing' if label is None else _kind(label)}; use 'single' or 'content'"
            )
        classes = Window.partitionBy(quoted(label.name))
        place = F.row_number().over(classes.orderBy(content))
        return place <= F.round(F.count(F.lit(1)).over(classes) * fraction)
    if how == SINGLE:
        number = F.row_number().over(Window.partitionBy(content).orderBy(F.lit(0)))
        content = F.xxhash64(content, number)
    return F.pmod(content, F.lit(_STEPS)) < int(fraction * _STEPS)


def require_same(training: Sequence[Source], validation: Sequence[Source]) -> None:
    """Checks that both DataFrames have the same inputs.

    Raises:
        TypeError: A column's type differs in the second one.
    """
    for one, other in zip(training, validation, strict=True):
        ours, theirs = (
            (each.form, each.dtype, each.depth, each.kind, [unit_of(kind) for kind in each.types])
            for each in (one, other)
        )
        if ours != theirs:
            raise TypeError(
                f"The {one.describe()} of the training rows has {_kind(one)}, that of the "
                f"validation rows has {_kind(other)}; cast one to the type of the other"
            )


def require_some(num_rows: int, num_validation_rows: int, *, asked: bool) -> None:
    """Checks that there are training rows and, if requested, validation rows.

    Raises:
        ValueError: There are none.
    """
    if not num_rows:
        raise NoRowsError(
            f"All {num_validation_rows} rows are validation rows: there is nothing to train on"
        )
    if asked and not num_validation_rows:
        raise ValueError(
            f"None of the {num_rows} rows is a validation row. Mark some in "
            "validationIndicatorCol, raise validationFraction, or give a DataFrame that has rows"
        )


def _kind(source: Source) -> str:
    if source.form == "vector":
        return "vectors"
    arrays = "arrays of " * source.depth if source.form == "array" else ""
    units = " and ".join(dict.fromkeys(unit for kind in source.types if (unit := unit_of(kind))))
    return f"{arrays}{source.dtype} values{f' ({units} since 1970)' if units else ''}"
