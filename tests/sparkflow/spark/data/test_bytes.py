"""Columns of bytes: image files, decoded where the graph runs."""

import numpy as np
import pytest
from pyspark.sql import functions as F

import sparkflow as tf
from sparkflow.spark import SparkTrainer

NOT_UTF8 = [b"\xff\xd8\x00", b"\x80", b"", b"plain"]


@pytest.fixture
def pictures(spark, tmp_path):
    """24 JPEGs of different sizes below `dark` and `light`, with their class as the label."""
    random = np.random.RandomState(0)
    with tf.Graph().as_default(), tf.Session() as session:
        pixels = tf.placeholder(tf.uint8, [None, None, 3])
        encoded = tf.image.encode_jpeg(pixels)
        for number in range(24):
            name, low = (("dark", 0), ("light", 140))[number % 2]
            (tmp_path / name).mkdir(exist_ok=True)
            image = random.randint(low, low + 100, [8 + number % 5, 10, 3])
            content = session.run(encoded, {pixels: image})
            (tmp_path / name / f"{number}.jpg").write_bytes(content)
    files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(str(tmp_path))
    label = F.col("path").contains("/light/").cast("int")
    return files.select("content", label.alias("label"))


def model_fn(features, labels, mode):
    def decoded(content):
        return tf.image.resize_images(tf.image.decode_jpeg(content, channels=3), [4, 4]) / 255.0

    images = tf.map_fn(decoded, features, dtype=tf.float32)
    logits = tf.layers.dense(tf.layers.flatten(images) - 0.5, 2, name="dense")
    predictions = {"prediction": tf.argmax(logits, 1)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)


def test_jpegs_are_decoded_on_the_workers(pictures, tmp_path):
    trainer = SparkTrainer(
        model_fn=model_fn,
        featuresCol="content",
        numWorkers=2,
        batchSize=6,
        epochs=8,
        syncMode="sync",
        progress=False,
    )
    model = trainer.fit(pictures)
    found = model.transform(pictures).select("label", "prediction").collect()
    assert [row["prediction"] for row in found] == [row["label"] for row in found]
    path = str(tmp_path / "table")
    pictures.write.parquet(path)
    again = trainer.copy({trainer.epochs: 1}).fitOnParquet(path)
    assert again.history.rows_per_epoch == 24


def length_fn(features, labels, mode):
    """Learns nothing: the loss of a batch is computed from its bytes."""
    step = tf.train.get_or_create_global_step()
    parts = features["parts"]
    lengths = tf.strings.length(features["one"]) + tf.reduce_sum(
        tf.strings.length(features["two"]), 1
    )
    total = tf.reduce_sum(lengths) + tf.reduce_sum(tf.strings.length(parts.values))
    scale = tf.get_variable("scale", [], initializer=tf.ones_initializer())
    loss = tf.cast(total, tf.float32) * tf.stop_gradient(scale)
    return tf.estimator.EstimatorSpec(
        mode,
        predictions={"prediction": tf.cast(lengths, tf.float32)},
        loss=loss,
        train_op=tf.group(tf.assign_add(step, 1), tf.assign(scale, scale)),
    )


@pytest.mark.parametrize("handle", ["fill", "skip", "error"])
def test_nulls_lists_and_bytes_that_are_no_text(spark, handle):
    made = [(content, content, "ä", [content, b"\xfe"]) for content in NOT_UTF8]
    made.append((None, b"\xff", "b", [None]))
    df = spark.createDataFrame(made, "one binary, a binary, b string, parts array<binary>")
    trainer = SparkTrainer(
        model_fn=length_fn,
        featuresCol={"one": "one", "two": ["a", "b"], "parts": "parts"},
        labelCol="unused",
        handleInvalid=handle,
        batchSize=8,
        progress=False,
    )
    df = df.withColumn("unused", F.lit(0))
    if handle == "error":
        with pytest.raises(ValueError, match=r"Nulls cannot.*'one': 1 of 5.*'parts': 1 of 5"):
            trainer.fit(df)
        return
    model = trainer.fit(df)
    lengths = [2 * len(content) + 2 for content in NOT_UTF8]
    parts = sum(len(content) + 1 for content in NOT_UTF8)
    more = 2 if handle == "fill" else 0
    assert model.history.loss[-1] == sum(lengths) + parts + more
    found = model.transform(df).select("prediction").collect()
    assert [row["prediction"] for row in found][:4] == lengths
