"""Run by test_executors.py as a program of its own, because a process has one SparkContext.

    python suspended_program.py FOLDER MODE SECONDS

A fit on `local-cluster[3,1,1024]`. After the first checkpoint the executor of worker 1 is
suspended, with its Python workers and the process that trains. Prints a JSON object.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame

from sparkflow.spark import Callback, SparkTrainer
from sparkflow.spark.cluster.task import ROLE
from sparkflow.spark.control import event_queue
from sparkflow_runtime.testing.suspending import suspend
from support.fault_session import fault_session
from support.listening import tree
from support.processes import executors, left_after, training_processes
from support.spark_models import counted

ROWS, BATCH = 240, 20
SYNC_EPOCHS = 300
VICTIM = "worker 1"
GONE_S = 60.0


class Suspends(Callback, logging.Handler):
    """Suspends the executor of worker 1 for a while after the first checkpoint.

    Args:
        folder: Of the program.
        seconds: How long.
        stops: Whether training is to end once it has gone on well after that.
    """

    def __init__(self, folder: Path, seconds: float, stops: bool) -> None:
        logging.Handler.__init__(self)
        self._folder, self._seconds, self._stops = folder, seconds, stops
        self._has_checkpoint = False
        self._suspended: list[int] = []
        self._since = self._until = 0.0
        self._after: set[int] = set()
        self.victim = 0
        self.noticed_s = self.back_s = 0.0
        self.steps_meanwhile = 0

    def on_train_begin(self, run: Any) -> None:
        """Keeps the run."""
        self._run = run

    def on_checkpoint(self, path: str) -> None:
        """From now on it may be suspended."""
        self._has_checkpoint = True

    def emit(self, record: logging.LogRecord) -> None:
        """Takes the time at which the driver knows that something was lost."""
        self.noticed_s = self.noticed_s or time.monotonic() - self._since

    def on_steps(self, update: Any) -> None:
        """Takes the time, and ends training when there is enough to see."""
        if not self._since:
            if self._has_checkpoint:
                self._suspend()
            return
        now = time.monotonic()
        if self._run.history.restarts:
            self.steps_meanwhile += 0 if self._until else update.num_steps
            if update.worker in (1, -1):  # both at once have no number
                self.back_s = self.back_s or now - self._since
        if self._until and now > self._until + 2:
            self._after.add(update.worker)
            if self._stops and len(self._after) == 2:
                self._run.stop("enough")

    def _suspend(self) -> None:
        role = f"{ROLE}={VICTIM}".encode()
        self.victim, jvm = next(
            (pid, jvm)
            for pid, jvm in executors(self._folder).items()
            if role in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        )
        # From above to below, so that none of them notices that another one stands still.
        for pid in tree(jvm):
            suspend(pid)
            self._suspended.append(pid)
        self._since = time.monotonic()
        threading.Timer(self._seconds, self._wake).start()

    def _wake(self) -> None:
        for pid in self._suspended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._until = time.monotonic()

    def wait_for_its_end(self) -> None:
        """Blocks until the executor runs again."""
        while not self._until:
            time.sleep(0.1)


def run(df: DataFrame, folder: Path, mode: str, seconds: float) -> Any:
    """One fit with a suspended executor; what came of it."""
    in_step = mode == "sync"

    def fit(**params: Any) -> Any:
        return SparkTrainer(
            model_fn=counted(ROWS),
            numWorkers=2,
            numPs=1,
            batchSize=BATCH,
            epochs=SYNC_EPOCHS if in_step else 1_000_000,
            syncMode=mode,
            seed=5,
            progress=False,
            **params,
        ).fit(df)

    seen = Suspends(folder, seconds, stops=not in_step)
    log = logging.getLogger(event_queue.__name__)
    log.setLevel(logging.INFO)
    log.handlers = [seen]
    model = fit(
        checkpointDir=str(folder / f"checkpoints-{mode}"), checkpointSteps=500, callbacks=[seen]
    )
    seen.wait_for_its_end()
    history, variables = model.history, model.inference_model.variables
    calm = fit().inference_model.variables if in_step else None
    victim = Path(f"/proc/{seen.victim}")
    return {
        "mode": mode,
        "restarts": [each["reason"] for each in history.restarts],
        "noticed_s": round(seen.noticed_s, 2),
        "back_s": round(seen.back_s, 2),
        "steps_meanwhile": seen.steps_meanwhile,
        "victim_left": len(left_after(lambda: [seen.victim] * victim.exists(), GONE_S)),
        "left": len(left_after(lambda: training_processes(folder), GONE_S)),
        "equal": calm and all(np.array_equal(variables[name], calm[name]) for name in calm),
        "counts": sorted(set(variables["count"].tolist())),
        "applied": int(variables["count"].sum()),
        "rows": int(sum(history.epoch_rows)),
    }


def main() -> None:
    folder, mode, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    spark = fault_session(folder, "local-cluster[3,1,1024]")
    x = np.random.default_rng(0).normal(size=(ROWS, 2)).tolist()
    rows = [(each, float(number)) for number, each in enumerate(x)]
    df = spark.createDataFrame(rows, "features array<double>, label double").cache()
    print(json.dumps(run(df, folder, mode, seconds)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
