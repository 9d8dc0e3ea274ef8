"""What leaves Spark: every kind of input, everything wrong with rows, weights, validation."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, Row, SparkSession, functions as F

from sparkflow.spark.data.plan.prepare import PreparedRows, plan_rows, prepare_rows
from sparkflow.spark.data.schema.row_format import Input, RowFormat
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.trainer_params import TrainerParams

NAN, INF = math.nan, math.inf
SPARSE_SIZE = 100


def params(**given: Any) -> FitConfig:
    made = TrainerParams()
    made.setParams(**given)
    return made.config()


class Unsupervised(TrainerParams):
    """The parameters of a trainer whose model_fn takes only features."""

    def takes_labels(self) -> bool:
        return False

    def takes_weights(self) -> bool:
        return False


def prepared(
    df: DataFrame, validation: DataFrame | None = None, **given: Any
) -> tuple[PreparedRows, list[Row]]:
    """Returns what was prepared, and the rows in their order."""
    with prepare_rows(df, params(**given), validation) as found:
        rows = found.rows.collect()
        assert sum(found.partition_rows.values()) == len(rows)
        assert found.num_rows + found.num_validation_rows == len(rows)
        names = [each.name for each in found.format.inputs]
        assert found.rows.columns[: len(names)] == names
    return found, rows


def one(name: str, kind: str, dtype: str, shape: tuple[int, ...]) -> Input:
    return Input(name, kind, dtype, shape)


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> Iterator[DataFrame]:
    """Four rows with a column of every kind."""
    rows = [
        Row(
            label=i % 2,
            real=i + 0.5,
            age=i,
            weight=2.0 * i,
            word=f"w{i}",
            words=["a"] * i,
            ids=list(range(i)),
            floats=[0.5] * i,
            image=[[[float(i)], [1.0]], [[2.0], [3.0]], [[4.0], [5.0]]],
            flat=[float(i), 1.0, 2.0, 3.0],
            wide=Vectors.sparse(SPARSE_SIZE, [(i, 1.0 + i), (50, 3.0)]),
            mixed=Vectors.sparse(SPARSE_SIZE, [(i, 2.0)]) if i else Vectors.dense([7.0] * 100),
            small=Vectors.sparse(3, [(1, float(i))]) if i else Vectors.dense([9.0, 8.0, 7.0]),
            targets=[1.0 * i, 2.0],
            validates=i == 3,
        )
        for i in range(4)
    ]
    made = spark.createDataFrame(rows).coalesce(1)
    made = made.withColumn("age", F.col("age").cast("int")).cache()
    made.count()
    yield made
    made.unpersist()


def test_all_kinds_of_inputs_together(df: DataFrame) -> None:
    given = {
        "age": "age",
        "real": "real",
        "word": "word",
        "words": "words",
        "ids": "ids",
        "floats": "floats",
        "image": "image",
        "square": "flat",
        "pair": ["age", "real"],
        "wide": "wide",
        "small": "small",
    }
    shapes = {"floats": [None], "square": [2, 2]}
    found, rows = prepared(df, featuresCol=given, inputShapes=shapes, weightCol="weight")
    assert found.format == RowFormat(
        (
            one("age", "dense", "int64", ()),
            one("real", "dense", "float32", ()),
            one("word", "dense", "string", ()),
            one("words", "ragged", "string", ()),
            one("ids", "ragged", "int64", ()),
            one("floats", "ragged", "float32", ()),
            one("image", "dense", "float32", (3, 2, 1)),
            one("square", "dense", "float32", (2, 2)),
            one("pair", "dense", "float32", (2,)),
            one("wide", "sparse", "float32", (SPARSE_SIZE,)),
            one("small", "dense", "float32", (3,)),
        ),
        one("label", "dense", "int64", ()),
        one("weight", "dense", "float32", ()),
        named=True,
    )
    kinds = dict(found.rows.dtypes)
    assert kinds["ids"] == "array<bigint>"
    assert kinds["image"] == kinds["square"] == kinds["small"] == "array<float>"
    assert kinds["wide"] == "struct<indices:array<int>,values:array<float>>"
    row = rows[2]
    assert (row.age, row.real, row.word, row.label, row.weight) == (2, 2.5, "w2", 0, 4.0)
    assert (row.words, row.ids, row.floats) == (["a", "a"], [0, 1], [0.5, 0.5])
    assert row.image == [2.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert row.pair == [2.0, 2.5]
    assert (row.wide.indices, row.wide["values"]) == ([2, 50], [3.0, 3.0])
    assert [each.small for each in rows] == [[9.0, 8.0, 7.0], *([0.0, i, 0.0] for i in (1, 2, 3))]
    assert found.num_classes == 2


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_vectors_of_both_forms_in_one_column(df: DataFrame, form: str) -> None:
    found, rows = prepared(df, featuresCol="mixed", vectorFormat=form)
    (given,) = found.format.features
    assert (given.kind, given.shape) == (form, (SPARSE_SIZE,))
    dense = np.zeros((4, SPARSE_SIZE))
    dense[0] = 7.0
    dense[[1, 2, 3], [1, 2, 3]] = 2.0
    if form == "dense":
        np.testing.assert_array_equal([row.features for row in rows], dense)
        return
    for row, wanted in zip(rows, dense, strict=True):
        assert row.features.indices == np.flatnonzero(wanted).tolist()
        assert row.features["values"] == wanted[wanted != 0].tolist()


def test_thin_rows_of_a_dense_column(df: DataFrame) -> None:
    # The only dense row stores a quarter of all elements.
    found, rows = prepared(df, featuresCol="mixed")
    assert found.format.features[0].kind == "dense"
    np.testing.assert_array_equal(
        [np.flatnonzero(row.features).tolist() for row in rows[1:]], [[1], [2], [3]]
    )
    assert rows[3].features[3] == 2.0


@pytest.mark.parametrize(
    ("features", "shapes", "wanted"),
    [
        ("flat", {}, one("features", "dense", "float32", (4,))),
        ("flat", {"flat": [4, 1]}, one("features", "dense", "float32", (4, 1))),
        ("age", {}, one("features", "dense", "float32", (1,))),
        ("words", {}, one("features", "ragged", "string", ())),
        ("ids", {"features": [None]}, one("features", "ragged", "int64", ())),
        (["age", "real"], {"features": [2, 1]}, one("features", "dense", "float32", (2, 1))),
        ("small", {"features": [1, 3]}, one("features", "dense", "float32", (1, 3))),
    ],
)
def test_one_input(df: DataFrame, features: Any, shapes: Any, wanted: Input) -> None:
    with prepare_rows(df, params(featuresCol=features, inputShapes=shapes)) as found:
        assert found.format.features == (wanted,)
        assert not found.format.named
        assert found.rows.columns == ["features", "label"]


def test_labels_of_several_numbers(df: DataFrame) -> None:
    found, rows = prepared(df, featuresCol="flat", labelCol="targets")
    assert found.format.label == one("label", "dense", "float32", (2,))
    assert [row.label for row in rows] == [[1.0 * i, 2.0] for i in range(4)]
    found, rows = prepared(df, featuresCol="flat", labelCol="small")
    assert rows[1].label == [0.0, 1.0, 0.0]
    assert found.num_classes is None
    without = Unsupervised()
    without.setParams(featuresCol="flat")
    with prepare_rows(df.drop("label"), without.config()) as unlabelled:
        assert unlabelled.format.label is None
    for given in ({"weightCol": "weight"}, {"classWeights": "balanced"}):
        with pytest.raises(ValueError, match="model_fn has no argument called weights"):
            plan_rows(df, without.copy().setParams(**given).config())


FAULTY = "features double, label int, weight double, numbers array<float>, words array<string>"


@pytest.fixture(scope="module")
def faulty(spark: SparkSession) -> Iterator[DataFrame]:
    """Eight rows; most of them are wrong."""
    good = [1.0, 2.0]
    rows = [
        (1.0, 0, 1.0, good, ["a"]),
        (None, 1, 1.0, good, ["a"]),
        (NAN, 2, 1.0, [1.0, NAN], ["a"]),
        (INF, 0, 1.0, good, ["a"]),
        (1.0, 1, 1.0, [None, 2.0], ["a", None]),
        (1.0, 2, 1.0, [-INF, NAN], None),
        (NAN, 0, 1.0, None, []),
        (2.0, 1, 1.0, good, ["b"]),
    ]
    made = spark.createDataFrame(rows, FAULTY).coalesce(1).cache()
    made.count()
    yield made
    made.unpersist()


INPUTS = {"real": "features", "numbers": "numbers", "words": "words"}


def test_errors_name_every_column_and_count(faulty: DataFrame) -> None:
    with pytest.raises(ValueError, match="cannot be trained on") as caught:
        prepared(faulty, featuresCol=INPUTS)
    assert str(caught.value) == (
        "Nulls, NaNs and infinities cannot be trained on. Found in features column 'features': "
        "nulls in 1, NaNs in 2 and infinities in 1 of 8 rows; features column 'numbers': "
        "nulls in 2, NaNs in 2 and infinities in 1 of 8 rows; features column 'words': "
        "nulls in 2 of 8 rows. Leave these rows out (handleInvalid='skip', or df.dropna()) or "
        "replace them (handleInvalid='fill' with fillValue, df.fillna(...), "
        "pyspark.ml.feature.Imputer)"
    )


def test_skipping(faulty: DataFrame) -> None:
    found, rows = prepared(faulty, featuresCol=INPUTS, handleInvalid="skip")
    assert [row.words for row in rows] == [["a"], ["b"]]
    assert found.skipped == {"features": 4, "numbers": 4, "words": 2}
    assert found.filled == {}
    with pytest.raises(ValueError, match="leaves none of the 4 rows"):
        prepared(faulty.where("features is null or not features < 3"), featuresCol="features",
                 handleInvalid="skip")  # fmt: skip


def test_filling(faulty: DataFrame) -> None:
    found, rows = prepared(faulty, featuresCol=INPUTS, handleInvalid="fill", fillValue=-1)
    assert [row.real for row in rows] == [1, -1, -1, -1, 1, 1, -1, 2]
    assert [row.numbers for row in rows[4:7]] == [[-1, 2], [-1, -1], [-1, -1]]
    assert [row.words for row in rows[4:7]] == [["a", ""], [], []]
    assert found.filled == {"features": 4, "numbers": 4, "words": 2}
    assert found.skipped == {}


def test_labels_and_weights_are_never_filled(faulty: DataFrame) -> None:
    wrong = faulty.withColumn("label", F.when(F.col("label") > 0, F.col("label")))
    wrong = wrong.withColumn("weight", F.when(F.col("label") == 1, -1.0).otherwise(1.0))
    with pytest.raises(
        ValueError,
        match=r"Nulls and negative weights .* label column 'label': nulls in 3 of 8 rows; weight "
        r"column 'weight': negative weights in 3 of 8 rows.*'fill' fills features only",
    ):
        prepared(wrong, weightCol="weight", handleInvalid="fill")
    found, rows = prepared(wrong, featuresCol="words", weightCol="weight", handleInvalid="skip")
    assert [row.label for row in rows] == [2]
    assert found.skipped == {"words": 2, "label": 3, "weight": 3}


def test_faults_of_vectors_and_lists_of_columns(spark: SparkSession) -> None:
    rows = [
        (Vectors.dense([1.0, NAN]), Vectors.sparse(100, {3: INF}), 1.0, None, 0),
        (Vectors.sparse(2, {0: NAN}), Vectors.sparse(100, {3: 1.0}), NAN, None, 0),
        (None, None, 1.0, 1.0, 0),
    ]
    schema = spark.createDataFrame(
        [(Vectors.dense([1.0]), Vectors.dense([1.0]), 1.0, 1.0, 0)], ["v", "s", "a", "b", "label"]
    ).schema
    df = spark.createDataFrame(rows, schema).coalesce(1)
    inputs = {"v": "v", "s": "s", "list": ["a", "b"]}
    found, filled = prepared(df, featuresCol=inputs, handleInvalid="fill", fillValue=5.0)
    assert found.filled == {"v": 3, "s": 2, "a": 1, "b": 2}
    assert [row.v for row in filled] == [[1, 5], [5, 0], [5, 5]]
    assert [(row.s.indices, row.s["values"]) for row in filled] == [
        ([3], [5]),
        ([3], [1]),
        ([], []),
    ]
    assert [row.list for row in filled] == [[1, 5], [5, 5], [1, 1]]


def test_lengths(df: DataFrame) -> None:
    with pytest.raises(ValueError, match=r"'floats' holds arrays of different lengths: expected 0, "
                       r"as 1 of 4 rows have, but 3 rows have a different .*: 1 \(1 rows\), 2 .*"
                       r"inputShapes=\{'features': \[None\]\}"):  # fmt: skip
        prepared(df, featuresCol="floats")
    uneven = df.withColumn("image", F.when(F.col("age") == 1, F.slice("image", 1, 2)).otherwise(
        F.col("image")))  # fmt: skip
    with pytest.raises(ValueError, match=r"expected 3x2x1, .* different length: 2x2x1 \(1 rows\)"):
        prepared(uneven, featuresCol="image")
    ragged = F.array(F.array(F.lit(1.0)), F.array(F.lit(1.0), F.lit(2.0)))
    with pytest.raises(ValueError, match="expected 2xdifferent"):
        prepared(df.withColumn("image", ragged), featuresCol="image")
    with pytest.raises(ValueError, match=r"says \[5, 1\] for 'features', which has 5 .* holds 4"):
        prepared(df, featuresCol="flat", inputShapes={"flat": [5, 1]})
    with pytest.raises(ValueError, match="'flat' are empty"):
        prepared(df.withColumn("flat", F.array().cast("array<float>")), featuresCol="flat")
    with pytest.raises(ValueError, match="The DataFrame has no rows"):
        prepared(df.where("age < 0"), featuresCol="flat")


def test_weights(df: DataFrame) -> None:
    found, rows = prepared(
        df, featuresCol="flat", weightCol="weight", classWeights={"0": 3.0, "5": 7.0}
    )
    assert [row.weight for row in rows] == [0.0, 2.0, 12.0, 6.0]
    assert found.class_factors == {0: 3.0, 5: 7.0}
    found, rows = prepared(
        df.withColumn("label", F.when(F.col("age") == 1, 5).otherwise(0)),
        featuresCol="flat",
        classWeights="balanced",
        validationIndicatorCol="validates",
    )
    # Of the three training rows, two have label 0: 3 / (2 * 2), and 3 / (2 * 1).
    assert [row.weight for row in rows] == [0.75, 1.5, 0.75, 0.75]
    assert found.format.weight == one("weight", "dense", "float32", ())
    _, rows = prepared(df, featuresCol="flat", labelCol="real", classWeights={"1.5": 2})
    assert [row.weight for row in rows] == [1, 2, 1, 1]


def test_validation_by_column(df: DataFrame) -> None:
    found, rows = prepared(df, featuresCol="flat", validationIndicatorCol="validates")
    assert [row.validates for row in rows] == [False, False, False, True]
    assert (found.num_rows, found.num_validation_rows) == (3, 1)
    with pytest.raises(ValueError, match="None of the 4 rows is a validation row"):
        prepared(df.withColumn("no", F.lit(False)), featuresCol="flat", validationIndicatorCol="no")
    with pytest.raises(ValueError, match="All 4 rows are validation rows"):
        prepared(df.withColumn("y", F.lit(True)), featuresCol="flat", validationIndicatorCol="y")


def test_validation_by_fraction_depends_on_the_content_alone(spark: SparkSession) -> None:
    df = spark.range(1000).select(F.array(F.col("id").cast("float")).alias("features"),
                                  (F.col("id") % 2).alias("label"))  # fmt: skip
    drawn = []
    for frame, seed in [(df, 1), (df.orderBy(F.desc("label")).repartition(7), 1), (df, 2)]:
        found, rows = prepared(frame, validationFraction=0.25, seed=seed)
        assert 200 < found.num_validation_rows < 300
        drawn.append({row.features[0] for row in rows if row.validates})
    assert drawn[0] == drawn[1] != drawn[2]


def test_validation_by_a_second_dataframe(df: DataFrame) -> None:
    other = df.where("age > 1").select("label", F.col("flat").cast("array<double>").alias("flat"))
    found, rows = prepared(df, other, featuresCol="flat")
    assert (found.num_rows, found.num_validation_rows) == (4, 2)
    assert [row.features[0] for row in rows if row.validates] == [2.0, 3.0]
    with pytest.raises(ValueError, match="'label'; the validation DataFrame has flat "):
        prepared(df, other.drop("label"), featuresCol="flat")
    with pytest.raises(TypeError, match=r"label column 'label' of the training rows has int64 "
                       "values, that of the validation rows has float32 values"):  # fmt: skip
        prepared(df, other.withColumn("label", F.lit(1.5)), featuresCol="flat")
    with pytest.raises(ValueError, match="more than one way: validationFraction and a DataFrame"):
        prepared(df, other, featuresCol="flat", validationFraction=0.5)


def test_only_what_is_needed_is_read(df: DataFrame, spark: SparkSession, tmp_path: Any) -> None:
    path = str(tmp_path / "rows")
    df.select("flat", "label", "age", "real", "word").write.parquet(path)
    read = spark.read.parquet(path)
    with prepare_rows(read, params(featuresCol=["age", "real"], cache=False)) as found:
        plan = found.rows._jdf.queryExecution().executedPlan().toString()
    schema = plan.split("ReadSchema: ")[1].split("\n")[0]
    assert schema == "struct<label:bigint,age:int,real:double>"


def test_what_is_cached_is_let_go(df: DataFrame, spark: SparkSession) -> None:
    uncached = df.select("flat", "label").where("label >= 0")
    before = len(spark.sparkContext._jsc.getPersistentRDDs())
    with prepare_rows(uncached.select("*"), params(featuresCol="flat")):
        assert len(spark.sparkContext._jsc.getPersistentRDDs()) == before + 1
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == before
    with prepare_rows(df, params(featuresCol="flat")):  # the input is cached
        assert len(spark.sparkContext._jsc.getPersistentRDDs()) == before


def test_no_job_runs_for_what_the_schema_says(df: DataFrame) -> None:
    never = df.withColumn("flat", F.raise_error(F.lit("a job ran")).cast("array<float>"))
    for given, kind, text in [
        ({"featuresCol": "Flut"}, ValueError, "no column 'Flut'; .* Did you mean 'flat'"),
        ({"featuresCol": "flat", "labelCol": "word"}, TypeError, "StringIndexer"),
        ({"featuresCol": "flat", "classWeights": {"x": 1}}, ValueError, "the label 'x'"),
        ({"featuresCol": "age", "validationIndicatorCol": "age"}, TypeError, "must be boolean"),
        ({"featuresCol": {"ids": "ids"}, "handleInvalid": "fill", "fillValue": 0.5}, ValueError,
         "fillValue is 0.5"),
    ]:  # fmt: skip
        with pytest.raises(kind, match=text):
            prepared(never, **given)


def _validating(frame: DataFrame, draw: str, seed: int = 7) -> list[tuple[Any, bool]]:
    found, rows = prepared(frame, validationFraction=0.25, seed=seed, validationDraw=draw)
    assert found.num_validation_rows == sum(row["validates"] for row in rows)
    return sorted((row["label"], row["validates"]) for row in rows)


def test_equal_rows_are_drawn_singly_where_asked_for(spark: SparkSession) -> None:
    df = spark.range(400).selectExpr("array(1D, 2D) AS features", "0L AS label")
    with pytest.raises(ValueError, match=r"rows (are|is a) validation row"):  # all of them, or none
        _validating(df, "content")
    one = _validating(df, "single")
    assert 70 <= sum(validates for _, validates in one) <= 130
    assert one == _validating(df.repartition(5), "single")


def test_each_class_gives_its_share_where_asked_for(spark: SparkSession) -> None:
    df = spark.range(400).selectExpr(
        "array(CAST(id % 50 AS DOUBLE)) AS features", "CAST(id % 20 = 0 AS BIGINT) AS label"
    )
    found = _validating(df, "stratified")
    assert found == _validating(df.repartition(7), "stratified")
    taken = {
        label: sum(validates for each, validates in found if each == label) for label in (0, 1)
    }
    assert taken == {0: 95, 1: 5}
    floats = df.selectExpr("features", "label / 2D AS label")
    with pytest.raises(ValueError, match="must be a column of integers; it is float32"):
        _validating(floats, "stratified")
