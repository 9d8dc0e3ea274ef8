"""Run by test_connect.py as a separate program: a process is either a client or has a JVM.

    python connect_program.py REMOTE FOLDER

Prints one JSON object per line: what happened.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.ml.functions import array_to_vector
from pyspark.sql import SparkSession, functions as F

import sparkflow as tf
from sparkflow.spark import (
    Callback,
    SparkTrainer,
    SparkTrainerModel,
    SparkTrainingError,
    TFRecordDataSource,
)
from support.bad_rows import by_frame, frame, tries, wrong
from support.processes import training_processes
from support.spark_models import linear
from support.standalone import machine


def classifier_fn(features: Any, labels: Any, mode: str) -> Any:
    """Two classes; a label out of range fails on a worker."""
    logits = tf.layers.dense(features, 2, name="layer")
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, tf.argmax(logits, 1))
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def processes(folder: Path) -> list[int]:
    """Returns processes that train or lead trainings and have the folder in their environment."""
    return training_processes(folder, b"sparkflow.spark.launch.connect")


def trainer(**params: Any) -> SparkTrainer:
    """Two workers and a parameter server."""
    given = {"model_fn": linear, "numWorkers": 2, "numPs": 1, "batchSize": 32, "progress": False}
    return SparkTrainer(**{**given, **params})


def learns(df: Any, folder: Path) -> dict[str, Any]:
    model = trainer(epochs=30, syncMode="sync").fit(df)
    found = model.transform(df).select("label", "prediction").toPandas()
    error = float(np.abs(found["label"] - found["prediction"]).max())
    path = str(folder / "model")
    model.write().overwrite().save(path)
    model.write().overwrite().save(path)
    again = SparkTrainerModel.load(path).transform(df).select("prediction").toPandas()
    return {
        "error": error,
        "same": bool(np.allclose(again["prediction"], found["prediction"])),
        "loss": [model.history.epoch_loss[0], model.history.epoch_loss[-1]],
        "epochs": len(model.history.epoch_loss),
    }


def wide(features: Any, labels: Any, mode: str) -> Any:
    """A linear model with 6 MB of variables, to which it adds their mean."""
    beside = tf.get_variable("beside", [1_500_000], tf.float32, tf.ones_initializer())
    return linear(tf.concat([features, features[:, :1] * tf.reduce_mean(beside)], 1), labels, mode)


def large(df: Any, folder: Path) -> dict[str, Any]:
    """More data than fits into a query, in a fit, a transformation and a saved model."""
    model = trainer(model_fn=wide, epochs=10, syncMode="sync").fit(df)
    found = model.transform(df).select("label", "prediction").toPandas()
    path = str(folder / "large")
    model.write().overwrite().save(path)
    again = SparkTrainerModel.load(path)
    return {
        "bytes": sum(each.nbytes for each in model.inference_model.variables.values()),
        "loss": [model.history.epoch_loss[0], model.history.epoch_loss[-1]],
        "error": float(np.square(found["label"] - found["prediction"]).mean()),
        "same": all(
            np.array_equal(value, again.inference_model.variables[name])
            for name, value in model.inference_model.variables.items()
        ),
    }


def resumes(df: Any, folder: Path) -> dict[str, Any]:
    directory = str(folder / "checkpoints")
    trainer(epochs=2, checkpointDir=directory).fit(df)
    model = trainer(epochs=3, checkpointDir=directory).fit(df)
    return {"epochs": len(model.history.epoch_loss)}


def without_barrier(df: Any, folder: Path) -> dict[str, Any]:
    settings = df.sparkSession.conf
    settings.set("spark.sparkflow.barrier", "false")
    try:
        try:
            trainer(epochs=1).fit(df)
        except SparkTrainingError as error:
            refused = str(error)
        shared = folder / "shared"
        model = trainer(epochs=30, syncMode="sync", checkpointDir=str(shared)).fit(df)
    finally:
        settings.unset("spark.sparkflow.barrier")
    return {
        "refused": refused,
        "started": model.history.tasks_started,
        "loss": model.history.epoch_loss[-1],
        "left": [path.name for path in shared.iterdir() if "meeting" in path.name],
    }


def fails(df: Any, folder: Path) -> dict[str, Any]:
    bad = df.withColumn("label", F.lit(7).cast("bigint"))
    try:
        trainer(model_fn=classifier_fn).fit(bad)
    except Exception as error:
        return {"type": type(error).__name__, "text": str(error)}
    return {}


def too_many(df: Any, folder: Path) -> dict[str, Any]:
    try:
        trainer(numWorkers=20).fit(df)
    except SparkTrainingError as error:
        return {"text": str(error)}
    return {}


def interrupted(df: Any, folder: Path) -> dict[str, Any]:
    def interrupt() -> None:
        while len(processes(folder)) < 4:  # chief, parameter server, two workers
            time.sleep(0.1)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        trainer(epochs=1_000_000).fit(df)
    except KeyboardInterrupt:
        stopped = time.monotonic()
        while processes(folder) and time.monotonic() < stopped + 60:
            time.sleep(0.1)
        return {"left": len(processes(folder)), "seconds": time.monotonic() - stopped}
    return {}


class Watch(Callback):
    """Reads the variables at the first steps, and ends training after some hundreds."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []
        self.values: dict[str, Any] = {}
        self.heard: list[str] = []
        self.times: list[float] = []

    def on_train_begin(self, run: Any) -> None:
        """Stores the run."""
        self.run = run
        self.heard.append("begin")

    def on_steps(self, update: Any) -> None:
        """Reads the variables, and stops."""
        self.times.append(time.monotonic())
        self.seen.append((update.first_step, update.num_steps))
        if not self.values:
            self.values = {k: list(np.shape(v)) for k, v in self.run.values().items()}
        if self.run.history.steps > 200:
            self.run.stop("enough")

    def on_train_end(self, history: Any) -> None:
        """Counts the call."""
        self.heard.append("end")


