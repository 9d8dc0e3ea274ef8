"""`SparkTrainerModel` on DataFrames: columns, policies, streams, and how it is sent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import DenseVector, Vectors, VectorUDT
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructField, StructType

from sparkflow.export import InferenceModel
from sparkflow.spark import SparkTrainerModel
from sparkflow_runtime.errors import FailedPreconditionError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

MIXED_COLUMNS = {
    "age": "age",
    "id": "number",
    "pixels": "pix.els",
    "title": "title",
    "bag": "bag",
    "words": "words",
    "nums": ["a", "b"],
}
MIXED_SCHEMA = (
    "age double, number int, `pix.els` array<array<float>>, title string, "
    "words array<string>, a float, b boolean"
)


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Vectors, dense and sparse, in Parquet files, together with arrays and scalars."""
    vectors = [Vectors.dense(1, 2, 3), Vectors.sparse(3, {0: 4.0}), Vectors.dense(-1, 1, 0)] * 4
    data = [(i, v, v.toArray().tolist(), *map(float, v.toArray())) for i, v in enumerate(vectors)]
    path = str(tmp_path_factory.mktemp("rows") / "parquet")
    df = spark.createDataFrame(data, ["id", "features", "list", "a", "b", "c"])
    df.repartition(3).write.parquet(path)
    return spark.read.parquet(path)


def _expected(classifier: InferenceModel, rows: DataFrame) -> dict[str, np.ndarray]:
    found = [row["list"] for row in rows.orderBy("id").collect()]
    return classifier.predict(np.array(found, np.float32))


@pytest.mark.parametrize("features", ["features", "list", ["a", "b", "c"]])
def test_every_form_of_features_gives_the_same(
    classifier: InferenceModel, rows: DataFrame, features: Any
) -> None:
    model = SparkTrainerModel(classifier).setFeaturesCol(features)
    predicted = model.transform(rows)
    assert dict(predicted.dtypes[6:]) == {
        "prediction": "double",
        "probability": "vector",
        "rawPrediction": "vector",
        "word": "string",
        "twice": "array<array<float>>",
    }
    expected = _expected(classifier, rows)
    found = predicted.orderBy("id").collect()
    assert [row["prediction"] for row in found] == expected["prediction"].tolist()
    assert [row["word"].encode() for row in found] == expected["word"].tolist()
    assert [row["twice"] for row in found] == expected["twice"].tolist()
    for row, probability in zip(found, expected["probability"], strict=True):
        assert isinstance(row["probability"], DenseVector)
        np.testing.assert_allclose(row["probability"], probability, rtol=1e-6)


def _mixed_rows(spark: SparkSession) -> DataFrame:
    vectors = [Vectors.sparse(4, {1: 2.0, 3: 1.0}), Vectors.dense(0, 0, 0, 5), None]
    data = [
        (1.5, 10, [[1.0, 2.0], [3.0, 4.0]], "x", vectors[0], ["a", "zz", "c"], 1.0, True),
        (2.5, 20, [[0.0, 0.0], [0.0, 1.0]], "ä", vectors[1], [], 2.0, False),
        (2.5, 20, [[0.0, 0.0], [0.0, 1.0]], "ä", vectors[2], ["b"], 2.0, None),
    ]
    fields = spark.createDataFrame([], MIXED_SCHEMA).schema.fields  # a copy
    fields.insert(4, StructField("bag", VectorUDT()))
    return spark.createDataFrame(data, StructType(fields))


