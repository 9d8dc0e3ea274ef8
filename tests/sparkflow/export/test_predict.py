"""`InferenceModel.predict`: inputs of every kind, in the forms that users have."""

import datetime
import decimal
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import sparkflow as tf
from sparkflow.export import InferenceModel, Input, Output, Signature, predictor
from sparkflow.export.values import exact
from sparkflow_runtime.errors import InvalidArgumentError

WORDS = ("words/i:0", "words/v:0", "words/s:0")
BAG = ("bag/i:0", "bag/v:0", "bag/s:0")


@pytest.fixture(scope="module")
def model() -> InferenceModel:
    """An age, words counted by a table, and a sparse bag."""
    graph = tf.Graph()
    with graph.as_default():
        age = tf.placeholder(tf.float32, [None], name="age")
        bag, words = (
            tf.SparseTensor(
                tf.placeholder(tf.int64, [None, 2], name=f"{name}/i"),
                tf.placeholder(dtype, [None], name=f"{name}/v"),
                tf.placeholder(tf.int64, [2], name=f"{name}/s"),
            )
            for name, dtype in (("bag", tf.float32), ("words", tf.string))
        )
        table = tf.contrib.lookup.index_table_from_tensor(["a", "b"], num_oov_buckets=1)
        values = tf.get_variable("values", [3, 1])
        found = tf.gather(values, table.lookup(words.values))
        of_row = tf.SparseTensor(words.indices, tf.reshape(found, [-1]), words.dense_shape)
        total = tf.sparse_reduce_sum(of_row, 1) + tf.sparse_reduce_sum(bag, 1)
        tf.add(total, age, name="total")
        initializers = tuple(
            each.name for each in tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
        )
    inputs = (
        Input("age", "dense", "float32", (), ("age:0",)),
        Input("words", "ragged", "string", (), WORDS),
        Input("bag", "sparse", "float32", (3,), BAG),
    )
    signature = Signature(inputs, (Output("total", "total:0", "float32", ()),), True, initializers)
    values = np.array([[1.0], [10.0], [100.0]], np.float32)
    return InferenceModel.build(graph.as_graph_def(), {"values": values}, signature)


AGE = np.array([0.5, 0.25])
LISTS = [["a", "b"], ["ä"]]
SPARSE_WORDS = tf.SparseTensorValue([[0, 0], [0, 1], [1, 0]], ["a", b"b", "ä"], [2, 2])
DENSE_BAG = np.array([[0, 0, 1000], [2000, 0, 0]], np.float32)


@pytest.mark.parametrize("words", [LISTS, SPARSE_WORDS, np.array([*LISTS, []], object)[:2]])
@pytest.mark.parametrize(
    "bag",
    [
        DENSE_BAG,
        DENSE_BAG.tolist(),
        scipy.sparse.csr_matrix(DENSE_BAG),
        scipy.sparse.csc_matrix(DENSE_BAG),
        tf.SparseTensorValue([[0, 2], [1, 0]], [1000.0, 2000.0], [2, 3]),
    ],
)
def test_every_form_of_an_input_gives_the_same(model: InferenceModel, words: Any, bag: Any) -> None:
    given = {"age": AGE, "words": words, "bag": bag}
    assert model.predict(given)["total"].tolist() == [1011.5, 2100.25]
    assert model.predict(given, batch_size=1)["total"].tolist() == [1011.5, 2100.25]


def test_what_is_run_is_cut(model: InferenceModel) -> None:
    rows = 7
    given = {
        "age": list(range(rows)),
        "words": [["a"] * (row % 3) for row in range(rows)],
        "bag": scipy.sparse.eye(rows, 3, format="coo"),
    }
    whole = model.predict(given)["total"]
    assert whole.tolist() == [row + row % 3 + (row < 3) for row in range(rows)]
    assert model.predict(given, batch_size=3)["total"].tolist() == whole.tolist()
    empty = {"age": [], "words": [], "bag": np.zeros((0, 3))}
    assert model.predict(empty)["total"].shape == (0,)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"age": None, "ages": AGE}, "lacks 'age' and has 'ages', which it does not know"),
        ({"age": [1.0]}, "different numbers of rows: 'age': 1, 'words': 2, 'bag': 2"),
        ({"age": np.zeros((2, 2))}, r"takes the input 'age' of shape \(batch,\), got \(2, 2\)"),
        ({"age": ["old", "young"]}, "the input 'age' must be float32: could not convert"),
        ({"words": ["ab", "c"]}, "the input 'words' must have a list per row, got the row 'ab'"),
        ({"words": [[1], [2]]}, "the input 'words' must be string: a string is needed, got 1"),
        ({"bag": np.zeros((2, 4))}, r"'bag' of shape \(batch, 3\), got \(2, 4\)"),
        ({"bag": ([[0, 0]], [1.0, 2.0], [2, 3])}, "must be a SparseTensorValue of rank 2"),
        ({"bag": ([[0.5, 0]], [1.0], [2, 3])}, "'bag' must be int64: 0.5 would become 0"),
    ],
)
def test_values_that_do_not_fit(model: InferenceModel, changes: Any, text: str) -> None:
    given = {"age": AGE, "words": LISTS, "bag": DENSE_BAG, **changes}
    with pytest.raises(InvalidArgumentError, match=text):
        model.predict({name: value for name, value in given.items() if value is not None})


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ([[1, 2], [3, 4]], "int64"),
        ([True, False], "int32"),
        ([1.0, -(2.0**63)], "int64"),
        (np.array([3, 4.0], object), "uint8"),
        ([2**64 - 1], "uint64"),
        ([], "int64"),
        ([1.5, np.nan], "float32"),
        (["7"], "int64"),
    ],
)
def test_numbers_that_a_dtype_has(given: Any, dtype: str) -> None:
    array = exact(given, dtype)
    assert array.dtype == dtype
    np.testing.assert_array_equal(array, np.asarray(given, array.dtype))