class Quiet(Callback):
    """Reads the variables at the end of each epoch, when no step is running."""

    needs_epochs = True

    def __init__(self) -> None:
        self.values: list[Any] = []

    def on_train_begin(self, run: Any) -> None:
        """Stores the run."""
        self.run = run

    def on_epoch_end(self, epoch: int, metrics: Any) -> None:
        """Reads them."""
        self.values.append(self.run.values())


class Failing(Callback):
    """Fails at the first step."""

    def on_steps(self, update: Any) -> None:
        """Fails."""
        raise ZeroDivisionError("a callback of the user's")


def live(df: Any, folder: Path) -> dict[str, Any]:
    """Training would continue for hours if the callback were ignored."""
    watch = Watch()
    model = trainer(epochs=1_000_000, callbacks=[watch]).fit(df)
    history = model.history
    return {
        "first": watch.seen[0][0],
        "steps": [sum(count for _, count in watch.seen), history.steps],
        "updates": len(watch.seen),
        "values": watch.values,
        "stopped": history.stopped,
        "heard": watch.heard,
        "own_history": watch.run.history.to_dict() == history.to_dict(),
    }


def quiet(df: Any, folder: Path) -> dict[str, Any]:
    watch = Quiet()
    model = trainer(epochs=3, callbacks=[watch], syncMode="sync").fit(df)
    last, found = watch.values[-1], model.inference_model.variables
    return {
        "epochs": len(watch.values),
        "last": all(np.array_equal(last[name], found[name]) for name in found),
        "differ": not np.array_equal(watch.values[0]["layer/kernel"], found["layer/kernel"]),
    }


def callback_fails(df: Any, folder: Path) -> dict[str, Any]:
    try:
        trainer(epochs=1_000_000, callbacks=[Failing()]).fit(df)
    except ZeroDivisionError as error:
        stopped = time.monotonic()
        while processes(folder) and time.monotonic() < stopped + 60:
            time.sleep(0.1)
        return {"text": str(error), "left": len(processes(folder))}
    return {}


def exact(df: Any, folder: Path) -> dict[str, Any]:
    """Training uses all slots, so callbacks are called at the end."""
    watch = Watch()
    model = trainer(numWorkers=3, epochs=2, callbacks=[watch]).fit(df)
    return {"steps": model.history.steps, "heard": watch.heard}


