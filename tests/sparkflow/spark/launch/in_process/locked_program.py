"""Run by test_locked_in.py: a Connect client of a server whose Python workers are locked in.

    python locked_program.py REMOTE FOLDER [STEP...]

Prints one JSON object per line: what happened.
"""

import json
import logging
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.ml.functions import array_to_vector
from pyspark.sql import SparkSession, functions as F

import sparkflow as tf
from sparkflow.spark import Callback, SparkTrainer, SparkTrainerModel, SparkTrainingError


def model_fn(features: Any, labels: Any, mode: str, params: Any, weights: Any) -> Any:
    """Two classes; with a wide layer if the model should be larger than a query can carry."""
    hidden = tf.layers.dense(features, params.get("width", 4), tf.nn.relu, name="hidden")
    logits = tf.layers.dense(hidden, 2, name="logits")
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"prediction": tf.argmax(logits, 1)})
    rows = 1.0 if weights is None else weights
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits, rows)
    train_op = tf.train.AdamOptimizer(0.02).minimize(loss)
    metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def rows(session: Any) -> Any:
    """Returns 300 rows that are the same in every session."""
    x = F.array(*((F.col("id") * k % 17 / 17.0).cast("float") for k in (1, 3, 7)))
    df = session.range(0, 300, 1, 3).select(x.alias("x"))
    label = (F.col("x")[0] > F.col("x")[1]).cast("bigint")
    return df.select(array_to_vector("x").alias("features"), label.alias("label"))


def trainer(**params: Any) -> SparkTrainer:
    """One worker, synchronous, so that training is reproducible."""
    given = {"model_fn": model_fn, "batchSize": 32, "epochs": 3, "syncMode": "sync"}
    return SparkTrainer(**{**given, "progress": False, **params})


class Notes(Callback):
    """Records callbacks."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.said: list[str] = []

    def on_waiting(self, text: str) -> None:
        """Stores the text."""
        self.said.append(text)

    def on_validation(self, metrics: Any) -> None:
        """Counts."""
        self.heard.append("validation")

    def on_checkpoint(self, path: str) -> None:
        """Counts."""
        self.heard.append("checkpoint")

    def on_train_end(self, history: Any) -> None:
        """Counts."""
        self.heard.append("end")


def denied(df: Any, folder: Path) -> dict[str, Any]:
    """The outcome of launching with processes."""
    try:
        trainer(inProcess="never").fit(df)
    except Exception as error:
        return {"type": type(error).__name__, "text": str(error)}
    return {}


def two(df: Any, folder: Path) -> dict[str, Any]:
    try:
        trainer(numWorkers=2).fit(df)
    except SparkTrainingError as error:
        return {"text": str(error)}
    return {}


def trains(df: Any, folder: Path) -> dict[str, Any]:
    notes = Notes()
    model = trainer(callbacks=[notes]).fit(df)
    found = model.transform(df).select("label", "prediction").toPandas()
    path = str(folder / "model")
    model.write().overwrite().save(path)
    again = SparkTrainerModel.load(path).transform(df).select("prediction").toPandas()
    return {
        "said": notes.said,
        "heard": notes.heard,
        "loss": model.history.loss,
        "variables": {k: v.tolist() for k, v in model.inference_model.variables.items()},
        "accuracy": float((found["label"] == found["prediction"]).mean()),
        "same": bool((again["prediction"] == found["prediction"]).all()),
    }


def elastic(df: Any, folder: Path) -> dict[str, Any]:
    """One to three workers, of which only one is possible."""
    model = trainer(numWorkers=(1, 3), batchSize=11).fit(df)
    return {"variables": {k: v.tolist() for k, v in model.inference_model.variables.items()}}


def everything(df: Any, folder: Path) -> dict[str, Any]:
    """Validation, early stopping, class weights, checkpoints; a model of more than 4 MB."""
    notes = Notes()
    given = {"classWeights": "balanced", "checkpointDir": str(folder / "checkpoints")}
    given |= {"validationFraction": 0.3, "modelParams": {"width": 300_000}}
    first = trainer(epochs=1, **given).fit(df)
    model = trainer(
        epochs=5, earlyStoppingPatience=1, earlyStoppingMinDelta=10.0, callbacks=[notes], **given
    )
    model.setParams(resume="always")
    second = model.fit(df)
    return {
        "heard": notes.heard,
        "first": first.history.epochs,
        "resumed": second.history.resumed["step"],
        "stopped": second.history.stopped,
        "best": second.history.best,
        "megabytes": sum(v.nbytes for v in second.inference_model.variables.values()) >> 20,
        "rows": second.transform(df).select("prediction").count(),
    }


def interrupted(df: Any, folder: Path) -> dict[str, Any]:
    """Ctrl-C once the first checkpoint exists."""
    directory = folder / "endless"

    def interrupt() -> None:
        while not list(directory.glob("*/*")):
            time.sleep(0.1)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        trainer(epochs=1_000_000, checkpointDir=str(directory), keepCheckpointMax=2).fit(df)
    except KeyboardInterrupt:
        time.sleep(4.0)  # Spark kills a Python worker 2 s after it has cancelled its task
        before = sorted(each.name for each in directory.iterdir())
        time.sleep(2.0)
        return {"ended": before == sorted(each.name for each in directory.iterdir())}
    return {}


def main() -> None:
    """Runs the steps in one session."""
    logging.basicConfig(level=logging.WARNING)
    remote, folder = sys.argv[1], Path(sys.argv[2])
    session: Any = SparkSession.builder.remote(remote).getOrCreate()
    for name in sys.argv[3:]:
        started = time.monotonic()
        try:
            found = globals()[name](rows(session), folder)
        except Exception:
            found = {"failed": traceback.format_exc()}
        found["seconds_in_all"] = time.monotonic() - started
        print(json.dumps({"step": name, **found}, default=np.asarray), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
