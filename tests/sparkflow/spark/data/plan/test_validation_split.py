"""How validation rows are chosen: what is rejected before reading rows, and the shares."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, DoubleType, TimestampType

from sparkflow.spark.data.plan.sources import SCALAR, Source
from sparkflow.spark.data.plan.validation_split import (
    drawn,
    indicator,
    require_same,
    require_some,
)
from sparkflow.spark.data.schema.frame import Schema
from sparkflow.spark.data.schema.row_format import DENSE
from sparkflow.spark.data.schema.row_schema import ARRAY, VECTOR
from sparkflow.spark.params.tables.data_rows import CONTENT, SINGLE, STRATIFIED

AGE = Source("features", ("age",), SCALAR, "float32", DENSE, (), types=(DoubleType(),))


def test_a_run_without_training_or_validation_rows_is_refused() -> None:
    require_some(1, 0, asked=False)
    require_some(1, 1, asked=True)
    with pytest.raises(ValueError, match="All 7 rows are validation rows"):
        require_some(0, 7, asked=True)
    with pytest.raises(ValueError, match="None of the 7 rows is a validation row"):
        require_some(7, 0, asked=True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dtype": "int64"}, "has float32 values, .* has int64 values"),
        ({"form": ARRAY, "depth": 2}, "has arrays of arrays of float32 values"),
        ({"form": VECTOR}, "has vectors"),
        ({"types": (DateType(),)}, "has float32 values .days since 1970."),
        ({"types": (TimestampType(),)}, "has float32 values .microseconds since 1970."),
    ],
)
def test_validation_rows_of_other_types_are_refused(changes: dict, said: str) -> None:
    require_same([AGE], [replace(AGE, columns=("years",))])
    with pytest.raises(TypeError, match=f"The features column 'age' of the training rows.*{said}"):
        require_same([AGE], [replace(AGE, **changes)])


@pytest.mark.parametrize("given", [None, "string", "float32", VECTOR])
def test_only_integers_can_be_stratified(spark: SparkSession, given: str | None) -> None:
    form = VECTOR if given == VECTOR else SCALAR
    label = None if given is None else replace(AGE, dtype=given, form=form)
    said = "missing" if given is None else "vectors" if given == VECTOR else f"{given} values"
    with pytest.raises(ValueError, match=f"must be a column of integers; it is {said}"):
        drawn(["age"], 0.5, 1, STRATIFIED, label)


def test_shares_of_rows(spark: SparkSession) -> None:
    """400 rows, 100 of which are each equal to three others; a tenth belongs to class 1."""
    label = Source("y", ("y",), SCALAR, "int64", DENSE, (), role="label")
    chosen = {
        "content": drawn(["x"], 0.3, 3, CONTENT),
        "other": drawn(["x"], 0.3, 4, CONTENT),
        "single": drawn(["x"], 0.3, 3, SINGLE),
        "stratified": drawn(["x", "y"], 0.3, 3, STRATIFIED, label),
    }
    frame = spark.range(0, 400, 1, 1).selectExpr(
        "if(id < 100, id div 4, id) AS x", "int(id % 10 = 0) AS y"
    )
    found = frame.select("*", *(each.alias(name) for name, each in chosen.items())).toPandas()
    # Equal rows are on the same side, unless they are drawn one by one.
    assert len(found[["x", "content"]].drop_duplicates()) == 325
    assert len(found[["x", "single"]].drop_duplicates()) > 325
    assert 80 <= found.content.sum() <= 160
    assert (found.content != found.other).any()
    by_class = found.groupby("y").stratified.sum()
    assert by_class.to_dict() == {1: 12, 0: 108}


def test_a_column_says_it(spark: SparkSession) -> None:
    frame = spark.sql("SELECT * FROM VALUES (true, 1), (false, 2), (null, 3) AS t(v, x)")
    chosen = frame.select(indicator(Schema.of(frame), "v")).collect()
    assert [row[0] for row in chosen] == [True, False, False]
    with pytest.raises(TypeError, match="'x' is int; it must be boolean"):
        indicator(Schema.of(frame), "x")
