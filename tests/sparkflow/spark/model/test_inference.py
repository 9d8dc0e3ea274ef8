"""Predictions as Arrow arrays, and the columns they become."""

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Output, Signature
from sparkflow.spark.model.inference import (
    OutputColumn,
    output_columns,
    predict_batches,
)
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
            embedding=("float32", (8,)),
            top=("int64", (None,)),
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
        OutputColumn("embedding", "embedding", "array<float>"),
        OutputColumn("top", "top", "array<bigint>"),
    ]


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ({"prediction": ("float32", (3,))}, "'prediction' must be one number per row, it has 3"),
        ({"name": ("string", ())}, "'name' is string; Spark columns can be made of"),
        ({"z": ("complex64", ())}, "'z' is complex64"),
        ({"p": ("float32", ()), "prediction": ("float32", ())}, "goes to the columns p"),
    ],
)
def test_predictions_that_fit_no_column(
    outputs: dict[str, tuple[str, tuple[int | None, ...]]], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        output_columns(_signature(**outputs), COLUMNS)


@pytest.fixture(scope="module")
def model_files() -> dict[str, bytes]:
    """Sums and halves the features."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        tf.reduce_sum(x, axis=1, name="total")
        tf.multiply(x, 0.5, name="half")
    signature = Signature.of_features(
        "x:0",
        2,
        (Output("total", "total:0", "float32", ()), Output("half", "half:0", "float32", (2,))),
    )
    return InferenceModel.build(graph.as_graph_def(), {}, signature).to_files()


def _run(
    files: dict[str, bytes], columns: list[OutputColumn], rows: list[list[float] | None]
) -> list[dict[str, object]]:
    array = pa.array(rows, pa.list_(pa.float32()))
    # Two batches, the second one a slice that does not begin at the array's begin.
    batches = [array[:1], array[1:]]
    return [row for out in predict_batches(files, columns, 2, batches) for row in out.to_pylist()]


def test_batches_are_cut_and_put_together(model_files: dict[str, bytes]) -> None:
    columns = [
        OutputColumn("half", "half", "array<float>"),
        OutputColumn("total", "q", "array<double>", True, "probability"),
    ]
    rows = [[i / 8, i / 16] for i in range(6)]
    found = _run(model_files, columns, rows)
    assert found == [{"half": [a / 2, b / 2], "total": [1 - (a + b), a + b]} for a, b in rows]


def test_a_raw_prediction_has_two_sides(model_files: dict[str, bytes]) -> None:
    columns = [OutputColumn("total", "r", "array<double>", True, "rawPrediction")]
    assert _run(model_files, columns, [[1, 2]]) == [{"total": [-3.0, 3.0]}]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([[1, 2], None], "Nulls in the features of 1 of 1 rows"),
        ([[1, 2], [1, None]], "Nulls in the features of 1 of 1 rows"),
        ([[1, 2], [1, 2], [1]], "have 1 to 2 elements"),
        ([[1, 2, 3]], r"takes features of shape \(batch, 2\), got \(1, 3\)"),
    ],
)
def test_wrong_features(model_files: dict[str, bytes], rows: list[list[float]], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        _run(model_files, [OutputColumn("total", "t", "double")], rows)


def test_no_rows(model_files: dict[str, bytes]) -> None:
    columns = [OutputColumn("half", "half", "array<float>")]
    empty = pa.array([], pa.list_(pa.float32()))
    (found,) = predict_batches(model_files, columns, 2, [empty])
    assert len(found) == 0
    assert found.type == pa.struct({"half": pa.list_(pa.float32())})
    assert np.dtype(found.type[0].type.value_type.to_pandas_dtype()) == np.float32
