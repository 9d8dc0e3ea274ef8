"""What the schema determines about inputs: columns, kinds, shapes, and errors. Runs no Spark."""

from typing import Any

import pytest
from pyspark.ml.linalg import VectorUDT
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sparkflow.spark.data.plan.sources import Source, feature_sources, label_source, weight_source
from sparkflow.spark.data.schema.frame import Schema

COLUMNS: dict[str, DataType] = {
    "real": DoubleType(),
    "whole": IntegerType(),
    "flag": BooleanType(),
    "money": DecimalType(10, 2),
    "count": DecimalType(10, 0),
    "text": StringType(),
    "vector": VectorUDT(),
    "reals": ArrayType(DoubleType()),
    "ids": ArrayType(LongType(), containsNull=False),
    "words": ArrayType(StringType()),
    "grid": ArrayType(ArrayType(DoubleType())),
    "bytes": BinaryType(),
    "day": DateType(),
    "moment": TimestampType(),
    "clock": TimestampNTZType(),
    "days": ArrayType(DateType()),
    "interval": DayTimeIntervalType(),
    "map": MapType(StringType(), DoubleType()),
    "with.dot": DoubleType(),
    "struct": StructType([StructField("field", DoubleType())]),
}
SCHEMA = Schema(tuple(StructField(name, kind) for name, kind in COLUMNS.items()))


def only(given: Any, shapes: Any = None, vector_format: str = "auto") -> Source:
    (source,), named = feature_sources(SCHEMA, given, shapes, vector_format)
    assert named == isinstance(given, dict)
    return source


@pytest.mark.parametrize(
    ("column", "shapes", "wanted"),
    [
        ("real", None, ("scalar", "float32", "dense", ())),
        ("whole", None, ("scalar", "int64", "dense", ())),
        ("flag", None, ("scalar", "int64", "dense", ())),
        ("money", None, ("scalar", "float32", "dense", ())),
        ("count", None, ("scalar", "int64", "dense", ())),
        ("day", None, ("scalar", "int64", "dense", ())),
        ("moment", None, ("scalar", "int64", "dense", ())),
        ("clock", None, ("scalar", "int64", "dense", ())),
        ("days", None, ("array", "int64", "ragged", ())),
        (["day", "real"], None, ("scalars", "float32", "dense", (2,))),
        ("text", None, ("scalar", "string", "dense", ())),
        ("text", [1], ("scalar", "string", "dense", (1,))),
        ("vector", None, ("vector", "float32", "", None)),
        ("vector", [28, 28, 1], ("vector", "float32", "dense", (28, 28, 1))),
        ("reals", None, ("array", "float32", "dense", None)),
        ("reals", [2, 2], ("array", "float32", "dense", (2, 2))),
        ("reals", [None], ("array", "float32", "ragged", ())),
        ("ids", None, ("array", "int64", "ragged", ())),
        ("ids", [10], ("array", "int64", "dense", (10,))),
        ("words", None, ("array", "string", "ragged", ())),
        ("words", [3], ("array", "string", "dense", (3,))),
        ("grid", None, ("array", "float32", "dense", None)),
        (["real", "whole"], None, ("scalars", "float32", "dense", (2,))),
        (["text"], None, ("scalars", "string", "dense", (1,))),
        ("with.dot", None, ("scalar", "float32", "dense", ())),
        ("REAL", None, ("scalar", "float32", "dense", ())),
    ],
)
def test_named_inputs(column: Any, shapes: Any, wanted: Any) -> None:
    source = only({"x": column}, {"x": shapes} if shapes else None)
    assert (source.form, source.dtype, source.kind, source.shape) == wanted
    assert source.name == "x"


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("whole", ("scalar", "float32", "dense", (1,))),
        ("text", ("scalar", "string", "dense", ())),
        ("ids", ("array", "float32", "dense", None)),
        ("words", ("array", "string", "ragged", ())),
        (["whole", "flag"], ("scalars", "float32", "dense", (2,))),
    ],
)
def test_the_only_input_is_a_matrix_of_floats(column: Any, wanted: Any) -> None:
    source = only(column)
    assert (source.form, source.dtype, source.kind, source.shape) == wanted
    assert source.name == "features"


