"""What a model of MLflow accepts if nobody checks the signature."""

from typing import Any

import numpy as np
import pytest

from sparkflow.export import InferenceModel, Input
from sparkflow.export.mlflow.pyfunc import PyfuncModel, _rows
from sparkflow.export.values import exact
from sparkflow_runtime.errors import InvalidArgumentError

pd = pytest.importorskip("pandas")
linalg = pytest.importorskip("pyspark.ml.linalg")

ROW = {
    "age": 1.5,
    "id": 10,
    "pixels": [[1.0, 2.0], [3.0, 4.0]],
    "title": "ä",
    "words": ["a", "zz", "c"],
    "nums": [1.0, 1.0],
}


@pytest.mark.parametrize(
    "bag",
    [
        {"indices": [1, 3], "values": [2.0, 1.0]},
        {"indices": [3, 1], "values": [1.0, 2.0]},
        [0.0, 2.0, 0.0, 1.0],
        linalg.SparseVector(4, [1, 3], [2.0, 1.0]),
        linalg.DenseVector([0.0, 2.0, 0.0, 1.0]),
    ],
)
def test_sparse_rows_come_in_every_form(mixed: InferenceModel, bag: Any) -> None:
    model = PyfuncModel(mixed.predictor(), batch_size=2)
    found = model.predict(pd.DataFrame([{**ROW, "bag": bag}] * 5))
    assert found["total"].tolist() == [26.5] * 5
    assert found["embedded"].tolist() == [1101.0] * 5
    assert found["shout"].tolist() == ["ä!"] * 5


@pytest.mark.parametrize(
    ("bag", "text"),
    [
        ({"indices": [4], "values": [1.0]}, "indices from 4 to 4; there are 4, from 0"),
        ({"indices": [-1, 2], "values": [1.0, 1.0]}, "indices from -1 to 2"),
        ({"indices": [1], "values": []}, "1 indices and 0 values"),
        ({"indices": [1.5], "values": [1.0]}, "the input 'bag' must be int64: 1.5 would become 1"),
    ],
)
def test_sparse_rows_that_do_not_fit_are_refused(
    mixed: InferenceModel, bag: Any, text: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        PyfuncModel(mixed.predictor()).predict(pd.DataFrame([{**ROW, "bag": bag}]))


@pytest.mark.parametrize("given", [10.5, float("nan"), 1e19])
def test_no_fraction_of_an_integer_is_cut_off(mixed: InferenceModel, given: float) -> None:
    frame = pd.DataFrame([{**ROW, "bag": [0.0, 2.0, 0.0, 1.0], "id": given}])
    with pytest.raises(InvalidArgumentError, match=r"the input 'id' must be int64: \S+ would"):
        PyfuncModel(mixed.predictor()).predict(frame)
    whole = PyfuncModel(mixed.predictor()).predict(frame.assign(id=10.0))
    assert whole["total"].tolist() == [26.5]


def test_missing_columns_are_named(mixed: InferenceModel) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\['bag'\] are missing"):
        PyfuncModel(mixed.predictor()).predict(pd.DataFrame([ROW]))


def test_one_dense_input_is_an_array_a_column_or_columns(classifier: InferenceModel) -> None:
    model = PyfuncModel(classifier.predictor())
    rows = np.float32([[1, 2, 3], [4, 5, 6]])
    expected = classifier.predict(rows)["probability"]
    vectors = [linalg.Vectors.dense(row) for row in rows]
    for given in (
        rows,
        pd.DataFrame(rows),
        pd.DataFrame({"features": list(rows)}),
        pd.DataFrame({"features": rows.tolist()}),
        pd.DataFrame({"features": vectors}),
    ):
        np.testing.assert_array_equal(model.predict(given)["probability"], expected)


def test_no_rows_give_no_rows(mixed: InferenceModel, classifier: InferenceModel) -> None:
    given = pd.DataFrame([{**ROW, "bag": [0.0] * 4}])
    for frame in (given[:0], pd.DataFrame({name: [] for name in given})):
        found = PyfuncModel(mixed.predictor()).predict(frame)
        assert {len(each) for each in found.values()} == {0}
    for rows in (pd.DataFrame({"features": []}), pd.DataFrame({"features": [[1.0] * 3]})[:0], []):
        assert len(PyfuncModel(classifier.predictor()).predict(rows)["probability"]) == 0


def test_lists_of_times_are_counted_in_microseconds() -> None:
    times = np.array(["1970-01-01T00:00:01", "1970-01-01T00:00:02"], "M8[ns]")
    given = Input("at", "ragged", "int64", (), ("i:0", "v:0", "s:0"))
    (row,) = _rows(given, pd.Series([times]))
    assert exact(row, "int64").tolist() == [1_000_000, 2_000_000]
