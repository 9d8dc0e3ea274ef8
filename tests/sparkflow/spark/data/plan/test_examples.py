from typing import Any

import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession

import sparkflow as tf
from sparkflow.spark import SparkTrainer
from sparkflow.spark.data.plan.examples import example_rows
from sparkflow.spark.data.plan.prepare import prepare_rows


def no_model(features: Any) -> Any:
    raise AssertionError("it is not called")


@pytest.mark.skipif(
    not hasattr(DataFrame, "toArrow"), reason="trainers ask for none with Spark 3.5"
)
def test_rows_as_a_batch_of_them_is_fed(spark: SparkSession) -> None:
    rows = [(Vectors.dense([i, 1.0]), [f"word{i}"] * i, float(i)) for i in range(1, 5)]
    df = spark.createDataFrame(rows, ["numbers", "words", "label"])
    trainer = SparkTrainer(
        model_fn=no_model,
        featuresCol={"numbers": "numbers", "words": "words"},
        labelCol="label",
        progress=False,
    )
    with prepare_rows(df, trainer.config(False)) as prepared:
        some, every = example_rows(prepared, 2), example_rows(prepared, 100)
    wanted = [part for each in prepared.format.inputs for part in each.components]
    # Every component, in order: a missing or moved one is noticed, also among strings.
    assert [tf.as_dtype(each.dtype) for each in some] == [dtype for dtype, _ in wanted]
    assert [each.ndim for each in some] == [len(shape) for _, shape in wanted]
    assert len(some[0]) == 2
    numbers, places, words, sizes = every
    counts = numbers[:, 0].astype(int)
    assert sorted(counts.tolist()) == [1, 2, 3, 4]
    assert numbers[:, 1].tolist() == [1.0] * 4
    assert words.tolist() == [f"word{count}".encode() for count in counts for _ in range(count)]
    wanted_places = [[row, place] for row, count in enumerate(counts) for place in range(count)]
    assert places.tolist() == wanted_places
    assert sizes.tolist() == [4, 4]
