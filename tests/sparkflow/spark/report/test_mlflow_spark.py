"""MLflow with Spark: what a run records about its rows, `spark_udf`, and autologging."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession, functions as F

from sparkflow.export import InferenceModel
from sparkflow.export.mlflow import save_model
from sparkflow.spark import SparkLinearClassifier, SparkTrainerModel

# MLflow and its dependencies warn of each other's deprecated names.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("child_processes"),
]


def test_a_fit_says_where_its_rows_are_from_and_is_registered(
    spark: SparkSession, mlflow: Any, tmp_path: Path
) -> None:
    rows = [([float(i % 7), float(i % 5)], float(i % 2)) for i in range(40)]
    path = str(tmp_path / "rows")
    spark.createDataFrame(rows, "features array<double>, label double").write.parquet(path)
    mlflow.pyspark.ml.autolog(log_models=False)
    trainer = SparkLinearClassifier(
        numWorkers=1, epochs=1, progress=False, mlflow=True, registeredModelName="main.ml.linear"
    )
    try:
        model = trainer.fit(spark.read.parquet(path))
    finally:
        mlflow.pyspark.ml.autolog(disable=True)
    found = mlflow.search_runs(output_format="list")
    (ours,) = [run for run in found if "sparkflow.version" in run.data.tags]
    (given,) = ours.inputs.dataset_inputs
    assert given.dataset.source_type == "spark"
    assert given.dataset.source.rstrip("}").rstrip('"').endswith(path)
    assert '"num_rows": 40' in given.dataset.profile
    assert '"name": "features"' in given.dataset.schema
    assert [(tag.key, tag.value) for tag in given.tags] == [("mlflow.data.context", "training")]
    (version,) = mlflow.search_model_versions(filter_string="name = 'main.ml.linear'")
    assert version.run_id == ours.info.run_id
    # What MLflow itself recorded of the fit; our run is below that.
    (seen,) = [run for run in found if run is not ours]
    assert seen.data.tags["estimator_class"].endswith("SparkLinearClassifier")
    assert seen.data.params["epochs"] == "1"
    assert ours.data.tags["mlflow.parentRunId"] == seen.info.run_id
    assert model.history.steps


@pytest.mark.usefixtures("own_temporary_files")  # where it stores the model
def test_a_udf_of_mlflow_gives_what_transform_gives(
    spark: SparkSession, classifier: InferenceModel, mixed: InferenceModel, tmp_path: Path
) -> None:
    mlflow = pytest.importorskip("mlflow")
    rows = [(i, [float(i), 1.0 - i, i / 3]) for i in range(50)]
    df = spark.createDataFrame(rows, "id int, features array<double>")
    save_model(classifier, tmp_path / "dense")
    predict = mlflow.pyfunc.spark_udf(spark, str(tmp_path / "dense"), env_manager="local")
    expected = SparkTrainerModel(classifier).transform(df).orderBy("id").collect()
    found = df.withColumn("p", predict("features")).orderBy("id").collect()
    for want, row in zip(expected, found, strict=True):
        got = row["p"]
        assert (want["prediction"], want["word"]) == (got["prediction"], got["word"])
        np.testing.assert_array_equal(want["probability"], got["probability"])
        np.testing.assert_array_equal(want["rawPrediction"], got["rawPrediction"])
        assert want["twice"] == got["twice"]

    schema = (
        "id bigint, age double, pixels array<array<double>>, title string, "
        "bag struct<indices array<bigint>, values array<double>>, words array<string>, "
        "nums array<double>"
    )
    words = ["a", "zz"]
    data = [
        (
            i,
            i / 2,
            [[1.0, 2.0], [3.0, 4.0]],
            "ä",
            ([3, 1], [1.0, 2.0]),
            words[: i % 3],
            [i / 2, 1.0],
        )
        for i in range(50)
    ]
    df = spark.createDataFrame(data, schema)
    save_model(mixed, tmp_path / "mixed")
    predict = mlflow.pyfunc.spark_udf(spark, str(tmp_path / "mixed"), env_manager="local")
    names = [each.name for each in mixed.signature.inputs]
    found = df.withColumn("p", predict(F.struct(*names))).orderBy("id").collect()
    dense = F.expr("array(0D, bag.values[1], 0D, bag.values[0])").cast("array<float>")
    model = SparkTrainerModel(mixed)._set(featuresCol={name: name for name in names})
    expected = model.transform(df.withColumn("bag", dense)).orderBy("id").collect()
    for want, row in zip(expected, found, strict=True):
        for name in ("total", "shout"):
            assert want[name] == row["p"][name]
