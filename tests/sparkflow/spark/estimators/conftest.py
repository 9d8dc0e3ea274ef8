"""Real datasets of scikit-learn as DataFrames."""

from collections.abc import Callable

import pytest
from pyspark.ml.functions import array_to_vector
from pyspark.sql import DataFrame, SparkSession, functions as F
from sklearn import datasets


@pytest.fixture(scope="session")
def frame(spark: SparkSession) -> Callable[[str], DataFrame]:
    """A function from `breast_cancer`, `iris` or `diabetes` to a cached DataFrame.

    Its columns: `id`, `features` (vector), `label` (double), `weight` (6 if the first feature is
    large, else 1).
    """
    frames: dict[str, DataFrame] = {}

    def load(name: str) -> DataFrame:
        if name not in frames:
            given = getattr(datasets, f"load_{name}")()
            rows = [
                (i, x.tolist(), float(y))
                for i, (x, y) in enumerate(zip(given.data, given.target, strict=True))
            ]
            df = spark.createDataFrame(rows, "id int, x array<double>, label double")
            frames[name] = (
                df.select(
                    "id",
                    array_to_vector("x").alias("features"),
                    "label",
                    F.when(F.col("x")[0] > 15, 6.0).otherwise(1.0).alias("weight"),
                )
                .repartition(3, "id")
                .cache()
            )
        return frames[name]

    return load
