"""Trainings that are ended at random moments, and what they leave behind.

Used by the programs of `tests/faults/test_interrupts.py`, in a script and in a notebook's kernel.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sparkflow.spark import Callback, SparkTrainer
from support.listening import listening
from support.processes import END_S, is_sparks, left_after, training_processes
from support.spark_models import linear

KINDS = ("ctrl-c", "model_fn", "callback", "worker")
EVENTS = ("on_waiting", "on_train_begin", "on_steps", "on_epoch_end")


class BoomError(Exception):
    """Raised by the user's code."""


def boom(where: str) -> None:
    """Raises an error, whose traceback must name this function."""
    raise BoomError(f"boom in {where}")


class Bomb(Callback):
    """Raises an error at the n-th call of one of its methods."""

    def __init__(self, event: str, count: int) -> None:
        self._left = count

        def hear(*_: Any) -> None:
            self._left -= 1
            if self._left == 0:
                boom(event)

        setattr(self, event, hear)


class Rounds:
    """Endless trainings in one session.

    Args:
        folder: The folder to which Spark and the tasks write; all processes have its name in their
            environment.
        seed: The seed of random choices.
    """

    def __init__(self, folder: str, seed: int) -> None:
        self._folder = Path(folder)
        self._random = random.Random(seed)
        os.environ |= {"INTERRUPTS": folder, "PYSPARK_PYTHON": sys.executable}
        builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": folder,
            "spark.sql.shuffle.partitions": "2",
        }
        for key, value in settings.items():
            builder = builder.config(key, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("OFF")
        rows = [([float(i % 7), float(i % 3)], float(i % 7 - 2 * (i % 3))) for i in range(200)]
        self._df = self._spark.createDataFrame(rows, "features array<double>, label double").cache()
        began = time.monotonic()
        self._trainer(epochs=2).fit(self._df)
        self._calm_s = time.monotonic() - began
        self._before = self._seen()

    def _trainer(self, **params: Any) -> SparkTrainer:
        given = {
            "model_fn": linear,
            "numWorkers": 2,
            "numPs": 1,
            "batchSize": 10,
            "progress": False,
        }
        return SparkTrainer(**{**given, **params})

    def moment(self) -> float:
        """Returns random seconds after the start of a fit: while tasks start, or train."""
        return self._random.uniform(0, 1.5 * self._calm_s)

    def endless(self, kind: str) -> None:
        """Trains until something ends it; for `ctrl-c`, others must do that."""
        params: dict[str, Any] = {}
        if kind == "model_fn":
            params["model_fn"] = _failing_model
        elif kind == "callback":
            event = self._random.choice(EVENTS)
            params["callbacks"] = [Bomb(event, self._random.randint(1, 3))]
        elif kind == "worker":
            params["workerCallbacks"] = [_failing_worker]
        self._trainer(epochs=1_000_000, **params).fit(self._df)

    def end_one(self, kind: str) -> dict[str, Any]:
        """Runs one training that is ended; returns the outcome, and what was left after `END_S`."""
        timer = threading.Timer(self.moment(), os.killpg, (os.getpgid(0), signal.SIGINT))
        found: dict[str, Any] = {"kind": kind}
        try:
            if kind == "ctrl-c":  # a terminal signals all processes of the group
                timer.start()
            self.endless(kind)
        except BaseException as error:
            found |= {
                "error": type(error).__name__,
                "text": str(error),
                "trace": "".join(traceback.format_exception(error)),
            }
        return found | self.left()

    def left(self) -> dict[str, Any]:
        """Returns what is left over after at most `END_S`, and the seconds that it took."""
        began = time.monotonic()
        processes = left_after(lambda: training_processes(self._folder))
        while (more := self._more()) and time.monotonic() < began + END_S:
            time.sleep(0.05)
        return {"processes": processes, "left": more, "seconds": time.monotonic() - began}

    def close(self) -> None:
        """Ends the session."""
        self._spark.stop()

    def _more(self) -> list[str]:
        return sorted(self._seen() - self._before)

    def _seen(self) -> set[str]:
        """Returns listening ports of this process and files that are not Spark's own."""
        files = {
            str(path)
            for path in self._folder.rglob("*")
            if path.is_file() and not is_sparks(path.relative_to(self._folder))
        }
        return files | {f"port {port}" for _, port in listening()}


def _failing_model(features: Any, labels: Any, mode: str) -> Any:
    boom("model_fn")


def _failing_worker(event: Any) -> None:
    if event.kind == "steps":
        boom("a worker")
