"""One look at the rows before training: counts per partition, nulls, lengths of arrays.

It costs one pass, whose rows stay cached for the barrier job, and answers three questions at once:
how many features there are (the graph needs it), where each row goes (placement needs the counts)
and whether something is wrong with the data, with exact counts over the whole DataFrame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row, functions as F

from sparkflow.spark.rows.columns import FEATURES, LABEL, FeatureColumns, LabelColumn

_SHOWN_LENGTHS = 5


@dataclass(frozen=True, slots=True)
class RowProfile:
    """What is known of the rows.

    Attributes:
        partition_rows: Rows per partition; partitions without rows are left out.
        dim: Features per row.
    """

    partition_rows: Mapping[int, int]
    dim: int

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(self.partition_rows.values())


def profile_rows(rows: DataFrame, features: FeatureColumns, label: LabelColumn) -> RowProfile:
    """Counts the rows and refuses what cannot be trained on. Blocks for one Spark job.

    Args:
        rows: What `columns.select_rows` returned.
        features: The columns that the features were made of, for error texts.
        label: The same of the label.

    Raises:
        ValueError: No rows; nulls; arrays of different lengths or without elements.
    """
    lengths = F.size(FEATURES)
    checks: dict[str, Column] = {
        "rows": F.count(F.lit(1)),
        "null_labels": F.count_if(F.col(LABEL).isNull()),
        "null_rows": F.count_if(F.col(FEATURES).isNull()),
        "null_elements": F.count_if(F.exists(FEATURES, lambda item: item.isNull())),
        "shortest": F.min(lengths),
        "longest": F.max(lengths),
    }
    found = (
        rows.groupBy(F.spark_partition_id().alias("partition"))
        .agg(*(check.alias(name) for name, check in checks.items()))
        .collect()
    )
    total = _total(found, "rows")
    if total == 0:
        raise ValueError("The DataFrame has no rows: there is nothing to train on")
    _refuse_nulls(rows, found, features, label, total)
    shortest = min(row["shortest"] for row in found)
    if shortest != max(row["longest"] for row in found):
        _refuse_lengths(rows, features, total)
    if shortest == 0:
        raise ValueError(f"The arrays of the features column {features.describe()} are empty")
    return RowProfile({row["partition"]: row["rows"] for row in found}, int(shortest))


def _total(found: list[Row], name: str) -> int:
    return sum(row[name] for row in found)


def _refuse_nulls(
    rows: DataFrame, found: list[Row], features: FeatureColumns, label: LabelColumn, total: int
) -> None:
    nulls = {}
    if count := _total(found, "null_labels"):
        nulls[f"label column {label.name!r}"] = count
    if count := _total(found, "null_rows"):
        nulls[f"features column {features.describe()}"] = count
    if count := _total(found, "null_elements"):
        if features.kind == "scalars":
            nulls.update(_nulls_by_column(rows, features))
        else:
            nulls[f"arrays of the features column {features.describe()}"] = count
    if nulls:
        where = "; ".join(f"{column}: {count} of {total} rows" for column, count in nulls.items())
        raise ValueError(
            f"Nulls cannot be trained on. Found in {where}. Drop these rows (df.dropna()) or "
            "replace the nulls (df.fillna(...), pyspark.ml.feature.Imputer)"
        )


def _nulls_by_column(rows: DataFrame, features: FeatureColumns) -> dict[str, int]:
    counts = rows.agg(
        *(
            F.count_if(F.col(FEATURES)[index].isNull()).alias(str(index))
            for index in range(len(features.names))
        )
    ).collect()[0]
    return {
        f"features column {name!r}": counts[index]
        for index, name in enumerate(features.names)
        if counts[index]
    }


def _refuse_lengths(rows: DataFrame, features: FeatureColumns, total: int) -> None:
    lengths = (
        rows.groupBy(F.size(FEATURES).alias("length"))
        .agg(F.count(F.lit(1)).alias("rows"))
        .orderBy(F.desc("rows"), "length")
        .collect()
    )
    expected, *others = lengths
    wrong = sum(row["rows"] for row in others)
    shown = ", ".join(f"{row['length']} ({row['rows']} rows)" for row in others[:_SHOWN_LENGTHS])
    more = ", ..." if len(others) > _SHOWN_LENGTHS else ""
    raise ValueError(
        f"The features column {features.describe()} holds arrays of different lengths: expected "
        f"{expected['length']}, as {expected['rows']} of {total} rows have, but {wrong} rows have "
        f"another length: {shown}{more}"
    )