@pytest.mark.parametrize(
    ("given", "dtype", "text"),
    [
        ([1, 2.5], "int64", "2.5 would become 2"),
        ([[1.0], [np.nan]], "int32", "nan would become"),
        ([np.inf], "int64", "inf would become"),
        ([2.0**63], "int64", r"9.22\S+ would become"),
        (np.array([2**40]), "int32", f"{2**40} would become 0"),
        (np.array([-1]), "uint8", "-1 would become 255"),
        (np.array([-1]), "uint64", "-1 would become"),
        (np.array([1, decimal.Decimal("0.5")], object), "int64", "0.5 would become 0"),
        (np.array([2, 1.25], object), "int16", "1.25 would become 1"),
    ],
)
def test_an_integer_is_what_was_given_or_refused(given: Any, dtype: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        exact(given, dtype)


AT = np.datetime64("2026-01-01T00:00:01.123456789")
AT_US = 1_767_225_601_123_456
DAY = 20_454


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array([AT, np.datetime64(-1, "ns")]), [AT_US, -1]),
        (np.array([AT], "datetime64[us]"), [AT_US]),
        (np.array([AT], "datetime64[ms]"), [AT_US // 1000 * 1000]),
        (np.array([AT], "datetime64[s]"), [AT_US // 10**6 * 10**6]),
        (np.array([AT], "datetime64[D]"), [DAY]),
        (pd.Series([AT, AT]), [AT_US, AT_US]),
        (pd.Series([AT]).dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"), [AT_US]),
        ([pd.Timestamp(AT), datetime.datetime(1970, 1, 1, 0, 0, 1)], [AT_US, 10**6]),
        ([datetime.date(2026, 1, 1)], [DAY]),
    ],
)
def test_times_are_counted_as_in_spark(given: Any, expected: list[int]) -> None:
    assert exact(given, "int64").tolist() == expected
    assert exact(given, "float32").tolist() == np.float32(expected).tolist()


@pytest.mark.parametrize(
    "given",
    [np.array([AT, "NaT"], "M8[ns]"), [pd.Timestamp(AT), pd.NaT], np.array([0, 2**62], "M8[s]")],
)
def test_a_time_that_is_missing_is_no_number(given: Any) -> None:
    assert np.isnan(exact(given, "float32")).tolist() == [False, True]
    with pytest.raises((ValueError, TypeError), match=r"nan would become|NoneType"):
        exact(given, "int64")
    with pytest.raises(ValueError, match=r"timedelta64\[s\] is a duration: divide it"):
        exact(np.array([5], "m8[s]"), "int64")


def test_named_inputs_need_names(model: InferenceModel) -> None:
    with pytest.raises(InvalidArgumentError, match="takes a dictionary of 'age', 'words', 'bag'"):
        model.predict(AGE)


def test_models_of_every_kind_are_files(model: InferenceModel, tmp_path: Any) -> None:
    model.save(tmp_path)
    loaded = InferenceModel.load(tmp_path)
    assert loaded.signature == model.signature
    given = {"age": AGE, "words": LISTS, "bag": DENSE_BAG}
    assert loaded.predict(given)["total"].tolist() == [1011.5, 2100.25]
    loaded.close()
    loaded.close()


def test_large_variables_are_not_made_constants(
    model: InferenceModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictor, "_FROZEN_BYTES", 4)
    with_variables = model.predictor()
    given = {"age": AGE, "words": LISTS, "bag": DENSE_BAG}
    assert with_variables(given)["total"].tolist() == [1011.5, 2100.25]
    with_variables.close()


def test_the_graph_with_and_without_its_variables(model: InferenceModel) -> None:
    assert "VariableV2" not in {node.op for node in model.to_graph_def().node}
    assert "VariableV2" in {node.op for node in model.to_graph_def(frozen=False).node}
    graph = tf.Graph()
    with graph.as_default(), tf.Session() as session:
        tf.import_graph_def(model.to_graph_def(), name="")
        session.run(list(model.signature.initializers))
        feeds = {"age:0": AGE, "bag/i:0": [[0, 2]], "bag/v:0": [5.0], "bag/s:0": [2, 3]}
        feeds |= dict(zip(WORDS, SPARSE_WORDS, strict=True))
        assert session.run("total:0", feeds).tolist() == [16.5, 100.25]


def test_the_summary_counts(model: InferenceModel) -> None:
    history = {
        "loss": [2.0, 0.5],
        "rows": [10, 10],
        "rows_per_epoch": 10,
        "seconds": 0.5,
        "validation": [{"step": 77, "time": 0.1, "loss": 0.375}],
    }
    described = InferenceModel.build(
        model.graph_def, model.variables, model.signature, {"history": history}
    ).summary()
    assert described.num_parameters == 3
    text = str(described)
    assert "Layers: 3 parameters, 0.00 MB" in text
    assert "  words  ragged  string   (?, ?)" in text
    assert "77" not in text
    for figure in (
        "steps",
        "validation loss",
        "0.375",
        "20",
        "epochs",
        "0.5",
        "rows per second",
        "40",
    ):
        assert figure in text.rpartition("Training")[2]
    html = described._repr_html_()
    assert html.count("<table>") == 4
    assert "<td" in html
    assert "Training" not in str(model.summary())


def test_predictions_need_no_spark() -> None:
    program = (
        "import sys, sparkflow.export; "
        "assert not [m for m in sys.modules if m.partition('.')[0] in ('pyspark', 'pyarrow')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
