"""Strings, integers, lists and sparse vectors from DataFrames into estimators and their models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession, functions as F

from sparkflow.spark import (
    SparkLinearRegressor,
    SparkTrainerClassificationModel,
    SparkWideDeepClassifier,
)

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("child_processes"),
]

ROWS = 240


@pytest.fixture(scope="module")
def flights(spark: SparkSession) -> DataFrame:
    """Late if a carrier flies on a certain day; three carriers, four days."""
    generator = np.random.default_rng(0)
    rows = [
        (
            i,
            carrier := ("AA", "B6", "ÖZ")[i % 3],
            day := int(generator.integers(4)),
            float(generator.normal()),
            [carrier.lower(), f"day {day}"][: i % 3],
            int((carrier == "B6") != (day == 2)),
        )
        for i in range(ROWS)
    ]
    schema = "id int, carrier string, day int, `wind speed` double, tags array<string>, late int"
    return spark.createDataFrame(rows, schema).repartition(3, "id").cache()


def test_wide_and_deep_on_columns_of_all_kinds(flights: DataFrame, tmp_path: Path) -> None:
    estimator = SparkWideDeepClassifier(
        labelCol="late",
        wideCols=["carrier", "day"],
        crossCols=[["carrier", "day"]],
        deepCols=["carrier", "tags", "wind speed"],
        hiddenUnits=[8],
        embeddingDim={"carrier": 2, "tags": 3},
        hashBuckets=100,
        wideLearningRate=0.5,
        numWorkers=2,
        syncMode="sync",
        batchSize=20,
        epochs=8,
        progress=False,
    )
    estimator.save(str(tmp_path / "estimator"))
    model: Any = SparkWideDeepClassifier.load(str(tmp_path / "estimator")).fit(flights)
    assert model.evaluate(flights)["areaUnderROC"] > 0.95
    assert model.numFeatures == -1
    model.save(str(tmp_path / "model"))
    loaded = SparkTrainerClassificationModel.load(str(tmp_path / "model"))
    rows = loaded.transform(flights).orderBy("id").collect()
    assert np.mean([row["prediction"] == row["late"] for row in rows]) > 0.9
    given = {name: rows[5][name] for name in model.getFeaturesCol()}
    np.testing.assert_allclose(loaded.predictProbability(given), rows[5]["probability"], rtol=1e-4)
    assert loaded.predict(given) == rows[5]["prediction"]
    with pytest.raises(ValueError, match="nothing"):
        SparkWideDeepClassifier(wideCols=["nothing"], labelCol="late").fit(flights)


@pytest.mark.nightly
def test_sparse_vectors_stay_sparse_and_are_scaled(spark: SparkSession) -> None:
    """A linear function of elements of very different sizes, most of which are missing."""
    generator = np.random.default_rng(1)
    weights = np.zeros(50)
    weights[[3, 17, 40]] = [2.0, 300.0, -0.05]
    rows = []
    for i in range(300):
        places = sorted(generator.choice(50, 5, replace=False).tolist())
        values = generator.normal(size=5) * [100.0 if place == 40 else 1.0 for place in places]
        values = np.where(np.array(places) == 17, values / 100, values)
        vector = Vectors.sparse(50, places, values.tolist())
        rows.append((i, vector, float(vector.toArray() @ weights)))
    df = spark.createDataFrame(rows, ["id", "features", "label"])
    estimator = SparkLinearRegressor(learningRate=0.05, batchSize=60, epochs=60, progress=False)
    model = estimator.setVectorFormat("sparse").fit(df)
    (given,) = model.inference_model.signature.inputs
    assert given.kind == "sparse"
    assert model.numFeatures == 50
    assert model.evaluate(df)["r2"] > 0.98
    first = model.transform(df.where(F.col("id") == 0)).first()
    assert first is not None
    assert model.predict(rows[0][1]) == pytest.approx(first["prediction"], rel=1e-4)
