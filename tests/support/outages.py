"""Fits in the middle of which something is not to be reached for a while, and comes back."""

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
    """Begins after the first checkpoint, and sees what comes of it.

    Args:
        seconds: How long it lasts.
        stops: Whether training is to end once it has gone on well after that.

    Attributes:
        noticed_s: When the driver knew that something was lost, since it began.
        back_s: When there was a step of what had been lost.
        pause_s: The longest time without a step.
        steps_meanwhile: How many were made after a restart and before its end.
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
        """Has something be out of reach."""
        raise NotImplementedError(type(self).__name__)

    def end(self) -> None:
        """Takes that back; called by a thread of its own."""
        raise NotImplementedError(type(self).__name__)

    def is_of_the_lost(self, update: Any) -> bool:
        """Whether steps are of what had been lost."""
        return True

    def wait_for_its_end(self) -> None:
        """Blocks until all can be reached again."""
        while not self._ended:
            time.sleep(0.1)

    def on_train_begin(self, run: Any) -> None:
        """Keeps the run."""
        self._run = run

    def on_checkpoint(self, path: str) -> None:
        """From now on it may begin."""
        self._has_checkpoint = True

    def emit(self, record: logging.LogRecord) -> None:
        """Takes the time at which the driver knows that something was lost."""
        self.noticed_s = self.noticed_s or time.monotonic() - self._began

    def on_steps(self, update: Any) -> None:
        """Takes the time, and ends training when there is enough to see."""
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
    """What came of a fit with an outage, beside an undisturbed one if that is to be equal.

    Args:
        outage: See there; it stops the fit where `mode` is not "sync".
        df: Of `numbered_rows`.
        mode: `syncMode`.
        checkpoints: A folder.
        **params: More of `SparkTrainer`.
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
