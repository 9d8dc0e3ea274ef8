"""Fits during which something becomes unreachable for a while, and returns."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from sparkflow.spark import Callback, SparkTrainer
from sparkflow.spark.control import event_queue
from support.spark_models import counted

ROWS, BATCH = 240, 20
SYNC_EPOCHS = 300


class Outage(Callback, logging.Handler):
    """An outage that begins after the first checkpoint, and records its effects.

    Args:
        seconds: Its duration.
        stops: Whether training ends once it has continued well after that.

    Attributes:
        noticed_s: The time from its beginning until the driver knew of a loss.
        back_s: The time until the first step of what had been lost.
        pause_s: The longest time without a step.
        steps_meanwhile: The number of steps after a restart and before its end.
    """

    def __init__(self, seconds: float, stops: bool) -> None:
        logging.Handler.__init__(self)
        self._seconds, self._stops = seconds, stops
        self._began = self._ended = self._last = 0.0
        self._has_checkpoint = False
        self._after: set[int] = set()
        self.noticed_s = self.back_s = self.pause_s = 0.0
        self.steps_meanwhile = 0

    def begin(self) -> None:
        """Makes something unreachable."""
        raise NotImplementedError(type(self).__name__)

    def end(self) -> None:
        """Makes it reachable again; called in a separate thread."""
        raise NotImplementedError(type(self).__name__)

    def is_of_the_lost(self, update: Any) -> bool:
        """Whether steps were made by what had been lost."""
        return True

    def wait_for_its_end(self) -> None:
        """Blocks until everything is reachable again."""
        while not self._ended:
            time.sleep(0.1)

    def on_train_begin(self, run: Any) -> None:
        """Stores the run."""
        self._run = run

    def on_checkpoint(self, path: str) -> None:
        """Allows the outage to begin."""
        self._has_checkpoint = True

    def emit(self, record: logging.LogRecord) -> None:
        """Records the time at which the driver knows of a loss."""
        self.noticed_s = self.noticed_s or time.monotonic() - self._began

    def on_steps(self, update: Any) -> None:
        """Records the time, and ends training when enough was observed."""
        if not self._began:
            if self._has_checkpoint:
                self.begin()
                self._began = self._last = time.monotonic()
                threading.Timer(self._seconds, self._end).start()
            return
        now = time.monotonic()
        if self._run.history.restarts:
            self.steps_meanwhile += 0 if self._ended else update.num_steps
            if self.is_of_the_lost(update):
                self.back_s = self.back_s or now - self._began
        self.pause_s, self._last = max(self.pause_s, now - self._last), now
        if self._ended and now > self._ended + 2:
            self._after.add(update.worker)
            if self._stops and len(self._after) == 2:
                self._run.stop("enough")

    def _end(self) -> None:
        self.end()
        self._ended = time.monotonic()


def numbered_rows(spark: SparkSession) -> DataFrame:
    """Rows for `counted`."""
    x = np.random.default_rng(0).normal(size=(ROWS, 2)).tolist()
    rows = [(each, float(number)) for number, each in enumerate(x)]
    return spark.createDataFrame(rows, "features array<double>, label double").cache()


def fit_through(
    outage: Outage, df: DataFrame, mode: str, checkpoints: Path, **params: Any
) -> dict[str, Any]:
    """Returns the outcome of a fit with an outage, and of an undisturbed one if both must be equal.

    Args:
        outage: The outage; it stops the fit if `mode` is not "sync".
        df: Rows from `numbered_rows`.
        mode: `syncMode`.
        checkpoints: A folder.
        **params: More parameters of `SparkTrainer`.
    """
    in_step = mode == "sync"

    def fit(**more: Any) -> Any:
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
            **more,
        ).fit(df)

    log = logging.getLogger(event_queue.__name__)
    log.setLevel(logging.INFO)
    log.handlers = [outage]
    model = fit(checkpointDir=str(checkpoints), checkpointSteps=500, callbacks=[outage])
    outage.wait_for_its_end()
    history, variables = model.history, model.inference_model.variables
    calm = fit().inference_model.variables if in_step else None
    return {
        "mode": mode,
        "restarts": [each["reason"] for each in history.restarts],
        "noticed_s": round(outage.noticed_s, 2),
        "back_s": round(outage.back_s, 2),
        "pause_s": round(outage.pause_s, 2),
        "steps_meanwhile": outage.steps_meanwhile,
        "equal": calm and all(np.array_equal(variables[name], calm[name]) for name in calm),
        "counts": sorted(set(variables["count"].tolist())),
        "applied": int(variables["count"].sum()),
        "rows": int(sum(history.epoch_rows)),
    }
