"""Handwritten digits, from an array column to a confusion matrix, in under a minute.

scikit-learn ships 1,797 digits of 8 × 8 pixels. Two workers train a small convolutional network in
step with each other (syncMode="sync").

    scripts/run_example digits
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from sklearn.datasets import load_digits

import sparkflow as tf
from sparkflow.spark import SparkTrainer

SIDE = 8
CLASSES = 10


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    """Two convolutions, one hidden layer."""
    image = tf.reshape(features / 16.0, [-1, SIDE, SIDE, 1])
    channels = 1
    for layer, filters in enumerate(params["filters"]):
        kernel = tf.get_variable(f"kernel{layer}", [3, 3, channels, filters])
        bias = tf.get_variable(f"bias{layer}", [filters], initializer=tf.zeros_initializer())
        image = tf.nn.conv2d(image, kernel, strides=[1, 1, 1, 1], padding="SAME")
        image = tf.nn.relu(tf.nn.bias_add(image, bias))
        image = tf.nn.max_pool(image, [1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        channels = filters
    side = SIDE // 2 ** len(params["filters"])
    flat = tf.reshape(image, [-1, side * side * channels])
    hidden = tf.layers.dense(flat, 64, activation=tf.nn.relu, name="hidden")
    logits = tf.layers.dense(hidden, CLASSES, name="logits")
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {
            "prediction": tf.argmax(logits, axis=1),
            "probability": tf.nn.softmax(logits),
        }
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    train_op = tf.train.AdamOptimizer(0.003).minimize(
        loss, global_step=tf.train.get_or_create_global_step()
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def draw(path: Path, digits: Any, found: Any, history: Any) -> None:
    """Draws the loss curve, the confusion matrix and the misclassified digits."""
    import matplotlib

    matplotlib.use("Agg")  # no window
    from matplotlib import pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    left.semilogy(range(1, len(history.epoch_loss) + 1), history.epoch_loss)
    left.set(xlabel="epoch", ylabel="cross entropy", title="Training loss")
    matrix = np.zeros((CLASSES, CLASSES), int)
    np.add.at(matrix, (found["label"], found["prediction"].astype(int)), 1)
    middle.imshow(np.log1p(matrix), cmap="Blues")
    for (row, column), count in np.ndenumerate(matrix):
        if count:
            middle.text(column, row, str(count), ha="center", va="center", color="0.5", fontsize=8)
    middle.set(xlabel="found", ylabel="digit", title="Digits that were held out")
    middle.set(xticks=range(CLASSES), yticks=range(CLASSES))
    wrong = found[found["label"] != found["prediction"]].head(12)
    tiles = np.full((3 * (SIDE + 4), 4 * (SIDE + 2)), np.nan)
    for place, (_, row) in enumerate(wrong.iterrows()):
        top, side = place // 4 * (SIDE + 4), place % 4 * (SIDE + 2)
        tiles[top + 3 : top + 3 + SIDE, side : side + SIDE] = digits.images[int(row["id"])]
        label = f"{row['label']:.0f} as {row['prediction']:.0f}"
        right.text(side + 4, top + 1, label, ha="center")
    right.imshow(tiles, cmap="gray_r")
    right.set_axis_off()
    right.set_title("Taken for others")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--master", default="local[4]", help="'' for spark-submit's")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    arguments = parser.parse_args()

    started = time.monotonic()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("digits").config("spark.sql.shuffle.partitions", 4)
    # The program ends before Java's second compiler would have paid off.
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    if arguments.master:
        builder = builder.master(arguments.master)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        digits = load_digits()
        rows = [
            (number, pixels.tolist(), int(label))
            for number, (pixels, label) in enumerate(zip(digits.data, digits.target, strict=True))
        ]
        df = spark.createDataFrame(rows, "id int, pixels array<float>, label int")
        training, test = df.randomSplit([0.8, 0.2], seed=1)
        trainer = SparkTrainer(
            model_fn=model_fn,
            featuresCol="pixels",
            numWorkers=2,
            numPs=1,
            batchSize=32,
            epochs=arguments.epochs,
            syncMode="sync",
            modelParams={"filters": [16, 32]},
        )
        model = trainer.fit(training)
        found = model.transform(test).select("id", "label", "prediction").toPandas()
        accuracy = float((found["label"] == found["prediction"]).mean())
        picture = arguments.output / "digits.png"
        draw(picture, digits, found, model.history)
        seconds = time.monotonic() - started
        print(
            f"accuracy {accuracy:.4f} on {len(found)} digits after {seconds:.0f} s; see {picture}"
        )
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
