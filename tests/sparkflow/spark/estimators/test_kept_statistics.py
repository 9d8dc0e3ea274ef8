"""The statistics that a stream's batches keep of the first one."""

import json
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from sparkflow.spark import SparkLinearClassifier, SparkWideDeepRegressor
from sparkflow.spark.estimators.kept_statistics import from_json, to_json

pytestmark = pytest.mark.spark


def _kept(estimator: Any, first: DataFrame) -> Any:
    """The estimator, as a stream sets it after its first batch."""
    with estimator.training_data(first) as data:
        kept = json.loads(json.dumps(estimator.facts_to_json(data.facts)))
    again = estimator.copy()
    again.start_facts = again.facts_from_json(kept)
    return again


def _hours(spark: SparkSession, rows: int) -> DataFrame:
    given = [(i % 24, i / 7, float(i % 5)) for i in range(rows)]
    return spark.createDataFrame(given, "hour int, x double, label double")


def test_columns_are_treated_as_in_the_first_batch(spark: SparkSession) -> None:
    estimator = SparkWideDeepRegressor(deepCols=["hour", "x"])
    again = _kept(estimator, _hours(spark, 480))
    with estimator.training_data(_hours(spark, 48)) as data:
        assert not estimator.kinds(data)["hour"].categorical
    with again.training_data(_hours(spark, 48)) as data:
        assert again.kinds(data)["hour"].categorical
        facts = data.facts
        np.testing.assert_allclose(facts.features["x"].mean, [479 / 14])
        assert facts.num_rows == 480
        assert again.own_decay(data) == 1.0 < 500 / 48
        assert facts.label.mean.tolist() == [2.0]
    assert to_json(facts, True) == to_json(again.start_facts, True)


def test_classes_are_those_of_the_first_batch(spark: SparkSession) -> None:
    def labels(*given: int) -> DataFrame:
        return spark.createDataFrame([(0.5, i) for i in given], "x double, label int")

    again = _kept(SparkLinearClassifier(featuresCol=["x"]), labels(0, 1, 2))
    with again.training_data(labels(0, 0)) as data:
        assert again._count_classes(data.facts) == 3
    with again.training_data(labels(0, 3)) as data, pytest.raises(ValueError, match="numClasses"):
        again.model_fn_for(data)
    with again.training_data(labels(-1, 0)) as data, pytest.raises(ValueError, match="holds -1"):
        again.model_fn_for(data)


def test_standardization_stays(spark: SparkSession) -> None:
    estimator = SparkWideDeepRegressor(wideCols=["hour"])
    kept = estimator.facts_to_json(_kept(estimator, _hours(spark, 48)).start_facts)
    with pytest.raises(ValueError, match="set it to True, or begin with another checkpointDir"):
        from_json(kept, standardizes=False)
