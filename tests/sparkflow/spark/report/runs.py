"""A run without a cluster, for the tests of the reporters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkflow.spark.control.callbacks import Callback
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.recorder import HistoryRecorder


class Clock:
    """A clock that advances when told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class FakeRun:
    """Two epochs of 60 rows, in steps of 3 rows of two workers."""

    num_workers = 2
    num_ps = 1
    sync = False
    total_rows = 120
    rows_per_epoch = 60
    total_steps = 40
    params: Mapping[str, Any]

    def __init__(self, clock: Clock, callback: Callback) -> None:
        self.params = {"epochs": 2, "modelParams": {"units": [8, 4]}, "labelCol": "label"}
        self._recorder = HistoryRecorder(60, range(2), sync=False, clock=clock)
        self._callback = callback

    @property
    def history(self) -> TrainingHistory:
        return self._recorder.history

    def begin(self) -> None:
        self._recorder.start()
        self._callback.on_train_begin(self)

    def step(self, *losses: float, waited_s: float = 0.0) -> None:
        rows = np.full(len(losses), 3, np.float32)
        self._callback.on_steps(self._recorder.add(0, np.float32(losses), rows, waited_s))

    def validate(self, **metrics: float) -> None:
        self._recorder.add_validation(metrics)
        self._callback.on_validation({"step": self.history.steps, **metrics})

    def end_epoch(self, epoch: int, **metrics: float) -> None:
        self._callback.on_epoch_end(epoch, {"loss": self.history.epoch_loss[epoch], **metrics})

    def end(self) -> None:
        self._callback.on_train_end(self.history)
        self._callback.on_close()

    def stop(self, reason: str = "") -> None:
        raise AssertionError("no reporter stops a training")

    def values(self) -> Mapping[str, npt.NDArray[Any]]:
        raise AssertionError("no reporter asks for values")


def whole_run(clock: Clock, callback: Callback, losses: Sequence[float] = (4.0, 2.0)) -> FakeRun:
    """Simulates a run from its first wait to its successful end."""
    run = FakeRun(clock, callback)
    callback.on_waiting("waiting for 2 of 2 tasks")
    clock.now += 1
    run.begin()
    for epoch, loss in enumerate(losses):
        for _ in range(10):
            clock.now += 0.5
            run.step(loss, loss, waited_s=0.1)
        run.end_epoch(epoch)
        run.validate(loss=loss + 1, accuracy=0.5 + epoch / 4)
    run.end()
    return run