def beside(df: Any, folder: Path) -> dict[str, Any]:
    """Two concurrent fits of two tasks each, on four slots."""
    losses: list[float] = []

    def fit() -> None:
        model = trainer(numPs=0, epochs=2000, syncMode="sync").fit(df)
        losses.append(model.history.epoch_loss[-1])

    threads = [threading.Thread(target=fit) for _ in range(2)]
    for thread in threads:
        thread.start()
    most = 0
    while any(thread.is_alive() for thread in threads):
        most = max(most, len(processes(folder)))
        time.sleep(0.2)
    return {"processes": most, "losses": losses}


@contextlib.contextmanager
def _taken(session: Any, slots: int) -> Iterator[Callable[[], None]]:
    """Occupies slots with other tasks until the yielded function is called."""

    def hold(batches: Any) -> Any:
        for each in batches:
            time.sleep(300)
            yield each

    def run() -> None:
        session.addTag("taken")
        with contextlib.suppress(Exception):  # it is interrupted
            session.range(0, slots, 1, slots).mapInArrow(hold, "id bigint").count()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield lambda: session.interruptTag("taken")
    finally:
        session.interruptTag("taken")


def elastic(df: Any, folder: Path) -> dict[str, Any]:
    """One worker while others occupy two of four slots, then the maximum: two."""
    given = {"numPs": 0, "epochs": 15, "syncMode": "sync", "seed": 3, "batchSize": 25}
    fixed = trainer(**given).fit(df)
    heard: list[Any] = []
    with _taken(df.sparkSession, 2) as free:

        class Frees(Callback):
            needs_epochs = True

            def on_train_begin(self, run: Any) -> None:
                self.run = run
                heard.append(run.num_workers)

            def on_epoch_end(self, epoch: int, metrics: Any) -> None:
                if not epoch:
                    free()
                if self.run.num_workers == 1:
                    time.sleep(1)  # so that the search for slots starts before all epochs are over

        model = trainer(**{**given, "numWorkers": (1, 2)}, callbacks=[Frees()]).fit(df)
    apart = {
        name: float(np.abs(value - fixed.inference_model.variables[name]).max())
        for name, value in model.inference_model.variables.items()
    }
    return {
        "heard": heard,
        "resized": model.history.resized,
        "restarts": model.history.restarts,
        "steps": [fixed.history.steps, model.history.steps],
        "epochs": len(model.history.epoch_loss),
        "apart": max(apart.values()),
    }


def _ends_machine_of(task: str, folder: Path) -> None:
    """Kills the executor of a task, and the standalone worker that would start a new one."""
    pid = next(p for p in processes(folder) if f"SPARKFLOW_TASK={task}\0" in _read(p, "environ"))
    found = []
    for name in ("CoarseGrainedExecutorBackend", "deploy.worker.Worker"):
        while name not in _read(pid, "cmdline"):
            stat = _read(pid, "stat")
            pid = int(stat[stat.rindex(")") + 2 :].split()[1])
        found.append(pid)
    for pid in reversed(found):
        os.kill(pid, signal.SIGKILL)


