"""Parameters of the estimators: documented, checked when set, copied, and stored as specified."""

from typing import Any

import pytest
from pyspark.ml.classification import ProbabilisticClassificationModel, ProbabilisticClassifier
from pyspark.ml.param.shared import HasRegParam, HasThresholds, HasWeightCol
from pyspark.ml.regression import RegressionModel, Regressor
from pyspark.ml.util import MLReadable, MLWritable

from sparkflow.spark import (
    SparkDNNClassifier,
    SparkDNNRegressor,
    SparkLinearClassifier,
    SparkLinearRegressor,
    SparkTrainerClassificationModel,
    SparkTrainerClassifier,
    SparkTrainerRegressionModel,
    SparkTrainerRegressor,
    SparkWideDeepClassifier,
    SparkWideDeepRegressor,
)

pytestmark = pytest.mark.spark  # pyspark.ml's Params need no session, but pyspark

CLASSIFIERS = (SparkDNNClassifier, SparkLinearClassifier, SparkWideDeepClassifier)
REGRESSORS = (SparkDNNRegressor, SparkLinearRegressor, SparkWideDeepRegressor)


@pytest.mark.parametrize("kind", [*CLASSIFIERS, *REGRESSORS])
def test_every_parameter_has_a_doc_a_getter_and_a_setter(kind: Any) -> None:
    estimator = kind()
    for param in estimator.params:
        assert param.doc, param.name
        assert param.name in estimator.explainParams()
        suffix = f"{param.name[0].upper()}{param.name[1:]}"
        if param.name != "featuresCol" and estimator.isDefined(param):
            value = getattr(estimator, f"get{suffix}")()
            assert getattr(estimator, f"set{suffix}")(value) is estimator
            assert estimator.getOrDefault(param) == value
    assert isinstance(estimator, MLWritable)
    assert isinstance(estimator, MLReadable)
    assert estimator.getSeed() == 42
    assert estimator.standardizes()
    assert not estimator.setStandardization(False).standardizes()


def test_pyspark_knows_what_they_are() -> None:
    def network(features: Any) -> Any:
        raise NotImplementedError

    for kind in CLASSIFIERS:
        assert isinstance(kind(), ProbabilisticClassifier)
        assert isinstance(kind(), HasThresholds)
    for each in (SparkTrainerClassifier(network=network), SparkTrainerRegressor(network=network)):
        assert isinstance(each, HasWeightCol)
        assert isinstance(each, HasRegParam)
        assert not isinstance(each, MLWritable)  # they hold the user's function
        assert each.copy().network is network
    assert all(isinstance(kind(), Regressor) for kind in REGRESSORS)
    assert issubclass(SparkTrainerClassificationModel, ProbabilisticClassificationModel)
    assert issubclass(SparkTrainerRegressionModel, RegressionModel)
    with pytest.raises(TypeError, match="network must be a function, got 3"):
        SparkTrainerClassifier(network=3)  # type: ignore[arg-type]  # that is the test


def test_defaults_are_those_of_the_kind() -> None:
    found = [(each.getEpochs(), each.getLearningRate()) for each in (k() for k in CLASSIFIERS)]
    assert found == [(0, 0.003), (0, 0.01), (0, 0.003)]
    assert SparkDNNClassifier(hidden_units=(8, 4)).getHiddenUnits() == [8, 4]
    estimator = SparkDNNClassifier()
    assert estimator.copy({estimator.hidden_units: [3]}).getHiddenUnits() == [3]
    assert estimator.getHiddenUnits() == [64, 32]


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"hiddenUnits": []}, ValueError, "hiddenUnits: at least one integer is needed, got none"),
        ({"hiddenUnits": [3, 0]}, ValueError, "hiddenUnits: must be at least 1, got 0"),
        ({"hiddenUnits": "64"}, TypeError, "hiddenUnits: a list of integers is needed, got '64'"),
        ({"activation": "step"}, ValueError, "activation: must be one of relu, tanh"),
        ({"dropout": 1}, ValueError, "dropout: must be below 1, got 1"),
        ({"batchNorm": 1}, TypeError, "batchNorm: True or False is needed, got 1"),
        ({"optimizer": "adamm"}, ValueError, "optimizer: .*Adagrad, Adam, AdamW"),
        ({"learningRate": 0}, ValueError, "learningRate: must be above 0, got 0"),
        ({"learning_rate": "1"}, TypeError, "learningRate: a number is needed, got '1'"),
        ({"regParam": -1}, ValueError, "regParam: must be between 0 and inf, got -1"),
        ({"elasticNetParam": 2}, ValueError, "elasticNetParam: must be between 0 and 1, got 2"),
        ({"numClasses": 1}, ValueError, "numClasses: must be at least 2, or 0 to take it from"),
        ({"thresholds": [0, 0, 1]}, ValueError, "thresholds: at most one threshold may be 0"),
        ({"thresholds": [1]}, ValueError, "thresholds: at least two thresholds are needed"),
        ({"thresholds": 0.5}, TypeError, "thresholds: a list of numbers, one per class"),
        ({"layers": [3]}, TypeError, "SparkDNNClassifier has no parameter 'layers'. It has activ"),
    ],
)
def test_wrong_values_fail_when_they_are_set(params: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        SparkDNNClassifier(**params)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"hashBuckets": 0}, ValueError, "hashBuckets: must be at least 1, got 0"),
        ({"embeddingDim": {"a": 1.5}}, TypeError, "embeddingDim: an integer is needed, got 1.5"),
        ({"deepCols": ["a", "a"]}, ValueError, "deepCols: a column is named twice"),
        ({"crossCols": ["a", "b"]}, TypeError, "crossCols: a list of column names is needed"),
        ({"crossCols": [["a"]]}, ValueError, "crossCols: a cross needs at least two columns"),
        ({"wideLearningRate": -1}, ValueError, "wideLearningRate: must be between 0 and inf"),
    ],
)
def test_wrong_columns_fail_when_they_are_set(params: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        SparkWideDeepClassifier(**params)
