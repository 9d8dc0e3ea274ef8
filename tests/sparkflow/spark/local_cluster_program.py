"""Run by test_local_cluster.py as a program of its own, because a process has one SparkContext.

    python local_cluster_program.py FOLDER WHAT

Prints one JSON object per line: what happened, and what the test asked for.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import sparkflow as tf
from sparkflow.spark import SparkTrainer
from sparkflow.spark.report.history import HistoryRecorder


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    """y = x w."""
    prediction = tf.squeeze(tf.layers.dense(features, 1, name="layer"), axis=[1])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, prediction)
    loss = tf.reduce_mean(tf.square(prediction - labels))
    train_op = tf.train.AdamOptimizer(0.05).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def children(folder: Path) -> dict[int, int]:
    """Training processes of this program, with their executors' process ids."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            environment = (process / "environ").read_bytes()
            if b"sparkflow.spark.job.child" in command and str(folder).encode() in environment:
                found[int(process.name)] = _executor(int(process.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def _executor(pid: int) -> int:
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat[stat.rindex(")") + 2 :].split()[1])
    return pid


def on_first_step(act: Any) -> None:
    add = HistoryRecorder.add
    done = False

    def add_and_act(self: HistoryRecorder, *args: Any) -> int:
        nonlocal done
        if not done:
            done = True
            act()
        return add(self, *args)

    HistoryRecorder.add = add_and_act  # type: ignore[method-assign]  # this program's only one


def main() -> None:
    folder, what = Path(sys.argv[1]), sys.argv[2]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_WORKER_DIR"] = str(folder / "work")
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = (
        SparkSession.builder.master("local-cluster[2,2,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", java)
        .config("spark.executor.extraJavaOptions", java)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    rows = [([float(i % 7), float(i % 3)], float(i % 7 - 2 * (i % 3))) for i in range(400)]
    df = spark.createDataFrame(rows, "features array<double>, label double")

    def fit(epochs: int) -> Any:
        trainer = SparkTrainer(
            model_fn=model_fn, numWorkers=2, numPs=1, batchSize=20, epochs=epochs, progress=False
        )
        return trainer.fit(df)

    if what == "fit":
        model = fit(30)
        predicted = model.transform(df).select("label", "prediction").collect()
        worst = max(abs(row["label"] - row["prediction"]) for row in predicted)
        say(steps=model.history.steps, worst=worst, left=len(children(folder)))
    elif what == "kill executor":
        on_first_step(lambda: os.kill(max(children(folder).values()), signal.SIGKILL))
        try:
            fit(1_000_000)
        except Exception as error:
            say(error=f"{type(error).__name__}: {error}", left=len(children(folder)))
    elif what == "wait to be killed":
        on_first_step(lambda: say(children=list(children(folder))))
        fit(1_000_000)
    spark.stop()


if __name__ == "__main__":
    main()