def test_bytes_are_strings() -> None:
    assert only("bytes").dtype == "string"
    assert only("bytes").is_bytes
    assert only(["bytes", "text"]).is_bytes
    assert not only("text").is_bytes


def test_vector_formats() -> None:
    assert only("vector", vector_format="sparse").kind == "sparse"
    assert only({"v": "vector"}, vector_format="dense").kind == "dense"
    with pytest.raises(ValueError, match="vectorFormat is 'sparse'; only dense inputs"):
        only("vector", {"vector": [4]}, "sparse")


@pytest.mark.parametrize(
    ("given", "shapes", "kind", "text"),
    [
        ("map", None, TypeError, "F.map_keys"),
        ("interval", None, TypeError, "is interval day to second; it must hold"),
        ("struct", None, TypeError, "select its fields"),
        ("reel", None, ValueError, r"no column 'reel'; the DataFrame has real, .* mean 'real'"),
        ("struct.field", None, ValueError, r"withColumn\('field', F.col\('struct.field'\)\)"),
        (["real", "vector"], None, TypeError, "'vector' is vector .*dictionary"),
        (["real", "text"], None, TypeError, "'text' is a string and 'real' is a number"),
        (["real", "whole"], {"features": [3]}, ValueError, "3 elements, .* consists of 2 columns"),
        ({"x": "real"}, {"y": [1]}, ValueError, "shapes for 'y', but the inputs are 'x'"),
        ({"x": "real"}, {"x": [2]}, ValueError, "'real' holds single values"),
        ({"x": "grid"}, {"x": [None]}, ValueError, "arrays of arrays"),
        ({"x": "vector"}, {"x": [None]}, ValueError, "only arrays of one dimension"),
        ({"validates": "real"}, None, ValueError, "this name is reserved"),
        ({"a": "real", "A": "whole"}, None, ValueError, "'a' and 'A', which differ in case only"),
        ({"a`b": "real"}, None, ValueError, "backquotes"),
    ],
)
def test_what_cannot_be_an_input(given: Any, shapes: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        only(given, shapes)


def test_names_that_are_not_unique() -> None:
    twice = Schema((*SCHEMA.fields, StructField("Real", DoubleType())))
    with pytest.raises(ValueError, match=r"has 2 columns of this name \('real', 'Real'\)"):
        feature_sources(twice, "real")
    sensitive = Schema(twice.fields, case_sensitive=True)
    assert feature_sources(sensitive, "Real")[0][0].columns == ("Real",)
    with pytest.raises(ValueError, match=r"no column 'REAL'.* Did you mean 'Real'"):
        feature_sources(sensitive, "REAL")


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("whole", ("scalar", "int64", ())),
        ("flag", ("scalar", "int64", ())),
        ("count", ("scalar", "int64", ())),
        ("money", ("scalar", "float32", ())),
        ("vector", ("vector", "float32", None)),
        ("reals", ("array", "float32", None)),
        ("ids", ("array", "int64", None)),
    ],
)
def test_labels(column: str, wanted: Any) -> None:
    source = label_source(SCHEMA, column)
    assert (source.form, source.dtype, source.shape) == wanted
    assert source.kind == "dense"


def test_labels_and_weights_of_wrong_types() -> None:
    for column in ("text", "words", "grid"):
        with pytest.raises(TypeError, match=f"label column '{column}' .*StringIndexer"):
            label_source(SCHEMA, column)
    with pytest.raises(TypeError, match="weight column 'text' is string"):
        weight_source(SCHEMA, "text")
    with pytest.raises(ValueError, match=r"no column 'w'; .* \(weightCol names it\)"):
        weight_source(SCHEMA, "w")


def test_inputs_may_be_called_label_and_weight() -> None:
    assert label_source(SCHEMA, "whole", ["Label", "weight"]).name == "label_"
    assert weight_source(SCHEMA, "real", ["label", "weight", "weight_"]).name == "weight__"
