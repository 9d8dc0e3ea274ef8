"""Run by test_local_cluster.py as a separate program, because a process has one SparkContext.

    python local_cluster_program.py FOLDER WHAT

Prints one JSON object per line: what happened, and what the test requested.
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

from pyspark.sql import SparkSession

from sparkflow.spark import SparkCluster, SparkTrainer
from sparkflow.spark.control.callbacks import Callback, Update
from support import java
from support.processes import executors
from support.spark_models import linear


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def environment(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


class OnFirstSteps(Callback):
    """Does something when the first steps are known; measures the duration of a restart."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act: Callable[[], None] | None = act
        self.acted = 0.0
        self.away_s = 0.0
        self.restarts: list[str] = []
        self.said: list[str] = []

    def on_waiting(self, text: str) -> None:
        self.said.append(text)

    def on_steps(self, update: Update) -> None:
        if self.act is not None:
            act, self.act = self.act, None
            act()
            self.acted = time.monotonic()
        elif self.restarts and not self.away_s:
            self.away_s = time.monotonic() - self.acted

    def on_restart(self, reason: str) -> None:
        self.restarts.append(reason)


def discovery_script(folder: Path) -> Path:
    """Finds two GPUs per executor, with names as in nvidia-smi."""
    script = folder / "gpus.sh"
    script.write_text("""#!/bin/sh
echo '{"name": "gpu", "addresses": ["GPU-00000000-aaaa", "GPU-11111111-bbbb"]}'
""")
    script.chmod(0o755)
    return script


def dynamic(folder: Path) -> None:
    """Executors are added while tasks wait, one is killed, and Spark runs slow tasks twice."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.executor.extraJavaOptions": java.options(),
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.speculation": "true",
        "spark.speculation.task.duration.threshold": "1s",
    }
    builder = SparkSession.builder.master("local-cluster[3,1,1024]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = [([float(i % 7), float(i % 3)], float(i % 7 - 2 * (i % 3))) for i in range(400)]
    df = spark.createDataFrame(rows, "features array<double>, label double")
    acting = OnFirstSteps(lambda: os.kill(max(executors(folder).values()), signal.SIGKILL))

    def trainer(workers: int, start_timeout: float = 240.0) -> SparkTrainer:
        return SparkTrainer(
            model_fn=linear,
            numWorkers=workers,
            numPs=1,
            batchSize=20,
            epochs=200,
            syncMode="sync",
            progress=False,
            startTimeout=start_timeout,
            callbacks=[acting],
        )

    model = trainer(2).fit(df)
    try:
        trainer(6, 5.0).fit(df)
    except Exception as error:
        too_few = f"{type(error).__name__}: {error}"
    with SparkCluster(spark, numWorkers=2, numPs=1) as cluster:
        tasks = cluster.spec.num_tasks("worker")
    say(
        started=model.history.tasks_started,
        loss=model.history.epoch_loss[-1],
        restarts=acting.restarts,
        said=acting.said,
        too_few=too_few,
        tasks=tasks,
        left=len(executors(folder)),
    )
    spark.stop()


def main() -> None:
    folder, what = Path(sys.argv[1]), sys.argv[2]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_WORKER_DIR"] = str(folder / "work")
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    if what == "dynamic allocation":
        dynamic(folder)
        return
    spark = (
        SparkSession.builder.master("local-cluster[2,2,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.extraJavaOptions", java.options())
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.executor.resource.gpu.amount", "2")
        .config("spark.task.resource.gpu.amount", "1")
        .config("spark.executor.resource.gpu.discoveryScript", str(discovery_script(folder)))
        .config("spark.worker.resource.gpu.amount", "2")
        .config("spark.worker.resource.gpu.discoveryScript", str(discovery_script(folder)))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    rows = [([float(i % 7), float(i % 3)], float(i % 7 - 2 * (i % 3))) for i in range(400)]
    df = spark.createDataFrame(rows, "features array<double>, label double")

    def fit(epochs: int, act: Callable[[], None]) -> tuple[Any, OnFirstSteps]:
        acting = OnFirstSteps(act)
        trainer = SparkTrainer(
            model_fn=linear,
            numWorkers=2,
            numPs=1,
            batchSize=20,
            epochs=epochs,
            progress=False,
            callbacks=[acting],
        )
        return trainer.fit(df), acting

    if what == "kill executor":
        seen: dict[str, str] = {}

        def kill() -> None:
            found = executors(folder)
            for pid, executor in found.items():
                mine = environment(pid)
                where = f"{mine['SPARKFLOW_TASK']} on {executor}"
                seen[where] = mine["CUDA_VISIBLE_DEVICES"]
            os.kill(max(found.values()), signal.SIGKILL)

        model, acting = fit(200, kill)
        predicted = model.transform(df).select("label", "prediction").collect()
        say(
            epochs=model.history.epochs,
            worst=max(abs(row["label"] - row["prediction"]) for row in predicted),
            left=len(executors(folder)),
            gpus=seen,
            restarts=acting.restarts,
            away_s=acting.away_s,
        )
    elif what == "stop session":
        stopping = threading.Thread(target=spark.stop)
        try:
            fit(1_000_000, stopping.start)
        except Exception as error:
            stopping.join()
            say(error=f"{type(error).__name__}: {error}", left=len(executors(folder)))
    elif what == "wait to be killed":
        fit(1_000_000, lambda: say(children=list(executors(folder))))
    spark.stop()


if __name__ == "__main__":
    main()
