"""Our estimators inside pyspark.ml's: tuning, pipelines, OneVsRest."""

from collections.abc import Callable, Iterator
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import OneVsRest, OneVsRestModel
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.functions import vector_to_array
from pyspark.ml.tuning import (
    CrossValidator,
    CrossValidatorModel,
    ParamGridBuilder,
    TrainValidationSplit,
)
from pyspark.sql import DataFrame, SparkSession

import sparkflow as tf
from sparkflow.spark import (
    SparkDNNClassifier,
    SparkLinearClassifier,
    SparkLinearRegressor,
    SparkTrainerClassificationModel,
    SparkTrainerClassifier,
    SparkTrainerRegressor,
)

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("child_processes"),
]

Frame = Callable[[str], DataFrame]


@pytest.fixture(autouse=True)
def closed_pools(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """pyspark.ml leaves its thread pools to the garbage collector, which complains."""
    pools = []

    def pool(processes: int) -> Any:
        pools.append(ThreadPool(processes))
        return pools[-1]

    monkeypatch.setattr("pyspark.ml.tuning.ThreadPool", pool)
    monkeypatch.setattr("pyspark.ml.classification.ThreadPool", pool)
    yield
    for each in pools:
        each.terminate()
        each.join()


def _accuracy(predicted: DataFrame) -> float:
    return MulticlassClassificationEvaluator(metricName="accuracy").evaluate(predicted)


def network(features: Any, mode: str, params: dict[str, Any], num_classes: int) -> Any:
    """A user's network: without loss, weights or predictions."""
    assert mode in ("train", "eval", "infer")
    scaled = (features - 3.5) / 2.0
    hidden = tf.layers.dense(scaled, params["units"], activation=tf.nn.relu)
    return tf.layers.dense(hidden, num_classes)


def test_several_parameter_maps_cost_one_job_each_once_the_rows_are_there(
    spark: SparkSession, frame: Frame
) -> None:
    df = frame("iris")
    df.count()
    context: Any = spark.sparkContext
    scheduler = context._jsc.sc().dagScheduler()
    cached = context._jsc.getPersistentRDDs().size()
    trainer = SparkTrainerClassifier(
        network=network, learningRate=0.02, batchSize=16, epochs=6, progress=False
    )
    maps = [
        {trainer.modelParams: {"units": units}, trainer.learningRate: 0.02} for units in (8, 12, 24)
    ]
    models = trainer.fitMultiple(df, maps)
    jobs = [scheduler.numTotalJobs()]
    for index, model in models:
        jobs.append(scheduler.numTotalJobs())
        assert model.inference_model.variables["dense/kernel"].shape == (4, (8, 12, 24)[index])
        assert model.numClasses == 3
    assert np.diff(jobs).tolist()[1:] == [1, 1]
    assert np.diff(jobs)[0] > 1
    assert context._jsc.getPersistentRDDs().size() == cached
    assert _accuracy(model.transform(df)) > 0.85


def test_rows_are_trained_on_only_as_they_were_prepared(spark: SparkSession) -> None:
    given = [(i / 9, i % 7 / 2, float(i), 1.0) for i in range(40)]
    df = spark.createDataFrame(given, "a double, b double, label double, w double")
    estimator = SparkLinearRegressor(
        featuresCol=["a", "b"], standardization=False, syncMode="sync", epochs=1, progress=False
    )
    differing: dict[str, tuple[dict[str, Any], str]] = {
        "standardization": ({"standardization": True}, "False -> True"),
        "labelCol": ({"labelCol": "a"}, "'label' -> 'a'"),
        "weightCol": ({"weightCol": "w"}, "'' -> 'w'"),
        "featuresCol": ({"featuresCol": ["b", "a"]}, r"\['a', 'b'\] -> \['b', 'a'\]"),
        "seed": ({"seed": 7}, "42 -> 7"),
        "numWorkers": ({"numWorkers": 3}, "1 -> 3"),
        "syncMode, shuffle": ({"syncMode": "async"}, "'by content' -> 'by position'"),
        "validationFraction": ({"validationFraction": 0.5}, "0.0 -> 0.5"),
    }
    with estimator.training_data(df) as data:
        for name, (other, change) in differing.items():
            with pytest.raises(ValueError, match=f"fit_data.*: .*{name}: {change}"):
                estimator.copy(other).fit_data(data)
        own_network = SparkTrainerRegressor(
            network=lambda x: tf.layers.dense(x, 1), featuresCol=["a", "b"], syncMode="sync"
        )
        model = own_network.copy({"epochs": 1, "progress": False}).fit_data(data)
        assert model.history.rows_per_epoch == 40
    standardizing = estimator.copy({"standardization": True})
    message = "standardization: False -> True"
    with own_network.training_data(df) as data, pytest.raises(ValueError, match=message):
        standardizing.fit_data(data)


def test_cross_validation_with_two_threads(frame: Frame, tmp_path: Path) -> None:
    df = frame("iris")
    estimator = SparkLinearClassifier(batchSize=16, epochs=4, progress=False)
    grid = ParamGridBuilder().addGrid(estimator.learningRate, [1e-6, 0.1]).build()
    cross = CrossValidator(
        estimator=estimator,
        estimatorParamMaps=grid,
        evaluator=MulticlassClassificationEvaluator(metricName="accuracy"),
        numFolds=2,
        parallelism=2,
        seed=1,
    )
    path = str(tmp_path / "cross")
    cross.save(path)
    again = CrossValidator.load(path)
    assert [list(each.values()) for each in again.getEstimatorParamMaps()] == [[1e-6], [0.1]]
    assert again.getEstimator().getBatchSize() == 16
    model = cross.fit(df)
    assert model.avgMetrics[1] > 0.8 > model.avgMetrics[0]
    assert isinstance(model.bestModel, SparkTrainerClassificationModel)
    assert model.bestModel.inference_model.extra["params"]["learningRate"] == 0.1
    model.write().overwrite().save(path)
    loaded = CrossValidatorModel.load(path)
    assert _accuracy(loaded.transform(df)) == _accuracy(model.transform(df)) > 0.8


@pytest.mark.nightly
def test_a_pipeline_is_saved_tuned_and_read_again(frame: Frame, tmp_path: Path) -> None:
    df = frame("iris").withColumn("x", vector_to_array("features"))
    df = df.select("id", "label", *(df.x[i].alias(f"x{i}") for i in range(4)))
    trainer = SparkDNNClassifier(
        featuresCol="vector", hiddenUnits=[16], learningRate=0.02, batchSize=16, epochs=6
    ).setProgress(False)
    assembler = VectorAssembler(inputCols=[f"x{i}" for i in range(4)], outputCol="vector")
    Pipeline(stages=[assembler, trainer]).save(str(tmp_path / "pipeline"))
    pipeline = Pipeline.load(str(tmp_path / "pipeline"))
    loaded: Any = pipeline.getStages()[1]
    assert loaded.uid == trainer.uid
    assert loaded.getHiddenUnits() == [16]
    split = TrainValidationSplit(
        estimator=pipeline,
        estimatorParamMaps=[{loaded.dropout: 0.0}, {loaded.dropout: 0.98}],
        evaluator=MulticlassClassificationEvaluator(metricName="accuracy"),
        trainRatio=0.7,
        seed=3,
    ).fit(df)
    assert split.validationMetrics[0] > split.validationMetrics[1]
    best: Any = split.bestModel
    best.save(str(tmp_path / "fitted"))
    read = PipelineModel.load(str(tmp_path / "fitted"))
    first, second = (
        [row["probability"] for row in each.transform(df).orderBy("id").collect()]
        for each in (best, read)
    )
    assert first == second
    assert _accuracy(best.transform(df)) > 0.85


@pytest.mark.nightly
def test_one_against_the_rest(frame: Frame, tmp_path: Path) -> None:
    df = frame("iris")
    binary = SparkLinearClassifier(learningRate=0.1, batchSize=32, epochs=8, progress=False)
    model = OneVsRest(classifier=binary, weightCol="weight", parallelism=2).fit(df)
    assert all(each.numClasses == 2 for each in model.models)
    assert all(each.getWeightCol() == "weight" for each in model.models)
    accuracy = _accuracy(model.transform(df))
    assert accuracy > 0.8
    model.save(str(tmp_path / "model"))
    assert _accuracy(OneVsRestModel.load(str(tmp_path / "model")).transform(df)) == accuracy
