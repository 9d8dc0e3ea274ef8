"""Every kind of input through `fit`, validation and `transform`, against numpy."""

from typing import Any

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import Row, SparkSession

import sparkflow as tf
from sparkflow.spark import SparkTrainer

pytestmark = pytest.mark.timeout(600)

ROWS = 60
SIZE = 200
CITIES = ["Oslo", "Rome", "Lima"]
INPUTS = {
    "image": "pixels",
    "age": "age",
    "pair": ["a.b", "age"],
    "city": "city",
    "tags": "tags",
    "ids": "ids",
    "counts": "counts",
}


def model_fn(features: Any, labels: Any, mode: str, weights: Any) -> Any:
    """A linear model of everything."""
    assert features["image"].shape.as_list() == [None, 2, 2, 1]
    assert features["counts"].get_shape().as_list() == [None, SIZE]
    cities = tf.lookup.index_table_from_tensor(CITIES)
    tags = tf.lookup.index_table_from_tensor(["x", "y"], num_oov_buckets=1)

    def table(name: str, rows: int) -> Any:
        return tf.get_variable(name, [rows, 1], initializer=tf.glorot_uniform_initializer())

    found = features["tags"]
    tagged = tf.SparseTensor(found.indices, tags.lookup(found.values), found.dense_shape)
    output = (
        tf.matmul(tf.reshape(features["image"], [-1, 4]), table("image", 4))
        + tf.matmul(features["pair"], table("pair", 2))
        + tf.expand_dims(tf.cast(features["age"], tf.float32), 1) * table("age", 1)
        + tf.nn.embedding_lookup(table("city", 3), cities.lookup(features["city"]))
        + tf.nn.safe_embedding_lookup_sparse(table("tags", 3), tagged, combiner="sum")
        + tf.nn.safe_embedding_lookup_sparse(table("ids", 9), features["ids"], combiner="mean")
        + tf.sparse_tensor_dense_matmul(features["counts"], table("counts", SIZE))
    )
    prediction = tf.squeeze(output, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"prediction": prediction})
    loss = tf.losses.mean_squared_error(labels, prediction, weights)
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=tf.train.AdamOptimizer(0.05).minimize(loss),
        eval_metric_ops={"error": tf.metrics.mean_absolute_error(labels, prediction)},
    )


def rows() -> list[Row]:
    generator = np.random.default_rng(5)
    return [
        Row(
            pixels=generator.random(4).tolist(),
            age=i % 7,
            city=CITIES[i % 3],
            tags=["x", "y", "z"][: i % 4],
            ids=[i % 9] * (i % 3),
            counts=Vectors.sparse(SIZE, {i: 1.0, 100 + i: 2.0}),
            label=float(i % 5),
            importance=1.0 + i % 2,
            **{"a.b": float(i) / ROWS},
        )
        for i in range(ROWS)
    ]


def expected(row: Row, values: Any) -> float:
    tags = [min("xyz".index(tag), 2) for tag in row.tags]
    total = np.dot(row.pixels, values["image"][:, 0]) + row.age * values["age"][0, 0]
    total += np.dot([row["a.b"], row.age], values["pair"][:, 0])
    total += values["city"][CITIES.index(row.city), 0] + values["tags"][tags, 0].sum()
    total += values["ids"][row.ids, 0].mean() if row.ids else 0.0
    return float(total + np.dot(row.counts.toArray(), values["counts"][:, 0]))


def test_a_model_of_every_kind_of_input(spark: SparkSession) -> None:
    df = spark.createDataFrame(rows()).coalesce(2)
    trainer = SparkTrainer(
        model_fn=model_fn,
        featuresCol=INPUTS,
        inputShapes={"image": [2, 2, 1]},
        weightCol="importance",
        validationFraction=0.2,
        numWorkers=2,
        batchSize=8,
        epochs=6,
        progress=False,
    )
    model = trainer.fit(df)
    history = model.history
    assert history.epoch_loss[-1] < history.epoch_loss[0]
    inference = model.inference_model
    predicted = model.transform(df).select("*").collect()
    wanted = [expected(row, inference.variables) for row in predicted]
    np.testing.assert_allclose([row.prediction for row in predicted], wanted, rtol=1e-4, atol=1e-4)
