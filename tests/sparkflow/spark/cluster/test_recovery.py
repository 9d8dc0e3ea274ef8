"""Whole trainings in real processes, but without Spark: killed processes are replaced."""

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkflow.spark.control.callbacks import Callback
from support.process_fits import BATCH, SHARE, Fit, OnStep, counting
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(200)


@pytest.mark.parametrize("task", ["worker 1", "ps 0"])
def test_a_lost_process_comes_back_from_the_last_checkpoint(tmp_path: Path, task: str) -> None:
    expected, _ = Fit("sync", 60).run()
    fit = Fit("sync", 60, checkpoint_dir=str(tmp_path), checkpoint_steps=50)
    killing = OnStep(120, lambda: fit.kill(task))
    values, history = fit.run(killing)
    assert history.steps == 60 * SHARE // BATCH
    assert len(killing.restarts) == len(history.restarts) == 1
    assert "was killed by signal 9" in killing.restarts[0]
    # Nothing that was committed is lost, and the result is that of an undisturbed run.
    assert killing.first_steps[1] >= 50
    assert 0 <= history.restarts[0]["undone_steps"] < 200
    assert values["global_step"] == history.steps
    np.testing.assert_array_equal(values["layer/kernel"], expected["layer/kernel"])


def test_others_go_on_without_a_lost_worker() -> None:
    fit = Fit("async", 800)
    killing = OnStep(10, lambda: fit.kill("worker 1"))
    values, history = fit.run(killing)
    assert killing.restarts == []
    assert len(history.restarts) == 1
    assert history.steps == 2 * 800 * SHARE // BATCH
    # Steps that the dead worker had applied but not reported were repeated. Two workers increment
    # the model's own counter without a lock, and one step was cut in two.
    assert abs(values["global_step"] - history.steps - history.repeated_steps) <= 5
    assert history.repeated_steps >= 0
    assert [each["undone_steps"] for each in history.restarts] == [0]
    np.testing.assert_allclose(values["layer/kernel"].ravel(), [1.0, -2.0], atol=0.05)


class KillsOften(Callback):
    """Kills worker 1 several times, a random time after it began to make steps."""

    def __init__(self, fit: Fit, times: int, seed: int) -> None:
        self._fit, self._left, self._random = fit, times, random.Random(seed)
        self._at = self._random.uniform(0.0, 0.3)
        self._since: float | None = None
        self._dead: set[int] = set()

    def on_steps(self, update: Any) -> None:
        now, pid = time.monotonic(), self._fit.pid("worker 1")
        if update.worker == 1 and self._since is None and pid not in self._dead:
            self._since = now
        if self._since is not None and self._left and now - self._since > self._at:
            os.kill(pid, signal.SIGKILL)
            self._dead.add(pid)
            self._left -= 1
            self._since, self._at = None, self._random.uniform(0.0, 0.3)


@pytest.mark.parametrize("num_ps", [1, 2, 3])
def test_every_batch_is_applied_once_whenever_a_worker_dies(num_ps: int) -> None:
    fit = Fit("async", 800, num_ps=num_ps, model_fn=counting)
    killing = KillsOften(fit, 2, num_ps)
    values, history = fit.run(killing)
    assert len(history.restarts) == 2
    assert history.repeated_steps == 0
    assert history.steps == values["last"] == 2 * 800 * SHARE // BATCH
    for each in range(3):
        assert set(values[f"count{each}"].tolist()) == {800}, each


class KillsWhoComesBack(Callback):
    """Kills worker 1 once, and then several times a random time after it has registered again."""

    def __init__(self, fit: Fit, times: int, seed: int) -> None:
        self._fit, self._left, self._random = fit, times, random.Random(seed)
        self._thread = threading.Thread(target=self._kill)
        self.restarts: list[str] = []

    def on_steps(self, update: Any) -> None:
        if self._left and update.worker == 1 and self._thread.ident is None:
            self._thread.start()

    def on_restart(self, reason: str) -> None:
        self.restarts.append(reason)

    def on_train_end(self, history: Any) -> None:
        self._thread.join()

    def _kill(self) -> None:
        dead: set[int] = set()
        while True:
            dead.add(pid := self._fit.pid("worker 1"))
            os.kill(pid, signal.SIGKILL)
            if not self._left:
                return
            wait_until(lambda: self._fit.pid("worker 1") not in dead, 60)
            time.sleep(self._random.uniform(0.0, 0.1))
            self._left -= 1


@pytest.mark.parametrize(("num_ps", "epochs"), [(1, 1500), (3, 500)])
def test_a_worker_that_dies_while_it_is_brought_back_is_brought_back_again(
    num_ps: int, epochs: int
) -> None:
    fit = Fit("async", epochs, num_ps=num_ps, model_fn=counting, max_restarts=10)
    killing = KillsWhoComesBack(fit, 4, num_ps)
    values, history = fit.run(killing)
    assert killing.restarts == []
    assert len(history.restarts) == 5
    assert history.repeated_steps == 0
    assert history.steps == values["last"] == 2 * epochs * SHARE // BATCH
    for each in range(3):
        assert set(values[f"count{each}"].tolist()) == {epochs}, each


@pytest.mark.nightly
def test_ten_deaths_of_a_worker() -> None:
    fit = Fit("async", 12_000, num_ps=2, model_fn=counting, max_restarts=10)
    values, history = fit.run(KillsOften(fit, 10, seed=7))
    assert len(history.restarts) == 10
    assert history.repeated_steps == 0
    for each in range(3):
        assert set(values[f"count{each}"].tolist()) == {12_000}, each


def test_workers_that_host_parameter_servers_come_back() -> None:
    fit = Fit("async", 200, num_ps=0)
    killing = OnStep(10, lambda: fit.kill("worker 0"))
    _, history = fit.run(killing)
    assert len(killing.restarts) == 1
    assert history.steps == 2 * 200 * SHARE // BATCH
