"""Run by test_drivers.py: a fit whose driver is killed or suspended from outside.

    python drivers_program.py FOLDER MASTER MODE WHAT

WHAT is "calm", or "faulty": then it has checkpoints, and resumes from existing ones. At the first
one it prints its process ids as a JSON object, and at the end another one with the outcome of the
fit. With "start" it prints the ids before the fit; with "rows", too, and then its rows arrive
slowly.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from sparkflow.spark import Callback, SparkTrainer
from support.fault_session import fault_session
from support.spark_models import counted

ROWS, BATCH = 240, 20
EPOCHS = {"sync": 200, "async": 400}
CHECKPOINT_STEPS = 100
SLOW_S = 0.5  # for each row


def say_processes(spark: SparkSession) -> None:
    """Prints the driver's process ids."""
    jvm: Any = spark.sparkContext._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()
    print(json.dumps({"python": os.getpid(), "jvm": pid}), flush=True)


def slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Passes on one row after another, but those of the first partition at once."""
    context = TaskContext.get()
    if context is not None and context.partitionId() == 0:
        yield from batches
    for batch in batches:
        for row in range(batch.num_rows):
            time.sleep(SLOW_S)
            yield batch.slice(row, 1)


class Says(Callback):
    """Prints the driver's process ids at the first checkpoint."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._has_said = False

    def on_checkpoint(self, path: str) -> None:
        """Prints them once."""
        if not self._has_said:
            self._has_said = True
            say_processes(self._spark)

    def on_steps(self, update: Any) -> None:
        """Makes training last for a while, however fast a step is."""
        time.sleep(0.01)


def main() -> None:
    folder, master, mode, what = Path(sys.argv[1]), *sys.argv[2:]
    for name in ("temporary", "local", "work"):
        (folder / name).mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(folder / "temporary")
    spark = fault_session(folder, master)
    x = np.random.default_rng(0).normal(size=(ROWS, 2)).tolist()
    rows = [(each, float(number)) for number, each in enumerate(x)]
    df = spark.createDataFrame(rows, "features array<double>, label double")
    params: dict[str, Any] = {}
    if what == "faulty":
        directory = str(folder / "checkpoints")
        params = {"checkpointDir": directory, "checkpointSteps": CHECKPOINT_STEPS}
        params["callbacks"] = [Says(spark)]
    if what == "rows":
        df = df.mapInArrow(slowly, df.schema)
    if what in ("start", "rows"):
        say_processes(spark)
    model = SparkTrainer(
        model_fn=counted(ROWS),
        numWorkers=2,
        numPs=1,
        batchSize=BATCH,
        epochs=EPOCHS[mode],
        syncMode=mode,
        seed=5,
        progress=False,
        **params,
    ).fit(df)
    history = model.history
    found = {
        "variables": {k: v.ravel().tolist() for k, v in model.inference_model.variables.items()},
        "steps": history.steps,
        "resumed": history.resumed and history.resumed["step"],
        "restarts": [each["reason"] for each in history.restarts],
        "repeated": history.repeated_steps,
    }
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
