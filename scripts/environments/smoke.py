"""Runs a step, a fit on `local[2]`, an export and a prediction with the installed packages.

python smoke.py FOLDER        FOLDER is empty and may be written
python smoke.py --core FOLDER without Spark
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import sparkflow as tf
from sparkflow.export import DENSE, InferenceModel, Input, Output, Signature

FEATURES = 4
WEIGHTS = np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)


def network(features: Any) -> Any:
    """A linear model."""
    return tf.squeeze(tf.layers.dense(features, 1, name="linear"), axis=[1])


def core(folder: Path) -> None:
    """Trains with a session, saves the model and predicts from the files."""
    rows = np.random.RandomState(0).rand(256, FEATURES).astype(np.float32)
    labels = (rows @ WEIGHTS)[:, 0]
    with tf.Graph().as_default() as graph, tf.Session() as session:
        features = tf.placeholder(tf.float32, [None, FEATURES], name="features")
        prediction = tf.identity(network(features), name="prediction")
        loss = tf.reduce_mean(tf.square(prediction - labels))
        step = tf.train.AdamOptimizer(0.1).minimize(loss)
        session.run(tf.global_variables_initializer())
        for _ in range(300):
            _, last = session.run([step, loss], {features: rows})
        variables = tf.trainable_variables()
        values = dict(
            zip((each.op.name for each in variables), session.run(variables), strict=True)
        )
        signature = Signature(
            (Input("features", DENSE, "float32", (FEATURES,), ("features:0",)),),
            (Output("prediction", "prediction:0", "float32", ()),),
        )
        InferenceModel.build(graph.as_graph_def(), values, signature).save(str(folder / "model"))
    assert last < 0.01, last
    predicted = InferenceModel.load(str(folder / "model")).predict(rows)["prediction"]
    assert np.abs(predicted - labels).max() < 0.5


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Does the same with a `SparkTrainer`."""
    prediction = network(features)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"prediction": prediction})
    loss = tf.reduce_mean(tf.square(prediction - labels))
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def spark(folder: Path) -> None:
    """Fits, transforms, saves and predicts without Spark."""
    from pyspark.sql import SparkSession

    from sparkflow.spark import SparkTrainer, SparkTrainerModel, use_this_python

    session = SparkSession.builder.master("local[2]").getOrCreate()
    try:
        use_this_python(session)  # before the table, whose rows pass through Python workers
        drawn = np.random.RandomState(0).rand(2000, FEATURES)
        rows = [(row.tolist(), float(row @ WEIGHTS[:, 0])) for row in drawn]
        table = session.createDataFrame(rows, "features array<double>, label double")
        trainer = SparkTrainer(
            model_fn=model_fn, numWorkers=1, numPs=1, epochs=10, batchSize=50, seed=1
        )
        model = trainer.fit(table)
        found = model.transform(table).selectExpr("avg(abs(prediction - label))").first()[0]
        assert found < 0.2, found
        model.write().overwrite().save(str(folder / "saved"))
        SparkTrainerModel.load(str(folder / "saved")).inference_model.save(str(folder / "spark"))
    finally:
        session.stop()
    few = drawn[:8].astype(np.float32)
    predicted = InferenceModel.load(str(folder / "spark")).predict(few)["prediction"]
    assert np.abs(predicted - (few @ WEIGHTS)[:, 0]).mean() < 0.2


if __name__ == "__main__":
    core(Path(sys.argv[-1]))
    if "--core" not in sys.argv:
        spark(Path(sys.argv[-1]))
    print("smoke: passed")
