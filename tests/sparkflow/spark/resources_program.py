"""Run by test_resources.py as a separate program, because a process has one SparkContext.

    python resources_program.py FOLDER MASTER WHAT...

Prints one JSON object per step: what happened. The machines of MASTER appear to have one GPU each.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import DataFrame, SparkSession

import sparkflow as tf
from sparkflow.spark import Callback, SparkCluster, SparkTrainer
from support import java
from support.processes import executors
from support.spark_models import linear


def tasks(folder: Path) -> dict[str, dict[str, Any]]:
    """The training processes of this program by role: their GPUs, and their executors."""
    found = {}
    for pid, executor in executors(folder).items():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        except OSError:  # it has ended in the meantime
            continue
        mine = dict(pair.split("=", 1) for pair in environment.split("\0") if "=" in pair)
        if "SPARKFLOW_TASK" not in mine:  # it has just ended: its environment is gone
            continue
        gpus = mine.get("CUDA_VISIBLE_DEVICES")
        found[mine["SPARKFLOW_TASK"]] = {"gpus": gpus, "executor": executor}
    return found


def discovery_script(folder: Path) -> Path:
    """Finds one GPU."""
    script = folder / "gpus.sh"
    script.write_text("""#!/bin/sh
echo '{"name": "gpu", "addresses": ["GPU-a"]}'
""")
    script.chmod(0o755)
    return script


class Look(Callback):
    """Inspects the processes at the first steps, and acts."""

    def __init__(self, folder: Path, act: Callable[[dict[str, Any]], None] | None = None) -> None:
        self._folder = folder
        self._act = act
        self.tasks: dict[str, Any] = {}
        self.restarts: list[str] = []
        self.said: list[str] = []
        self.waits = threading.Event()

    def on_waiting(self, text: str) -> None:
        """Stores the text."""
        self.said.append(text)
        if "waiting for other fits" in text:
            self.waits.set()

    def on_restart(self, reason: str) -> None:
        """Stores the reason."""
        self.restarts.append(reason)

    def on_steps(self, update: Any) -> None:
        """Inspects once."""
        if not self.tasks:
            self.tasks = tasks(self._folder)
            if self._act is not None:
                self._act(self.tasks)


def trainer(**params: Any) -> SparkTrainer:
    """Two workers with a GPU each, and two parameter servers without."""
    given = {
        "model_fn": linear,
        "numWorkers": 2,
        "numPs": 2,
        "batchSize": 20,
        "epochs": 30,
        "syncMode": "sync",
        "progress": False,
        "workerResources": {"gpu": 1},
    }
    return SparkTrainer(**{**given, **params})


def fits(df: DataFrame, folder: Path) -> dict[str, Any]:
    look = Look(folder)
    model = trainer(callbacks=[look]).fit(df)
    return {
        "tasks": look.tasks,
        "loss": model.history.epoch_loss[-1],
        "started": model.history.tasks_started,
        "left": len(tasks(folder)),
    }


def without_barrier(df: DataFrame, folder: Path) -> dict[str, Any]:
    """The session was started with spark.sparkflow.barrier=false."""
    look = Look(folder)
    model = trainer(callbacks=[look], psResources={"cpus": 1}).fit(df)
    return {
        "tasks": look.tasks,
        "loss": model.history.epoch_loss[-1],
        "started": model.history.tasks_started,
        "left": len(tasks(folder)),
    }


def refused(df: DataFrame, folder: Path) -> dict[str, Any]:
    own = ResourceProfileBuilder().require(ExecutorResourceRequests().cores(1))
    profile = own.require(TaskResourceRequests().cpus(1)).build
    asked: dict[str, dict[str, Any]] = {
        "gpus": {"numWorkers": 3, "numPs": 0},
        "cores": {"numWorkers": 2, "numPs": 3},
        "unknown": {"workerResources": {"tpu": 1}},
        "executors": {"psResources": profile},
        "no servers": {"numPs": 0, "psResources": {"cpus": 1}},
    }
    said = {}
    for name, params in asked.items():
        began = time.monotonic()
        try:
            trainer(**params).fit(df)
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
        print(name, time.monotonic() - began, file=sys.stderr)
    return said


def cluster(df: DataFrame, folder: Path) -> dict[str, Any]:
    """A session's ops, and functions, next to each other's parameter servers."""
    session = df.sparkSession
    with SparkCluster(session, numWorkers=2, numPs=1, workerResources={"gpu": 1}) as made:
        shares = made.dataset(df, {"label": "label"}, batch_size=100)
        with tf.Graph().as_default():
            sums = []
            for worker in range(2):
                with tf.device(f"/job:worker/task:{worker}"):
                    batch = shares[worker].make_one_shot_iterator().get_next()
                    sums.append(tf.reduce_sum(tf.cast(batch["label"], tf.float64)))
            with tf.device("/job:ps/task:0"):
                total = tf.add_n(sums)
            with tf.Session(made.target, credentials=made.credentials) as running:
                found = 0.0
                for _ in range(2):
                    found += float(running.run(total))
        seen = tasks(folder)
        made.stop()

        def jobs() -> Any:
            import json
            import os

            found = json.loads(os.environ["TF_CONFIG"])
            return {job: len(each) for job, each in found["cluster"].items()}, found["task"]

        roles = made.run(jobs)
    return {"sum": found, "tasks": seen, "roles": roles}


def in_turn(df: DataFrame, folder: Path) -> dict[str, Any]:
    """Two fits that each need all GPUs, with enough cores for both."""
    begun = threading.Event()
    second = Look(folder)

    def hold(_: dict[str, Any]) -> None:
        begun.set()
        second.waits.wait(120)

    losses: list[float] = []

    def fit(look: Look) -> None:
        model = trainer(numPs=0, callbacks=[look], epochs=5).fit(df)
        losses.append(model.history.epoch_loss[-1])

    threads = [threading.Thread(target=fit, args=(look,)) for look in (Look(folder, hold), second)]
    threads[0].start()
    begun.wait(300)
    threads[1].start()
    for thread in threads:
        thread.join()
    waited = [text for text in second.said if "waiting for other fits" in text]
    return {"fits": len(losses), "waited": waited[:1]}


def killed(df: DataFrame, folder: Path) -> dict[str, Any]:
    """The executor of a parameter server is lost."""
    look = Look(folder, lambda found: os.kill(found["ps 1"]["executor"], signal.SIGKILL))
    model = trainer(epochs=100, callbacks=[look]).fit(df)
    return {
        "restarts": look.restarts,
        "loss": model.history.epoch_loss[-1],
        "left": len(tasks(folder)),
    }


def two_kinds(df: DataFrame, folder: Path) -> dict[str, Any]:
    """With dynamic allocation each role has its own executors."""
    script = str(folder / "gpus.sh")
    gpus = ExecutorResourceRequests().cores(1).memory("600m").resource("gpu", 1, script)
    workers = ResourceProfileBuilder().require(gpus)
    workers = workers.require(TaskResourceRequests().cpus(1).resource("gpu", 1))
    servers = {"task": {"cpus": 1}, "executor": {"cores": 2, "memory": "600m"}}
    look = Look(folder)
    model = trainer(
        numWorkers=1,
        workerResources=workers.build,
        psResources=servers,
        callbacks=[look],
        startTimeout=300.0,
    ).fit(df)
    return {
        "tasks": look.tasks,
        "loss": model.history.epoch_loss[-1],
        "started": model.history.tasks_started,
        "left": len(tasks(folder)),
    }


STEPS = {
    each.__name__: each
    for each in (fits, without_barrier, refused, cluster, in_turn, killed, two_kinds)
}


def main() -> None:
    folder, master, *wanted = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_WORKER_DIR"] = f"{folder}/work"
    os.environ["SPARK_LOCAL_DIRS"] = f"{folder}/local"
    script = discovery_script(Path(folder))
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": java.options(),
        "spark.sql.shuffle.partitions": "2",
    }
    if "two_kinds" in wanted:
        settings |= {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.executor.memory": "600m",
            "spark.executor.cores": "1",
        }
    else:
        settings |= {
            "spark.executor.resource.gpu.amount": "1",
            "spark.executor.resource.gpu.discoveryScript": str(script),
            "spark.worker.resource.gpu.amount": "1",
            "spark.worker.resource.gpu.discoveryScript": str(script),
        }
    if "without_barrier" in wanted:
        settings["spark.sparkflow.barrier"] = "false"
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = [([float(i % 7), float(i % 3)], float(i % 7 - 2 * (i % 3))) for i in range(400)]
    df = spark.createDataFrame(rows, "features array<double>, label double")
    for name in wanted:
        found = STEPS[name](df, Path(folder))
        print(json.dumps({"step": name, **found}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
