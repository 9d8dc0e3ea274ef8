"""Ready-made estimators on real data, compared with those of pyspark.ml and sklearn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.functions import vector_to_array
from pyspark.ml.regression import LinearRegression
from pyspark.sql import DataFrame, SparkSession, functions as F
from sklearn import linear_model, metrics
from sklearn.preprocessing import StandardScaler

from sparkflow.spark import (
    SparkDNNClassifier,
    SparkDNNRegressor,
    SparkLinearClassifier,
    SparkLinearRegressor,
    SparkTrainerClassificationModel,
    SparkWideDeepClassifier,
)

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("child_processes"),
]

Frame = Callable[[str], DataFrame]


def columns(df: DataFrame, *names: str) -> Any:
    """Columns as arrays, by the rows' ids; vectors as matrices."""
    types = dict(df.dtypes)
    given = [vector_to_array(n).alias(n) if types[n] == "vector" else F.col(n) for n in names]
    found = df.orderBy("id").select(*given).collect()
    arrays = [np.array([row[name] for row in found]) for name in names]
    return arrays[0] if len(names) == 1 else arrays


def test_a_linear_classifier_with_weights_is_the_logistic_regression_of_sklearn(
    frame: Frame,
) -> None:
    df = frame("breast_cancer")
    estimator = SparkLinearClassifier(
        weightCol="weight",
        classWeights={0: 3.0, 1: 1.0},
        regParam=0.05,
        learningRate=0.03,
        learningRateSchedule="constant",
        batchSize=190,
        epochs=300,
        progress=False,
    )
    model = estimator.fit(df)
    x, y, weight = columns(df, "features", "label", "weight")
    factor = np.where(y == 0, 3.0, 1.0)
    x = StandardScaler().fit(x, sample_weight=weight * factor).transform(x)

    def of_sklearn(sample_weight: Any) -> Any:
        c = 1 / (0.05 * sample_weight.sum())
        found = linear_model.LogisticRegression(C=c, max_iter=1000)
        return found.fit(x, y, sample_weight=sample_weight).predict_proba(x)[:, 1]

    predicted = model.transform(df)
    probability = columns(predicted, "probability")[:, 1]
    expected = of_sklearn(weight * factor)
    # Without either of them it would be a different model.
    others = [np.abs(of_sklearn(each) - expected).mean() for each in (weight, factor)]
    assert np.abs(probability - expected).mean() < 0.01 < min(others)
    assert model.numClasses == 2
    assert model.numFeatures == 30

    found = model.evaluate(df)
    prediction = columns(predicted, "prediction")
    rows = columns(df, "weight")
    assert found["accuracy"] == pytest.approx(
        metrics.accuracy_score(y, prediction, sample_weight=rows)
    )
    assert found["logLoss"] == pytest.approx(metrics.log_loss(y, probability, sample_weight=rows))
    area = metrics.roc_auc_score(y, probability, sample_weight=rows)
    assert found["areaUnderROC"] == pytest.approx(area, abs=1e-4)
    spark_ml = LogisticRegression(regParam=0.05, weightCol="weight").fit(df)
    assert found["areaUnderROC"] > spark_ml.evaluate(df).areaUnderROC - 0.005


@pytest.mark.parametrize("elastic_net", [0.0, pytest.param(1.0, marks=pytest.mark.nightly)])
def test_a_linear_regressor_is_the_linear_regression_of_pyspark(
    frame: Frame, elastic_net: float
) -> None:
    """Also with a penalty that moves the solution: by a third with L1."""
    df = frame("diabetes")
    penalty = 10.0
    model = SparkLinearRegressor(
        regParam=penalty,
        elasticNetParam=elastic_net,
        learningRate=0.03,
        batchSize=221,
        epochs=100,
        progress=False,
    ).fit(df)
    theirs = LinearRegression(regParam=penalty, elasticNetParam=elastic_net).fit(df)
    plain = LinearRegression().fit(df)
    ours, expected, free = (
        columns(each.transform(df), "prediction") for each in (model, theirs, plain)
    )
    error = np.abs(ours - expected).mean()
    assert error < 2.5 < np.abs(free - expected).mean()
    assert model.evaluate(df)["rmse"] == pytest.approx(
        theirs.summary.rootMeanSquaredError, rel=0.01
    )
    one = df.where("id = 7").first()
    assert one is not None
    assert model.predict(one["features"]) == pytest.approx(ours[7], rel=1e-5)


