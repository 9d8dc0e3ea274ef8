"""A wheel that `spark-submit --py-files` sends, as it is."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

import sparkflow
import sparkflow_runtime

PROGRAM = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
import sparkflow as tf
from sparkflow.spark import SparkTrainer


def model_fn(features, labels, mode):
    prediction = tf.squeeze(tf.layers.dense(features, 1), axis=[1])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"prediction": prediction})
    loss = tf.losses.mean_squared_error(labels, prediction)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


df = spark.range(20).selectExpr("cast(id as double) / 20 as x", "cast(id as double) as y")
model = SparkTrainer(
    model_fn=model_fn, featuresCol=["x"], labelCol="y", numWorkers=1, numPs=1, progress=False
).fit(df)
print("rows", model.transform(df).count())
there = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sparkflow").__file__)
print("driver", tf.__file__)
print("executor", there.first())
spark.stop()
"""


def wheel(folder: Path) -> Path:
    """The packages as they are in the wheel that we release."""
    path = folder / "sparkflow_ml-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for package in (sparkflow, sparkflow_runtime):
            root = Path(package.__file__).parent
            for each in root.rglob("*"):
                if each.suffix in (".py", ".pyi", ".typed"):
                    archive.write(each, each.relative_to(root.parent))
    return path


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_executors_import_the_wheel_that_was_submitted(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    home = Path(pyspark.__file__).parent
    submit = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]"]
    done = subprocess.run(
        [*submit, "--py-files", str(wheel(tmp_path)), str(program)],
        cwd=tmp_path,
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert said["rows"] == "20"
    assert ".whl/sparkflow/" in said["driver"]
    assert ".whl/sparkflow/" in said["executor"]
