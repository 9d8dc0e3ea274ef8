"""Batches in Python workers: cut, joined, checked, predicted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Input, Output, Predictor, Signature
from sparkflow.spark.data.schema.row_schema import ARRAY, InputColumns
from sparkflow.spark.model.outputs import OutputColumn
from sparkflow.spark.model.prediction import (
    VALID,
    InferencePlan,
    Place,
    predict_batches,
    predictor_for,
)
from sparkflow_runtime.errors import InvalidArgumentError

HALF = OutputColumn("half", "half", "array<float>")
TOTAL = OutputColumn("total", "t", "double")


@pytest.fixture(scope="module")
def model() -> InferenceModel:
    """Sums and halves the features."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        tf.reduce_sum(x, axis=1, name="total")
        tf.multiply(x, 0.5, name="half")
    outputs = (Output("total", "total:0", "float32", ()), Output("half", "half:0", "float32", (2,)))
    signature = Signature.of_features("x:0", 2, outputs)
    return InferenceModel.build(graph.as_graph_def(), {}, signature)


class Watched:
    """A predictor that records how many rows it was run on."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self.rows: list[int] = []

    def run(self, arrays: Sequence[Any]) -> dict[str, Any]:
        self.rows.append(len(arrays[0]))
        return self._predictor.run(arrays)


@pytest.fixture
def predictor(model: InferenceModel) -> Any:
    found = model.predictor()
    yield Watched(found)
    found.close()


def _plan(*columns: OutputColumn, **changes: Any) -> InferencePlan:
    given = Input("features", "dense", "float32", (2,), ("x:0",))
    plan = InferencePlan("key", (InputColumns(given, ARRAY, ("col",)),), columns, batch_size=4)
    return replace(plan, **changes)


def _run(plan: InferencePlan, predictor: Any, *batches: list[Any]) -> list[Any]:
    arrays = [(pa.array(batch, pa.list_(pa.float32())),) for batch in batches]
    return [row for out in predict_batches(plan, predictor, arrays) for row in out.to_pylist()]


def test_small_batches_are_joined_and_large_ones_cut_evenly(predictor: Any) -> None:
    rows = [[i / 8, i / 16] for i in range(15)]
    found = _run(
        _plan(HALF, TOTAL), predictor, rows[:1], rows[1:3], rows[3:4], rows[4:13], rows[13:]
    )
    assert found == [{"half": [a / 2, b / 2], "total": a + b} for a, b in rows]
    assert predictor.rows == [4, 3, 3, 3, 2]


def test_a_slice_need_not_begin_where_its_array_does(predictor: Any) -> None:
    array = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32()))[1:]
    (found,) = predict_batches(_plan(TOTAL), predictor, [(array,)])
    assert found.to_pylist() == [{"total": 7}, {"total": 11}]


def test_one_number_per_row_becomes_two(predictor: Any) -> None:
    for name, expected in (("probability", [-2.0, 3.0]), ("rawPrediction", [-3.0, 3.0])):
        column = OutputColumn("total", "r", "array<double>", True, name)
        assert _run(_plan(column), predictor, [[1, 2]]) == [{"total": expected}]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([[1, 2], None], "1 of 2 rows of a batch hold nulls or NaNs in the features column 'col'"),
        ([[1, 2], [1, None], [float("nan"), 2]], "2 of 3 rows of a batch .*set the model's handle"),
        (
            [[1, 2], [1, 2], [1], [1, 2, 3]],
            "takes 2 elements per row for 'features', but 2 of 4 rows of a batch have a different "
            "number in column 'col': 1, 3",
        ),
    ],
)
def test_wrong_features(predictor: Any, rows: list[Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        _run(_plan(TOTAL), predictor, rows)


@pytest.mark.parametrize("policy", ["skip", "keep"])
def test_rows_with_nulls_have_no_predictions(predictor: Any, policy: str) -> None:
    plan = _plan(TOTAL, handle_invalid=policy)
    rows = [[1, 2], None, [3, None], [4, 5], [float("nan"), 1], [1, float("inf")]]
    assert _run(plan, predictor, rows) == [
        {"total": 3, VALID: True},
        None,
        None,
        {"total": 9, VALID: True},
        None,
        {"total": float("inf"), VALID: True},
    ]


def test_nulls_are_filled(predictor: Any) -> None:
    plan = _plan(TOTAL, handle_invalid="fill", fill_value=10.0)
    rows = [[1, 2], None, [3, None], [float("nan"), 1]]
    assert _run(plan, predictor, rows) == [{"total": total} for total in (3, 20, 13, 11)]


def test_no_rows(predictor: Any) -> None:
    empty = pa.array([], pa.list_(pa.float32()))
    (found,) = predict_batches(_plan(HALF), predictor, [(empty,)])
    assert len(found) == 0
    assert found.type == pa.struct({"half": pa.list_(pa.float32())})
    assert list(predict_batches(_plan(HALF), predictor, [])) == []


def test_a_model_is_loaded_once_per_process_and_place(model: InferenceModel) -> None:
    loads = []

    def load() -> InferenceModel:
        loads.append(1)
        return model

    first = predictor_for("once", Place(), load)
    assert predictor_for("once", Place(), load) is first
    assert len(loads) == 1
    assert predictor_for("once", Place("/device:CPU:0"), load) is not first
    for index in range(4):
        predictor_for(f"other {index}", Place(), load)
    assert predictor_for("once", Place(), load) is not first  # the oldest ones are dropped


def test_predictions_need_one_row_per_row() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        tf.identity(tf.reduce_sum(x, axis=1)[:2], name="total")
    signature = Signature.of_features("x:0", 2, (Output("total", "total:0", "float32", ()),))
    model = InferenceModel.build(graph.as_graph_def(), {}, signature)
    with pytest.raises(InvalidArgumentError, match=r"'total'.*\(2,\) for 3 rows: it must have"):
        _run(_plan(TOTAL), model.predictor(), [[1.0, 2.0]] * 3)


def test_rows_are_as_wide_as_the_longest_of_their_run() -> None:
    graph = tf.Graph()
    with graph.as_default():
        given = Input("x", "ragged", "int64", (), ("i:0", "v:0", "s:0"))
        tokens = tf.SparseTensor(
            tf.placeholder(tf.int64, [None, 2], name="i"),
            tf.placeholder(tf.int64, [None], name="v"),
            tf.placeholder(tf.int64, [2], name="s"),
        )
        tf.sparse_tensor_to_dense(tokens, name="tags")
    output = Output("tags", graph.get_operations()[-1].name + ":0", "int64", (None,))
    model = InferenceModel.build(graph.as_graph_def(), {}, Signature((given,), (output,), True))
    rows = [[1], [2, 3], [4], [5]]
    plan = InferencePlan(
        "key",
        (InputColumns(given, ARRAY, ("x",)),),
        (OutputColumn("tags", "tags", "array<bigint>"),),
        batch_size=2,
    )
    batch = (pa.array(rows, pa.list_(pa.int64())),)
    (found,) = predict_batches(plan, model.predictor(), [batch])
    assert found.field("tags").to_pylist() == [[1, 0], [2, 3], [4], [5]]
    # An array has one width: that of a single run.
    tags = model.predict({"x": rows}, batch_size=2)["tags"]
    assert tags.tolist() == [[1, 0], [2, 3], [4, 0], [5, 0]]
