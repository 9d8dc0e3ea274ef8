"""Wide & deep networks without Spark: which columns go where, and what is learnt from them."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.data.schema.row_format import Input, RowFormat
from sparkflow.spark.estimators.statistics import LabelRange, Moments, RowStatistics
from sparkflow.spark.estimators.wide_deep import SparkWideDeepClassifier, SparkWideDeepRegressor

pytestmark = pytest.mark.spark  # pyspark.ml's Params need no session, but pyspark

CITIES = np.array([b"Rome", b"Oslo", b"Oslo", b"Bern", b"Rome", b"Bern"])
DAYS = np.array([1, 2, 1, 3, 2, 3])
SIZES = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], np.float32)
FORMAT = RowFormat(
    (
        Input("city", "dense", "string", ()),
        Input("day", "dense", "int64", ()),
        Input("size", "dense", "float32", ()),
        Input("tags", "ragged", "string", ()),
    ),
    Input("label", "dense", "float32", ()),
    None,
    named=True,
)


class Rows(NamedTuple):
    format: RowFormat


class Data(NamedTuple):
    prepared: Rows
    facts: RowStatistics
    worker_rows: tuple[int, ...]
    labels: Any
    shards: None = None


def data(labels: Any, more: Any = None) -> Any:
    moments = {"size": Moments(np.array([2.0]), np.array([2.0])), **(more or {})}
    label = Moments(np.array([np.mean(labels)]), np.array([np.std(labels)]))
    found = LabelRange(min(labels), max(labels), None)
    facts = RowStatistics(moments, label, found, 1.0, len(DAYS), {"day": len(set(DAYS))})
    return Data(Rows(FORMAT), facts, (len(DAYS),), np.asarray(labels, np.float32))


def features(changed: Any) -> dict[str, Any]:
    tags = tf.SparseTensor(
        tf.constant([[0, 0], [0, 1], [3, 0]], tf.int64),
        tf.constant([b"old", b"big", b"old"]),
        tf.constant([6, 2], tf.int64),
    )
    return {
        "city": tf.constant(CITIES),
        "day": tf.constant(DAYS, tf.int64),
        "size": tf.constant(SIZES),
        "tags": tags,
        **{name: tf.constant(value) for name, value in changed.items()},
    }


def train(
    estimator: Any, given: Any, steps: int, changed: Any = MappingProxyType({})
) -> tuple[dict[str, Any], Any]:
    """Returns the final variables, and predictions; `changed` are different features by name."""
    model_fn = estimator.model_fn_for(given)
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.set_random_seed(1)
        spec = model_fn(features(changed), tf.constant(given.labels), "train")
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            predictions = model_fn(features(changed), None, "infer").predictions
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for _ in range(steps):
            session.run(spec.train_op)
        values = {each.op.name: session.run(each) for each in tf.global_variables()}
        return values, session.run(predictions)


def test_a_cross_learns_what_single_columns_cannot() -> None:
    """1 if city and day agree in a way that is not a sum: exclusive or."""
    labels = [
        1.0 if (city == b"Oslo") != (day == 1) else 0.0
        for city, day in zip(CITIES, DAYS, strict=True)
    ]
    wide = SparkWideDeepClassifier(wideCols=["city", "day"], hashBuckets=50)
    crossed = wide.copy({wide.crossCols: [["city", "day"]]})
    variables, found = train(crossed, data(labels), 100)
    np.testing.assert_array_equal(found["prediction"], labels)
    assert variables["global_step"] == 100
    assert variables["linear/linear_model/city_X_day/weights"].shape == (50, 1)
    assert not any(name.startswith("dnn") for name in variables)


def test_columns_become_what_the_parameters_say() -> None:
    estimator = SparkWideDeepClassifier(
        wideCols=["city", "size"],
        deepCols=["tags", "day", "size"],
        categoricalCols=["day"],
        crossCols=[["city", "day"]],
        hashBuckets={"city": 7, "tags": 9, "city_x_day": 11},
        embeddingDim={"tags": 3},
        hiddenUnits=[4],
        numClasses=3,
    )
    assert estimator.getFeaturesCol() == {n: n for n in ("city", "size", "tags", "day")}
    variables, found = train(estimator, data([0.0, 1.0, 2.0, 0.0, 1.0, 2.0]), 1)
    shapes = {
        name: value.shape
        for name, value in variables.items()
        if "Adam" not in name and "Ftrl" not in name
    }
    assert shapes["linear/linear_model/city/weights"] == (7, 3)
    assert shapes["linear/linear_model/size/weights"] == (1, 3)
    assert shapes["linear/linear_model/city_X_day/weights"] == (11, 3)
    embeddings = {shape for name, shape in shapes.items() if name.endswith("embedding_weights")}
    assert embeddings == {(9, 3), (1000, 8)}
    assert shapes["dnn/hiddenlayer_0/kernel"] == (3 + 8 + 1, 4)
    assert found["probability"].shape == (6, 3)


@pytest.mark.parametrize("parts", [("wide", "deep"), ("wide",), ("deep",)])
def test_gradients_of_both_parts_are_clipped_by_their_common_norm(parts: tuple[str, ...]) -> None:
    columns = {f"{each}Cols": ["city", "size"] for each in parts}
    estimator = SparkWideDeepRegressor(
        **columns,
        hiddenUnits=[4],
        standardization=False,
        optimizer="SGD",
        learningRate=1.0,
        learningRateSchedule="constant",
        wideOptimizer="SGD",
        wideLearningRate=1.0,
        gradientClipNorm=0.5,
    )
    given = data([100.0 * each for each in range(6)])
    before, after = (train(estimator, given, steps)[0] for steps in (0, 1))
    assert after.pop("global_step") == 1
    moved = [np.sum((value - before[name]) ** 2) for name, value in after.items()]
    assert np.sqrt(np.sum(moved)) == pytest.approx(0.5, rel=1e-4)


def test_the_deep_part_learns_numbers() -> None:
    estimator = SparkWideDeepRegressor(
        deepCols=["size"], hiddenUnits=[16], learningRate=0.02, weightDecay=0.0, activation="tanh"
    )
    labels = 1000 + 10 * SIZES**2
    _, found = train(estimator, data(labels), 300)
    np.testing.assert_allclose(found["prediction"], labels, atol=10)


@pytest.mark.parametrize("linear", [False, True])
def test_large_integers_are_numbers_as_exact_as_doubles_are(linear: bool) -> None:
    """float32 cannot distinguish these before their mean is subtracted."""
    where = {"wideCols": ["day"]} if linear else {"deepCols": ["day"]}
    estimator = SparkWideDeepRegressor(
        numericCols=["day"], learningRate=0.02, wideOptimizer="Adam", weightDecay=0.0, **where
    )
    given = data(DAYS * 3.0, {"day": Moments(np.array([DAYS.mean() + LARGE]), np.array([0.8]))})
    _, found = train(estimator, given, 200, {"day": DAYS + LARGE})
    np.testing.assert_allclose(found["prediction"], DAYS * 3.0, atol=0.1)


LARGE = 1_700_000_000_000


@pytest.mark.parametrize(
    ("params", "values", "rows", "text"),
    [
        ({}, 24, 1000, "category of 24 values"),
        ({}, 100, 1000, "category of 100 values"),
        ({}, 101, 10**6, "number (standardised), integers of 101 values"),
        ({}, 24, 239, "number (standardised), integers of 24 values"),
        ({"standardization": False}, 500, 500, "number, integers of 500 values"),
        ({"categoricalCols": ["day"]}, 500, 500, "category of 500 values"),
        ({"numericCols": ["day"]}, 3, 500, "number (standardised)"),
        # Settings that make sense only for categories.
        ({"hashBuckets": {"day": 900}}, 500, 500, "category of 500 values"),
        ({"embeddingDim": {"day": 4}}, 500, 500, "category of 500 values"),
        ({"crossCols": [["city", "day"]]}, 500, 500, "category of 500 values"),
        ({"crossCols": [["city", "day"]], "numericCols": ["day"]}, 9, 500, "number (standardised)"),
    ],
)
@pytest.mark.parametrize("part", ["wideCols", "deepCols"])
def test_integers_are_judged_by_their_values_unless_somebody_says_what_they_are(
    params: Any, values: int, rows: int, text: str, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    estimator = SparkWideDeepRegressor(**{part: ["day"], **params})
    given = data([1.0, 2.0])
    given = given._replace(facts=replace(given.facts, num_rows=rows, values={"day": values}))
    kind = estimator.kinds(given)["day"]
    assert kind.text == text
    assert kind.categorical == text.startswith("category")
    with caplog.at_level("INFO"):
        assert estimator.decided(given).chosen["columns"]["day"] == text
    assert f"day: {text}" in caplog.text
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert bool(warned) == ("integers of" in text)
    assert all("set categoricalCols=['day']; numericCols=['day']" in each for each in warned)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"categoricalCols": ["size"]}, r"categoricalCols names the column 'size', .* bigint"),
        ({"numericCols": ["city"]}, r"numericCols names the column 'city', .*texts: cast it"),
        ({"numericCols": ["tags"]}, r"numericCols names the column 'tags', .*texts"),
    ],
)
def test_columns_that_cannot_be_what_somebody_says(params: Any, message: str) -> None:
    estimator = SparkWideDeepRegressor(deepCols=["size", "city", "tags"], **params)
    with pytest.raises(TypeError, match=message):
        estimator.decided(data([1.0, 2.0]))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"deepCols": ["day"], "categoricalCols": ["day"], "numericCols": ["day"]},
            "categoricalCols and numericCols both name day; a column is treated in one way",
        ),
        ({"deepCols": ["day"], "numericCols": ["dya"]}, "numericCols names the columns dya"),
        ({}, "wideCols, deepCols and crossCols are empty"),
        ({"wideCols": ["city"], "hashBuckets": {"town": 3}}, "hashBuckets names the columns town"),
        ({"deepCols": ["size"], "embeddingDim": {"a": 3}}, "embeddingDim names the columns a"),
    ],
)
def test_parameters_that_contradict_each_other(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparkWideDeepClassifier(**params).getFeaturesCol()


def test_numbers_are_not_crossed_and_features_col_is_refused() -> None:
    crossed = SparkWideDeepClassifier(crossCols=[["city", "size"]])
    with pytest.raises(TypeError, match=r"'size' holds numbers.*Bucketizer"):
        crossed.model_fn_for(data([0.0, 1.0]))
    with pytest.raises(TypeError, match="takes its columns from wideCols, deepCols and crossCols"):
        crossed.setFeaturesCol("features")
    for wrong in ({"wideCols": "city"}, {"crossCols": [["city"]]}, {"wideCols": ["a", "a"]}):
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            SparkWideDeepClassifier(**wrong)
