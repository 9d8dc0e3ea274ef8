"""All metrics of an evaluation from sums, as defined by pyspark.ml's evaluators."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml.evaluation import (
    BinaryClassificationEvaluator,
    MulticlassClassificationEvaluator,
    RegressionEvaluator,
)
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

from sparkflow.spark.estimators import one_pass
from sparkflow.spark.estimators.one_pass import ClassSums, NumberSums, add_classes, add_numbers


def _classes(count: int, classes: int, seed: int = 0) -> tuple[Any, ...]:
    """Labels, predictions, probabilities, scores with ties, weights."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, count).astype(float)
    labels[:2] = 0.0
    raw = np.round(generator.normal(size=(count, classes)), 1)
    raw[np.arange(count), labels.astype(int)] += 0.5
    odds = np.exp(raw)
    probabilities = odds / odds.sum(1, keepdims=True)
    weights = generator.integers(0, 4, count).astype(float)
    return labels, probabilities.argmax(1).astype(float), probabilities, raw[:, 1], weights


def _in_parts(parts: int, *columns: Any) -> ClassSums:
    sums = ClassSums()
    for part in range(parts):
        own = ClassSums()
        own.add(*(each[part::parts] for each in columns))
        sums.merge(ClassSums.from_json(own.to_json()))
    return sums


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_judged_as_evaluators_judge_them(spark: SparkSession, classes: int) -> None:
    labels, predictions, probabilities, scores, weights = _classes(150, classes)
    own = probabilities[np.arange(150), labels.astype(int)]
    found = _in_parts(4, labels, predictions, own, scores if classes == 2 else [], weights)
    frame = spark.createDataFrame(
        [
            (float(a), float(b), Vectors.dense(p), Vectors.dense([-s, s]), float(w))
            for a, b, p, s, w in zip(
                labels, predictions, probabilities, scores, weights, strict=True
            )
        ],
        ["label", "prediction", "probability", "rawPrediction", "w"],
    ).coalesce(1)
    metrics = found.metrics()
    for name in ("accuracy", "f1", "weightedPrecision", "weightedRecall", "logLoss"):
        judge = MulticlassClassificationEvaluator(metricName=name, weightCol="w")  # type: ignore[arg-type]
        assert metrics.pop(name) == pytest.approx(judge.evaluate(frame)), name
    assert set(metrics) == ({"areaUnderROC", "areaUnderPR"} if classes == 2 else set())
    for name, value in metrics.items():
        binary = BinaryClassificationEvaluator(metricName=name, weightCol="w")  # type: ignore[arg-type]
        assert value == pytest.approx(binary.evaluate(frame)), name


def test_numbers_are_judged_as_evaluators_judge_them(spark: SparkSession) -> None:
    generator = np.random.default_rng(1)
    labels = 1e6 + generator.normal(size=90)
    predictions = labels + generator.normal(size=90) / 3
    weights = generator.uniform(0, 2, 90)
    sums = NumberSums()
    for part in range(5):
        own = NumberSums()
        own.add(labels[part::5], predictions[part::5], weights[part::5])
        sums.merge(NumberSums.from_json(own.to_json()))
    sums.merge(NumberSums())
    rows = [tuple(map(float, each)) for each in zip(labels, predictions, weights, strict=True)]
    frame = spark.createDataFrame(rows, ["label", "prediction", "w"]).coalesce(1)
    found = sums.metrics()
    # Spark's own treats weights as counts of rows, and differs slightly for other weights.
    mean = np.average(labels, weights=weights)
    spread = np.dot(weights, (labels - mean) ** 2)
    r2 = 1 - np.dot(weights, (labels - predictions) ** 2) / spread
    assert found.pop("r2") == pytest.approx(r2, rel=1e-9)
    for name, value in found.items():
        judge = RegressionEvaluator(metricName=name, weightCol="w")  # type: ignore[arg-type]
        assert value == pytest.approx(judge.evaluate(frame)), name


def test_too_many_scores_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(2)
    labels = (generator.random(20_000) < 0.01).astype(float)
    scores = labels + generator.normal(size=20_000)
    rest = labels, labels, np.ones_like(labels)
    exact = _in_parts(1, *rest, scores, np.ones_like(labels)).metrics()
    monkeypatch.setattr(one_pass, "_KEPT_SCORES", 500)
    sums = _in_parts(7, *rest, scores, np.ones_like(labels))
    assert len(sums.scores) <= 1000
    found = sums.metrics()
    assert found["areaUnderROC"] == pytest.approx(exact["areaUnderROC"], abs=2e-3)
    assert found["areaUnderPR"] == pytest.approx(exact["areaUnderPR"], abs=1e-2)


def test_nothing_to_judge_is_no_number() -> None:
    assert np.isnan(ClassSums().metrics()["accuracy"])
    assert np.isnan(NumberSums().metrics()["rmse"])


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf")])
def test_rows_that_cannot_be_judged_are_counted(bad: float | None) -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1.0, bad]), pa.array([1.0, 1.0]), pa.array([1.0, 1.0])], ["l", "p", "w"]
    )
    (told,) = add_numbers([batch])
    assert json.loads(told.column(0)[0].as_py())["invalid"] == 1
    negative = pa.RecordBatch.from_arrays([pa.array([-1.0])] * 5, ["l", "p", "o", "w", "s"])
    (told,) = add_classes([negative])
    assert json.loads(told.column(0)[0].as_py())["invalid"] == 1


@pytest.mark.parametrize(("own", "score"), [(float("nan"), 1.0), (0.5, float("nan"))])
def test_rows_without_a_probability_are_counted_though_they_have_a_prediction(
    own: float, score: float
) -> None:
    columns = [[0.0, 1.0], [0.0, 0.0], [0.5, own], [1.0, 1.0], [float("inf"), score]]
    batch = pa.RecordBatch.from_arrays([pa.array(each) for each in columns], list("lpows"))
    (told,) = add_classes([batch])
    assert json.loads(told.column(0)[0].as_py())["invalid"] == 1


def test_what_a_task_tells_of_many_scores_is_far_below_what_spark_lets_a_driver_take() -> None:
    generator = np.random.default_rng(3)
    count = 2 * one_pass._KEPT_SCORES
    labels = (generator.random(count) < 0.3).astype(float)
    scores = generator.normal(size=count).astype(np.float32).astype(float)
    sums = ClassSums()
    sums.add(labels, labels, np.ones(count), scores, np.ones(count))
    assert len(sums.scores) > count * 0.9
    text = json.dumps(sums.to_json())
    assert len(text) < 1 << 19  # Spark's limit for all tasks is 1 GB
    found = ClassSums.from_json(json.loads(text))
    for name in ("scores", "positive", "negative"):
        np.testing.assert_array_equal(getattr(found, name), getattr(sums, name))
