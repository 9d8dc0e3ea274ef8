"""The columns that hold predictions."""

from inspect import signature

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml.linalg import VectorUDT
from pyspark.sql.pandas.types import to_arrow_type

from sparkflow.export import Output, Signature
from sparkflow.spark.model.outputs import VECTOR, OutputColumn, output_columns, to_arrow, to_vectors
from sparkflow.spark.model.udf import takes_arrow
from sparkflow_runtime.errors import InvalidArgumentError

COLUMNS = {"prediction": "p", "probability": "q", "rawPrediction": "r"}


def _signature(**outputs: tuple[str, tuple[int | None, ...]]) -> Signature:
    return Signature.of_features(
        "x:0", 2, tuple(Output(name, f"{name}:0", *kind) for name, kind in outputs.items())
    )


def test_each_prediction_has_its_column() -> None:
    found = output_columns(
        _signature(
            prediction=("int64", (1,)),
            probability=("float32", ()),
            rawPrediction=("float32", (3,)),
            age=("int32", ()),
            score=("float64", ()),
            sure=("bool", ()),
            word=("string", ()),
            embedding=("float32", (8,)),
            top=("int64", (None,)),
            map=("float32", (2, 3)),
            words=("string", (2,)),
        ),
        COLUMNS,
    )
    assert found == [
        OutputColumn("prediction", "p", "double"),
        OutputColumn("probability", "q", "array<double>", True, "probability"),
        OutputColumn("rawPrediction", "r", "array<double>", True, ""),
        OutputColumn("age", "age", "bigint"),
        OutputColumn("score", "score", "double"),
        OutputColumn("sure", "sure", "boolean"),
        OutputColumn("word", "word", "string"),
        OutputColumn("embedding", "embedding", "array<float>"),
        OutputColumn("top", "top", "array<bigint>"),
        OutputColumn("map", "map", "array<array<float>>"),
        OutputColumn("words", "words", "array<string>"),
    ]


def test_an_empty_name_leaves_a_prediction_out() -> None:
    signature = _signature(prediction=("int64", ()), probability=("float32", ()))
    found = output_columns(signature, {**COLUMNS, "probability": ""})
    assert [each.column for each in found] == ["p"]


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ({"prediction": ("float32", (3,))}, r"'prediction' must be one number per row, it has"),
        ({"probability": ("string", ())}, "'probability' is a string"),
        ({"probability": ("float32", (2, 2))}, r"becomes a vector, but it has the shape \(2, 2\)"),
        ({"z": ("complex64", ())}, "'z' is complex64; Spark columns can be made of"),
        ({"p": ("float32", ()), "prediction": ("float32", ())}, "goes to the columns p"),
    ],
)
def test_predictions_that_fit_no_column(
    outputs: dict[str, tuple[str, tuple[int | None, ...]]], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        output_columns(_signature(**outputs), COLUMNS)


@pytest.mark.parametrize(
    ("value", "column"),
    [
        (np.array([1.5, 2]), OutputColumn("a", "a", "double")),
        (np.array([[1, 2], [3, 4]]), OutputColumn("a", "a", "array<bigint>")),
        (np.arange(12.0).reshape(2, 3, 2), OutputColumn("a", "a", "array<array<float>>")),
        (np.zeros((0, 3), np.float32), OutputColumn("a", "a", "array<float>")),
    ],
)
def test_arrays_keep_their_shape(value: np.ndarray, column: OutputColumn) -> None:
    assert to_arrow(value, column).to_pylist() == value.tolist()


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_lists_become_dense_vectors(rows: int) -> None:
    value = np.arange(rows * 2.0).reshape(rows, 2)
    made = to_vectors(to_arrow(value, OutputColumn("a", "a", "array<double>", True)))
    assert made.type == VECTOR
    if takes_arrow():  # and compares with its own names, and nullability
        given = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
        assert str(VECTOR) == str(to_arrow_type(VectorUDT.sqlType(), **given))
    expected = [{"type": 1, "size": None, "indices": None, "values": row} for row in value.tolist()]
    assert made.to_pylist() == expected
    assert not pa.concat_arrays([made, made]).null_count


def test_texts_are_utf_8() -> None:
    column = OutputColumn("a", "a", "array<string>")
    value = np.array([["ä".encode(), b""], [b"b", b"c"]], object)
    assert to_arrow(value, column).to_pylist() == [["ä", ""], ["b", "c"]]
    with pytest.raises(InvalidArgumentError, match="'a' has texts that are not UTF-8"):
        to_arrow(np.array([b"\xff"], object), OutputColumn("a", "a", "string"))


def test_numbers_beyond_bigint_are_refused() -> None:
    column = OutputColumn("hash", "hash", "bigint")
    fine = np.array([0, 2**63 - 1], np.uint64)
    assert to_arrow(fine, column).to_pylist() == fine.tolist()
    with pytest.raises(InvalidArgumentError, match=f"'hash' is {2**63} in some row.*tf.bitcast"):
        to_arrow(fine + np.uint64(1), column)
    assert to_arrow(fine + np.uint64(1), OutputColumn("prediction", "p", "double"))[1].as_py() > 0
