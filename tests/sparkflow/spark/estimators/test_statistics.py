"""Moments and labels of prepared rows against numpy."""

import math

import numpy as np
import pytest
from pyspark.sql import SparkSession

from sparkflow.spark import SparkLinearRegressor
from sparkflow.spark.data.plan.prepare import PreparedRows, prepare_rows
from sparkflow.spark.data.schema.row_format import Input, RowFormat
from sparkflow.spark.estimators.statistics import row_statistics


def _deviation(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """As if rows were repeated as often as they weigh."""
    mean = np.average(values, axis=0, weights=weights)
    return np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))


def test_only_rows_that_train_count_but_all_labels_are_seen(spark: SparkSession) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(5, 2, size=(40, 3)).astype(np.float32)
    x[:, 1] = 0.1  # constant, except for rounding
    age = generator.integers(20, 60, 40)
    validates = np.arange(40) % 4 == 0
    labels = np.arange(40) % 3.0
    labels[8], labels[12] = 7.0, 1.5
    weights = generator.random(40)
    rows = [
        (
            x[i].tolist(),
            int(age[i]),
            ([1, 3], [float(i), 2.0]) if i % 2 else ([], []),
            f"text {i}",
            float(labels[i]),
            float(weights[i]),
            bool(validates[i]),
        )
        for i in range(40)
    ]
    schema = (
        "x array<float>, `the age` bigint, s struct<indices:array<int>,values:array<float>>, "
        "t string, label float, weight float, validates boolean"
    )
    given = RowFormat(
        (
            Input("x", "dense", "float32", (3,)),
            Input("the age", "dense", "int64", ()),
            Input("s", "sparse", "float32", (5,)),
            Input("t", "dense", "string", ()),
        ),
        Input("label", "dense", "float32", ()),
        Input("weight", "dense", "float32", ()),
        named=True,
    )
    prepared = PreparedRows(
        rows=spark.createDataFrame(rows, schema),
        format=given,
        partition_rows={0: 40},
        num_rows=int((~validates).sum()),
        num_validation_rows=int(validates.sum()),
    )
    found = row_statistics(prepared, of_features=True)
    trained = ~validates
    weight = weights[trained]
    assert sorted(found.features) == ["s", "the age", "x"]
    mean = np.average(x[trained], axis=0, weights=weight)
    np.testing.assert_allclose(found.features["x"].mean, mean, rtol=1e-5)
    # As pyspark.ml's summarizer weighs rows.
    unbiased = np.sqrt(weight.sum() / (weight.sum() - (weight**2).sum() / weight.sum()))
    expected = unbiased * _deviation(x[trained].astype(np.float64), weight)
    expected[1] = 1.0
    np.testing.assert_allclose(found.features["x"].scale, expected, rtol=1e-4)
    mean_age = np.average(age[trained], weights=weight)
    np.testing.assert_allclose(found.features["the age"].mean, [mean_age], rtol=1e-5)
    vectors = np.zeros((40, 5))
    vectors[1::2, 1], vectors[1::2, 3] = np.arange(1, 40, 2), 2.0
    scale = unbiased * _deviation(vectors[trained], weight)
    scale[scale == 0] = 1.0
    np.testing.assert_allclose(found.features["s"].scale, scale, rtol=1e-5)
    np.testing.assert_array_equal(found.features["s"].mean, np.zeros(5))
    assert found.label is not None
    mean_label = np.average(labels[trained], weights=weight)
    np.testing.assert_allclose(found.label.mean, [mean_label], rtol=1e-5)
    deviation = unbiased * _deviation(labels[trained], weight)
    np.testing.assert_allclose(found.label.scale, [deviation], rtol=1e-5)
    assert found.label_range is not None
    assert (found.label_range.least, found.label_range.greatest) == (0.0, 7.0)
    assert found.label_range.fractional == 1.5
    np.testing.assert_allclose(found.mean_weight, weights[trained].mean(), rtol=1e-5)
    assert row_statistics(prepared, of_features=False).features == {}


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_equal_weights_are_as_good_as_none(spark: SparkSession, weight: float) -> None:
    """Also if no row weighs anything, which the summarizer refuses."""
    rows = [([float(i), 7.0], i % 3.0, weight) for i in range(10)]
    given = RowFormat(
        (Input("x", "dense", "float32", (2,)),),
        Input("label", "dense", "float32", ()),
        Input("weight", "dense", "float32", ()),
        named=True,
    )
    prepared = PreparedRows(
        rows=spark.createDataFrame(rows, "x array<float>, label float, weight float"),
        format=given,
        partition_rows={0: 10},
        num_rows=10,
        num_validation_rows=0,
    )
    found = row_statistics(prepared, of_features=True)
    np.testing.assert_allclose(found.features["x"].mean, [4.5, 7.0])
    np.testing.assert_allclose(found.features["x"].scale, [np.arange(10).std(ddof=1), 1.0])
    assert found.label is not None
    np.testing.assert_allclose(found.label.mean, [0.9])
    np.testing.assert_allclose(found.label.scale, [(np.arange(10) % 3).std(ddof=1)])


@pytest.mark.parametrize("policy", ["skip", "fill"])
def test_moments_are_those_of_the_rows_that_are_trained_on(
    spark: SparkSession, policy: str
) -> None:
    rows = [(i, float(i), [float(i % 7), float(i % 3)], i / 2) for i in range(100)]
    rows[3] = (None, 3.0, [3.0, 0.0], 1.5)  # type: ignore[assignment]
    rows[40] = (40, math.nan, [5.0, 1.0], 20.0)
    rows[90] = (90, 90.0, [6.0, None], 45.0)  # type: ignore[list-item]
    df = spark.createDataFrame(rows, "n bigint, x double, a array<double>, label double")
    trainer = SparkLinearRegressor(
        featuresCol={"n": "n", "x": "x", "a": "a"}, handleInvalid=policy, fillValue=50.0
    )
    with prepare_rows(df, trainer.config(False)) as prepared:
        found = row_statistics(prepared, of_features=True)
    matrix = np.array([[n, x, *a] for n, x, a, _ in rows], float)  # None becomes NaN
    fine = np.isfinite(matrix).all(1)
    assert (~fine).sum() == 3
    matrix = matrix[fine] if policy == "skip" else np.nan_to_num(matrix, nan=50.0)
    mean = np.concatenate([found.features[each].mean for each in "nxa"])
    scale = np.concatenate([found.features[each].scale for each in "nxa"])
    np.testing.assert_allclose(mean, matrix.mean(0), rtol=1e-5)
    np.testing.assert_allclose(scale, matrix.std(0, ddof=1), rtol=1e-5)
    labels = np.array([row[-1] for row in rows])[fine if policy == "skip" else slice(None)]
    assert found.label is not None
    np.testing.assert_allclose(found.label.mean, [labels.mean()], rtol=1e-5)


def test_rows_that_nobody_has_checked_do_not_end_the_job(spark: SparkSession) -> None:
    rows = [(1.0, [1.0, 2.0]), (None, [3.0]), (3.0, [math.nan, None]), (4.0, None)]
    prepared = PreparedRows(
        rows=spark.createDataFrame(rows, "x float, a array<float>"),
        format=RowFormat(
            (Input("x", "dense", "float32", ()), Input("a", "dense", "float32", (2,))),
            None,
            None,
            named=True,
        ),
        partition_rows={0: 4},
        num_rows=4,
        num_validation_rows=0,
    )
    found = row_statistics(prepared, of_features=True)
    np.testing.assert_allclose(found.features["x"].mean, [2.0])
    np.testing.assert_allclose(found.features["a"].mean, [0.25, 0.5])
