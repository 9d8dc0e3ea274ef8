"""Run by test_network.py as a program of its own, because a process has one SparkContext.

    python network_program.py FOLDER MODES TLS BREAK_S

A standalone cluster of two machines, one of them in a network namespace. While a fit trains, the
cable between the two is pulled for so many seconds. Prints one JSON object for each of the modes
(`sync,async`) and each TLS (`plain,tls`).
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from sparkflow.spark import Callback, SparkTrainer
from sparkflow.spark.control import event_queue
from support.network import Cable, cable
from support.processes import left_after, training_processes
from support.spark_models import counted
from support.standalone import machine, standalone

ROWS, BATCH = 240, 20
SYNC_EPOCHS = 300
GONE_S = 60.0


class Break(Callback, logging.Handler):
    """Pulls the cable for a while after the first checkpoint, and sees what comes of it.

    Args:
        wire: The cable.
        folder: Of the program.
        seconds: How long.
        stops: Whether training is to end once it has gone on well after that.
    """

    def __init__(self, wire: Cable, folder: Path, seconds: float, stops: bool) -> None:
        logging.Handler.__init__(self)
        self._wire, self._folder, self._seconds, self._stops = wire, folder, seconds, stops
        self._pulled_at = self._plugged_at = 0.0
        self._last = 0.0
        self._has_checkpoint = False
        self._after: set[int] = set()
        self.far: list[int] = []
        self.noticed_s = self.back_s = self.pause_s = 0.0
        self.steps_in_break = 0

    def on_train_begin(self, run: Any) -> None:
        """Keeps the run."""
        self._run = run

    def on_checkpoint(self, path: str) -> None:
        """From now on it may be pulled."""
        self._has_checkpoint = True

    def _pull(self) -> None:
        there = set(self._wire.processes())
        self.far = [pid for pid in training_processes(self._folder) if pid in there]
        self._wire.pull()
        self._pulled_at = self._last = time.monotonic()
        threading.Timer(self._seconds, self._plug).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Takes the time at which the driver knows that something was lost."""
        self.noticed_s = self.noticed_s or time.monotonic() - self._pulled_at

    def on_steps(self, update: Any) -> None:
        """Takes the time, and ends training when there is enough to see."""
        if not self._pulled_at:
            if self._has_checkpoint:
                self._pull()
            return
        now = time.monotonic()
        if self._run.history.restarts:
            if not self._plugged_at:
                self.steps_in_break += update.num_steps
            if not self.back_s:
                self.back_s = now - self._pulled_at
        self.pause_s, self._last = max(self.pause_s, now - self._last), now
        if self._plugged_at and now > self._plugged_at + 2:
            self._after.add(update.worker)
            if self._stops and len(self._after) == 2:
                self._run.stop("enough")

    def _plug(self) -> None:
        self._wire.plug()
        self._plugged_at = time.monotonic()

    def wait_for_the_plug(self) -> None:
        """Blocks until the cable is back in its place."""
        while not self._plugged_at:
            time.sleep(0.1)


def run(df: DataFrame, folder: Path, wire: Cable, mode: str, tls: bool, seconds: float) -> Any:
    """One fit with a break; what came of it."""
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
            tls=tls,
            **params,
        ).fit(df)

    seen = Break(wire, folder, seconds, stops=not in_step)
    log = logging.getLogger(event_queue.__name__)
    log.setLevel(logging.INFO)
    log.handlers = [seen]
    model = fit(
        checkpointDir=str(folder / f"checkpoints-{mode}-{tls}"),
        checkpointSteps=500,
        callbacks=[seen],
    )
    seen.wait_for_the_plug()
    history = model.history
    counts = model.inference_model.variables.get("count")
    calm = fit().inference_model.variables if in_step else None
    return {
        "mode": mode,
        "tls": tls,
        "restarts": [each["reason"] for each in history.restarts],
        "noticed_s": round(seen.noticed_s, 2),
        "back_s": round(seen.back_s, 2),
        "pause_s": round(seen.pause_s, 2),
        "steps_in_break": seen.steps_in_break,
        "far": len(seen.far),
        "far_left": len(left_after(lambda: [p for p in seen.far if _is_there(p)], GONE_S)),
        "left": len(left_after(lambda: training_processes(folder), GONE_S)),
        "equal": calm
        and all(
            np.array_equal(value, model.inference_model.variables[name])
            for name, value in calm.items()
        ),
        "counts": None if counts is None else sorted(set(counts.tolist())),
        "applied": None if counts is None else int(counts.sum()),
        "rows": int(sum(history.epoch_rows)),
    }


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def main() -> None:
    folder, seconds = Path(sys.argv[1]), float(sys.argv[4])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    with (
        cable() as wire,
        standalone(folder, 1, 3, host=wire.near) as master,
        machine(folder, 1, master, 1, host=wire.far, inside=wire.inside),
    ):
        spark = (
            SparkSession.builder.master(master)
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", wire.near)
            .config("spark.driver.bindAddress", wire.near)
            .config("spark.driver.extraJavaOptions", java)
            .config("spark.executor.extraJavaOptions", java)
            .config("spark.executor.memory", "600m")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        x = np.random.default_rng(0).normal(size=(ROWS, 2)).tolist()
        rows = [(each, float(number)) for number, each in enumerate(x)]
        df = spark.createDataFrame(rows, "features array<double>, label double").cache()
        for tls in sys.argv[3].split(","):
            for mode in sys.argv[2].split(","):
                found = run(df, folder, wire, mode, tls == "tls", seconds)
                print(json.dumps(found), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
