"""Run by test_elastic_training.py as a separate program, because a process has one SparkContext.

    python elastic_program.py FOLDER MASTER

MASTER has one machine with one core. Another one is added, is lost, and training ends; a later fit
resumes from its checkpoints. Prints one JSON object: what happened.
"""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sparkflow.spark import Callback, SparkTrainer
from support import java
from support.spark_models import linear
from support.standalone import machine

EPOCHS = 60


def trainer(**params: Any) -> SparkTrainer:
    """Creates a trainer with as many workers as there are machines, which are one or two."""
    given = {
        "model_fn": linear,
        "numWorkers": (1, 2),
        "numPs": 0,
        "batchSize": 20,
        "syncMode": "sync",
        "seed": 5,
        "progress": False,
        "startTimeout": 200.0,
    }
    return SparkTrainer(**{**given, **params})


def executors_of(group: int) -> list[int]:
    """Returns the executors that a machine has started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            stat = (process / "stat").read_text()
        except OSError:  # it has ended in the meantime
            continue
        of_group = int(stat[stat.rindex(")") + 2 :].split()[2]) == group
        if of_group and b"CoarseGrainedExecutorBackend" in command:
            found.append(int(process.name))
    return found


class Script(Callback):
    """Adds a machine at the end of the second epoch, and kills it once it trains."""

    def __init__(self, folder: Path, master: str, stack: contextlib.ExitStack) -> None:
        self._folder, self._master, self._stack = folder, master, stack
        self._group = 0
        self._killed = False
        self.workers: list[int] = []

    def on_train_begin(self, run: Any) -> None:
        """Stores the run."""
        self.run = run

    def on_epoch_end(self, epoch: int, metrics: Any) -> None:
        """Acts."""
        changes = self.run.history.resized
        self.workers.append(changes[-1]["workers"] if changes else 1)
        if not self._group:
            found = machine(self._folder, 1, self._master, 1, memory="2g")
            self._group = self._stack.enter_context(found)
        elif not changes:
            time.sleep(1)  # so that executors are added before all epochs are over
        elif not self._killed:
            self._killed = True
            executors = executors_of(self._group)
            os.killpg(self._group, signal.SIGKILL)  # the machine would start another one
            for pid in executors:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def main() -> None:
    folder, master = Path(sys.argv[1]), sys.argv[2]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": java.options(),
        "spark.sql.shuffle.partitions": "2",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
    }
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = [([float(i % 7), float(i % 3)], float(i % 7 - 2 * (i % 3))) for i in range(400)]
    df = spark.createDataFrame(rows, "features array<double>, label double")
    checkpoints = str(folder / "checkpoints")
    with contextlib.ExitStack() as stack:
        script = Script(folder, master, stack)
        first = trainer(epochs=EPOCHS, checkpointDir=checkpoints, callbacks=[script]).fit(df)
        later = trainer(epochs=EPOCHS + 5, checkpointDir=checkpoints).fit(df)
        whole = trainer(epochs=EPOCHS + 5).fit(df)
    found = {
        "workers": script.workers,
        "resized": [(each["before"], each["workers"]) for each in first.history.resized],
        "restarts": len(first.history.restarts),
        "started": first.history.tasks_started,
        "resumed": later.history.resumed,
        "epochs": [len(each.history.epoch_loss) for each in (first, later, whole)],
        "steps": [each.history.steps for each in (first, later, whole)],
        "later": {k: v.ravel().tolist() for k, v in later.inference_model.variables.items()},
        "whole": {k: v.ravel().tolist() for k, v in whole.inference_model.variables.items()},
    }
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