def test_inputs_of_every_kind(
    mixed: InferenceModel, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = _mixed_rows(spark).coalesce(1)
    model = SparkTrainerModel(mixed).setHandleInvalid("keep")
    model._set(featuresCol=MIXED_COLUMNS)

    def collected() -> list[tuple[Any, ...]]:
        return [tuple(row) for row in model.transform(df).select(*names).collect()]

    names = ("total", "embedded", "shout")
    expected = [(26.5, 1101.0, "x!"), (30.5, 0.0, "ä!"), (None, None, None)]
    assert collected() == expected
    model.setHandleInvalid("skip")
    assert collected() == expected[:2]
    monkeypatch.delattr(F, "arrow_udf", raising=False)  # as with Spark before 4.1
    with pytest.raises(Exception, match="nulls or NaNs in the features column 'bag'"):
        model.setHandleInvalid("error").transform(df).collect()
    model.setHandleInvalid("keep")
    assert collected() == expected


def test_rows_with_nulls(classifier: InferenceModel, rows: DataFrame) -> None:
    broken = rows.withColumn("b", F.when(F.col("id") != 3, F.col("b")))
    model = SparkTrainerModel(classifier).setFeaturesCol(["a", "b", "c"])
    with pytest.raises(Exception, match=r"1 of \d+ rows of a batch hold nulls or NaNs"):
        model.transform(broken.coalesce(1)).collect()
    kept = model.setHandleInvalid("keep").transform(broken).orderBy("id").collect()
    assert [i for i, row in enumerate(kept) if row["prediction"] is None] == [3]
    assert kept[3]["probability"] is None
    assert kept[3]["twice"] is None
    skipped = model.setHandleInvalid("skip").transform(broken)
    assert sorted(row["id"] for row in skipped.collect()) == [i for i in range(12) if i != 3]
    filled = model.setHandleInvalid("fill").setFillValue(9.0).transform(broken)
    expected = classifier.predict(np.array([[1.0, 9.0, 3.0]], np.float32))
    (row,) = filled.where("id = 3").collect()
    np.testing.assert_allclose(row["rawPrediction"], expected["rawPrediction"][0], rtol=1e-6)


@pytest.mark.parametrize("policy", ["error", "keep"])
def test_vectors_are_the_same_whoever_makes_them(
    classifier: InferenceModel, rows: DataFrame, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """From Spark 4.1 on Python returns vectors, before that the JVM converts arrays to them."""
    if policy != "error":
        rows = rows.withColumn("b", F.when(F.col("id") % 5 != 3, F.col("b")))
    model = SparkTrainerModel(classifier).setFeaturesCol(["a", "b", "c"]).setHandleInvalid(policy)
    model.setInferenceBatchSize(2)

    def seen(found: DataFrame) -> list[Any]:
        """Returns what Python and functions of the JVM get of them."""
        columns = [F.col(name) for name in ("probability", "rawPrediction")]
        numbers = [F.when(each.isNotNull(), vector_to_array(each)) for each in columns]
        sizes = [F.unwrap_udt(each).getField("type") for each in columns] if is_new else []
        return found.select("id", *columns, *numbers, *sizes).orderBy("id").collect()

    is_new = hasattr(F, "unwrap_udt") and hasattr(F, "arrow_udf")
    given = model.transform(rows)
    assert given.schema["probability"].dataType == VectorUDT()
    found = seen(given)
    assert all(isinstance(row["probability"], DenseVector | None) for row in found)
    assert {row["probability"] is None for row in found} == {False} | {policy == "keep"}
    monkeypatch.delattr(F, "arrow_udf", raising=False)
    made = model.transform(rows)
    assert made.schema["rawPrediction"].dataType == VectorUDT()
    assert seen(made) == found


def test_the_jvm_takes_vectors_of_predictions(
    classifier: InferenceModel, rows: DataFrame, tmp_path: Path
) -> None:
    predicted = SparkTrainerModel(classifier).transform(rows)
    labelled = predicted.withColumn("label", (F.col("id") % 2).cast("double"))
    area = BinaryClassificationEvaluator(rawPredictionCol="probability").evaluate(labelled)
    assert 0 <= area <= 1
    predicted.select("id", "probability").write.parquet(str(tmp_path / "kept"))
    kept = rows.sparkSession.read.parquet(str(tmp_path / "kept"))
    assert kept.orderBy("id").collect() == predicted.select(*kept.columns).orderBy("id").collect()


def test_a_stream_is_transformed(
    classifier: InferenceModel, rows: DataFrame, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    rows.select("id", "features").coalesce(2).write.parquet(str(source))
    stream = spark.readStream.schema(rows.select("id", "features").schema).parquet(str(source))
    predicted = SparkTrainerModel(classifier).transform(stream)
    assert predicted.isStreaming
    query = (
        predicted.select("id", "prediction", "probability")
        .writeStream.format("memory")
        .queryName("predictions")
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
    found = spark.table("predictions").orderBy("id").collect()
    expected = _expected(classifier, rows)
    assert [row["prediction"] for row in found] == expected["prediction"].tolist()
    np.testing.assert_allclose(found[0]["probability"], expected["probability"][0], rtol=1e-6)


def test_a_model_travels_once_and_runs_once_per_row(
    classifier: InferenceModel,
    rows: DataFrame,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = SparkTrainerModel(classifier).setFeaturesCol("list")
    packed = []
    to_files = InferenceModel.to_files
    monkeypatch.setattr(
        InferenceModel, "to_files", lambda self: packed.append(self) or to_files(self)
    )
    first = model.transform(rows)
    first.where("prediction > 0").select("word", "probability").explain()
    assert capsys.readouterr().out.count("ArrowEvalPython") == 1
    copy = model.copy({model.predictionCol: "other"})
    assert "other" in copy.transform(rows).columns
    assert len(packed) == 1


@pytest.mark.parametrize("features", ["features", "list", ["a", "b", "c"]])
def test_rows_go_to_python_as_rows(
    classifier: InferenceModel, rows: DataFrame, features: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given = rows if features == "features" else rows.drop("features")  # without vectors
    SparkTrainerModel(classifier).setFeaturesCol(features).transform(given).explain()
    plan = capsys.readouterr().out
    assert plan.index("ArrowEvalPython") < plan.index("ColumnarToRow") < plan.index("FileScan")


def test_files_of_many_few_and_no_rows_keep_their_order(
    classifier: InferenceModel, spark: SparkSession, tmp_path: Path
) -> None:
    schema = "id bigint, list array<float>, note string, nested struct<x: int, y: array<string>>"
    for index, ids in enumerate(
        [range(700), range(0), range(700, 701)]
    ):  # more than an Arrow batch
        data = [
            (i, None if i % 50 == 7 else [i / 700.0, 1.0, -2.0], "é" * (i % 3), (i, [None, "b"]))
            for i in ids
        ]
        spark.createDataFrame(data, schema).coalesce(1).write.parquet(
            str(tmp_path / f"part={index}")
        )
    given = spark.read.parquet(str(tmp_path))
    model = SparkTrainerModel(classifier).setFeaturesCol("list").setHandleInvalid("keep")
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "64")
    try:
        found = model.transform(given).coalesce(1).collect()
    finally:
        spark.conf.set(setting, before)
    own = given.coalesce(1).collect()
    assert [row[: len(given.columns)] for row in found] == [tuple(row) for row in own]
    valid = [row for row in found if row["list"] is not None]
    assert len(found) - len(valid) == len(range(7, 701, 50))
    assert all(row["prediction"] is None for row in found if row["list"] is None)
    expected = classifier.predict(np.array([row["list"] for row in valid], np.float32))
    assert [row["prediction"] for row in valid] == expected["prediction"].tolist()


def test_a_model_without_training_and_columns_that_do_not_fit(
    classifier: InferenceModel, mixed: InferenceModel, rows: DataFrame
) -> None:
    with pytest.raises(FailedPreconditionError, match="This SparkTrainerModel is empty"):
        SparkTrainerModel().transform(rows)
    model = SparkTrainerModel(classifier)
    with pytest.raises(ValueError, match="has columns named prediction already"):
        model.transform(rows.withColumn("prediction", F.lit(0)))
    for features, error, text in (
        ("nothing", ValueError, "There is no column 'nothing'"),
        (["a", "b"], TypeError, "takes 3 numbers per row .* names 2 columns"),
        ("id", TypeError, "takes 3 numbers per row"),
    ):
        with pytest.raises(error, match=text):
            model.setFeaturesCol(features).transform(rows)
    short = rows.withColumn("list", F.slice("list", 1, 2))
    with pytest.raises(Exception, match=r"takes 3 elements .* in column 'list': 2"):
        model.setFeaturesCol("list").transform(short).collect()
    with pytest.raises(ValueError, match=r"has the inputs 'age', 'id', .* must be a dictionary"):
        SparkTrainerModel(mixed).transform(rows)
    assert "handleInvalid" in model.explainParams()


def test_columns_that_share_a_name_are_kept(classifier: InferenceModel, rows: DataFrame) -> None:
    model = SparkTrainerModel(classifier).setFeaturesCol("list")
    twice = rows.select("id", "list", F.lit(1).alias("z"), F.lit(2).alias("z"))
    predicted = model.transform(twice)
    assert predicted.columns[:4] == ["id", "list", "z", "z"]
    expected = _expected(classifier, rows)["prediction"]
    found = [row["prediction"] for row in predicted.orderBy("id").collect()]
    np.testing.assert_allclose(found, expected)