def test_a_deep_classifier_of_three_classes(frame: Frame, tmp_path: Path) -> None:
    df = frame("iris")
    estimator = SparkDNNClassifier(
        hidden_units=[32, 16], learning_rate=0.01, batch_size=16, epochs=12, progress=False
    )
    model = estimator.fit(df)
    assert isinstance(model, SparkTrainerClassificationModel)
    assert model.numClasses == 3
    found = model.evaluate(df)
    assert found["accuracy"] > 0.93
    assert "areaUnderROC" not in found
    model.save(str(tmp_path / "model"))
    loaded = SparkTrainerClassificationModel.load(str(tmp_path / "model"))
    predicted = loaded.transform(df)
    raw, probability, prediction = columns(predicted, "rawPrediction", "probability", "prediction")
    softmax = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probability, softmax, atol=1e-6)
    assert MulticlassClassificationEvaluator().evaluate(predicted) == pytest.approx(found["f1"])
    one = df.where("id = 120").first()
    assert one is not None
    np.testing.assert_allclose(loaded.predictRaw(one["features"]), raw[120], rtol=1e-4)
    np.testing.assert_allclose(
        loaded.predictProbability(one["features"]), probability[120], rtol=1e-4
    )
    assert loaded.predict(one["features"].toArray().tolist()) == prediction[120]

    # Class 1 is always allowed; class 2 wins unless it is next to impossible.
    loaded.setThresholds([6.0, 0.0, 0.5])
    assert set(columns(loaded.transform(df), "prediction")) == {1.0}
    loaded.setThresholds([10.0, 1.0, 0.01])
    expected = np.argmax(probability / [10.0, 1.0, 0.01], axis=1)
    assert not np.array_equal(expected, prediction)
    np.testing.assert_array_equal(columns(loaded.transform(df), "prediction"), expected)
    assert loaded.predict(one["features"]) == expected[120]
    judged = loaded.evaluate(df)
    loaded.setProbabilityCol("").setRawPredictionCol("")
    left = loaded.transform(df)
    assert left.columns == [*df.columns, "prediction"]
    np.testing.assert_array_equal(columns(left, "prediction"), expected)
    assert loaded.evaluate(df) == judged
    loaded.setPredictionCol("")
    assert loaded.transform(df).columns == df.columns
    assert loaded.evaluate(df) == judged
    loaded.setPredictionCol("prediction")
    loaded.setThresholds([1.0, 1.0])
    with pytest.raises(ValueError, match="2 thresholds for 3 classes"):
        loaded.transform(df)


def test_a_deep_regressor_is_watched_by_its_metrics(frame: Frame) -> None:
    df = frame("diabetes")
    model = SparkDNNRegressor(
        hiddenUnits=[32],
        batchNorm=True,
        dropout=0.1,
        learningRate=0.005,
        batchSize=32,
        epochs=8,
        validationFraction=0.25,
        earlyStoppingMetric="rmse",
        earlyStoppingPatience=8,
        progress=False,
    ).fit(df)
    assert model.evaluate(df)["r2"] > 0.4
    assert 0.3 < model.history.epoch_loss[-1] < 0.9  # of standardized labels
    measured = model.history.validation
    assert len(measured) == 8
    assert 40 < measured[-1]["rmse"] < measured[0]["rmse"] < 100  # the labels' deviation is 77
    assert measured[-1]["rmse"] ** 2 == pytest.approx(measured[-1]["average_loss"], rel=1e-4)
    assert measured[-1]["mae"] < measured[-1]["rmse"]


def test_labels_are_checked_before_training(frame: Frame) -> None:
    df = frame("iris")
    texts = df.withColumn("label", F.concat(F.lit("class "), "label"))
    with pytest.raises(TypeError, match=r"'label' is string.*StringIndexer"):
        SparkDNNClassifier(progress=False).fit(texts)
    with pytest.raises(
        ValueError, match=r"'label' holds 2, and numClasses=2 allows 0 to 1: set num"
    ):
        SparkDNNClassifier(numClasses=2, progress=False).fit(df)
    with pytest.raises(ValueError, match=r"'label' holds -1; classes are 0, 1, 2"):
        SparkLinearClassifier(progress=False).fit(df.withColumn("label", F.col("label") - 1))
    with pytest.raises(ValueError, match=r"'label' holds 2\.5; classes are 0, 1, 2"):
        SparkLinearClassifier(progress=False).fit(df.withColumn("label", F.col("label") + 0.5))
    with pytest.raises(ValueError, match="There are 2 thresholds for 3 classes"):
        SparkDNNClassifier(thresholds=[0.5, 0.5], progress=False).fit(df)
    with pytest.raises(ValueError, match="wideCols, deepCols and crossCols are empty"):
        SparkWideDeepClassifier(progress=False).fit(df)


@pytest.mark.parametrize("where", [3, 250])  # within the rows that a fit looks at first, and after
def test_a_null_is_skipped_filled_or_reported(spark: SparkSession, where: int) -> None:
    rows = [(float(i % 7), float(i % 3), 1.0 * i) for i in range(300)]
    rows[where] = (None, 1.0, 1.0)  # type: ignore[assignment]
    df = spark.createDataFrame(rows, "a double, b double, label double").coalesce(1)
    estimator = SparkLinearRegressor(
        featuresCol=["a", "b"], numWorkers=1, epochs=1, batchSize=50, progress=False
    )
    for policy, used in (("skip", 299), ("fill", 300)):
        model = estimator.copy({estimator.handleInvalid: policy}).fit(df)
        assert model.history.rows_per_epoch == used
    with pytest.raises(ValueError, match=r"Nulls cannot.*column 'a': 1 of 300 rows"):
        estimator.fit(df)


def test_rows_without_predictions_have_no_class_whatever_the_thresholds(
    spark: SparkSession,
) -> None:
    rows = [(float(i % 7 - 3), i % 2) for i in range(40)]
    model = SparkLinearClassifier(
        featuresCol=["a"], numWorkers=1, epochs=1, batchSize=20, progress=False
    ).fit(spark.createDataFrame(rows, "a double, label int"))
    bad = spark.createDataFrame([(1.0, 1.0), (None, 0.0)], "a double, label double").coalesce(1)
    kept = model.copy({model.handleInvalid: "keep", model.probabilityCol: "p`q.r"})
    for thresholds, expected in (([0.0, 0.6], 0.0), ([0.6, 0.0], 1.0)):
        judged = kept.copy({kept.thresholds: thresholds})
        found = [row["prediction"] for row in judged.transform(bad).collect()]
        assert found == [expected, None]
        with pytest.raises(ValueError, match="1 rows cannot be evaluated"):
            judged.evaluate(bad)
    with pytest.raises(ValueError, match="1 rows cannot be evaluated"):
        model.evaluate(bad.fillna(0.0).replace(0.0, float("nan"), "label"))