def _read(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")


def executor_lost(df: Any, folder: Path) -> dict[str, Any]:
    """A machine with one slot is lost for good, and the remaining slots are just enough."""

    class Kill(Callback):
        def __init__(self) -> None:
            self.heard: list[str] = []

        def on_steps(self, update: Any) -> None:
            if not self.heard:
                _ends_machine_of("worker 1", folder)
            self.heard.append("steps")

        def on_restart(self, reason: str) -> None:
            self.heard.append("restart")

        def on_train_end(self, history: Any) -> None:
            self.heard.append("end")

    kill = Kill()
    began = time.monotonic()
    # Enough for the first steps to be reported before the last: 400 end too soon on a busy machine.
    model = trainer(numPs=0, epochs=2000, syncMode="sync", callbacks=[kill]).fit(df)
    return {
        "heard": [each for each in kill.heard if each != "steps"],
        "seconds": time.monotonic() - began,
        "epochs": len(model.history.epoch_loss),
    }


def machine_comes_and_goes(df: Any, folder: Path) -> dict[str, Any]:
    """Two slots, then three; then a worker's machine is lost for good."""
    given = {"numPs": 0, "epochs": 90, "syncMode": "sync", "seed": 3, "batchSize": 25}
    given |= {"startTimeout": 200.0}
    master = df.sparkSession.conf.get("spark.master")
    heard: list[Any] = []
    with contextlib.ExitStack() as stack:

        class Acts(Callback):
            needs_epochs = True

            def on_train_begin(self, run: Any) -> None:
                self.run = run
                heard.append(run.num_workers)

            def on_epoch_end(self, epoch: int, metrics: Any) -> None:
                if not epoch:
                    stack.enter_context(machine(folder, 7, master, 1))
                if heard == [1]:
                    time.sleep(1)  # so that the search for slots starts before all epochs are over
                elif heard == [1, 2]:
                    heard.append("kills")
                    _ends_machine_of("worker 1", folder)

        elastic = {**given, "numWorkers": (1, 2), "checkpointDir": str(folder / "elastic")}
        model = trainer(**elastic, callbacks=[Acts()]).fit(df)
    return {
        "heard": heard,
        "resized": model.history.resized,
        "restarts": model.history.restarts,
        "started": model.history.tasks_started,
        "losses": model.history.epoch_loss,
        "steps": model.history.steps,
        "epochs": len(model.history.epoch_loss),
        "variables": {k: v.ravel().tolist() for k, v in model.inference_model.variables.items()},
    }


def two_workers(df: Any, folder: Path) -> dict[str, Any]:
    """The reference for `machine_comes_and_goes`."""
    given = {"numPs": 0, "epochs": 90, "syncMode": "sync", "seed": 3, "batchSize": 25}
    model = trainer(**given).fit(df)
    variables = {k: v.ravel().tolist() for k, v in model.inference_model.variables.items()}
    return {"variables": variables, "losses": model.history.epoch_loss}


def records(df: Any, folder: Path) -> dict[str, Any]:
    session = df.sparkSession
    session.dataSource.register(TFRecordDataSource)
    path = str(folder / "records")
    plain = df.select("label", "x")
    plain.write.format("tfrecord").mode("append").save(path)
    back = session.read.format("tfrecord").load(path)
    return {"schema": back.schema.simpleString(), "rows": back.count()}


def bad_rows(df: Any, folder: Path) -> dict[str, Any]:
    """Every kind of input with everything that can be wrong."""
    found = [wrong(each, by_frame(frame(df.sparkSession, each), each)) for each in tries()]
    return {"wrong": [each for each in found if each], "tries": len(found)}


def main() -> None:
    """Runs everything in one session."""
    remote, folder = sys.argv[1], Path(sys.argv[2])
    session: Any = SparkSession.builder.remote(remote).getOrCreate()
    x = F.array(*((F.col("id") * k % 17 / 17.0).cast("float") for k in (1, 3, 7)))
    df = session.range(0, 400, 1, 3).select(x.alias("x"))
    df = df.withColumn("label", (F.col("x")[0] - 2 * F.col("x")[1]).cast("float"))
    df = df.withColumn("features", array_to_vector("x"))
    steps: list[Callable[[Any, Path], dict[str, Any]]] = [
        learns,
        large,
        resumes,
        without_barrier,
        fails,
        too_many,
        interrupted,
        records,
        live,
        quiet,
        callback_fails,
        exact,
        beside,
        executor_lost,
        elastic,
        machine_comes_and_goes,
        two_workers,
        bad_rows,
    ]
    wanted = sys.argv[3:] or [step.__name__ for step in steps]
    for step in steps:
        if step.__name__ not in wanted:
            continue
        started = time.monotonic()
        try:
            found = step(df, folder)
        except Exception:
            found = {"failed": traceback.format_exc()}
        found["seconds_in_all"] = time.monotonic() - started
        print(json.dumps({"step": step.__name__, **found}), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
