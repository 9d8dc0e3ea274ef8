"""Whole trainings in real processes, but without Spark: hanging processes are replaced."""

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkflow.spark.cluster.process.child_process import Silence
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.control import event_queue
from sparkflow.spark.control.callbacks import Callback
from sparkflow.spark.errors import StalledError
from sparkflow_runtime.testing.suspending import suspend
from sparkflow_runtime.transport.rpc import Patience
from support.process_fits import BATCH, SHARE, Fit, OnStep

pytestmark = pytest.mark.timeout(200)


def by_night(*values: str) -> Any:
    """Marks parameters for nightly tests: CI's whole fault suite may take three minutes."""
    return pytest.param(*values, marks=pytest.mark.nightly)


class StopsAndEnds(Callback):
    """Suspends worker 1 once, then requests the end of training; each time after all make steps."""

    def __init__(self, fit: Fit, on_stop: Callable[[], None] = lambda: None) -> None:
        self._fit = fit
        self._on_stop = on_stop
        self._has_stopped = False

    def on_train_begin(self, run: Any) -> None:
        self._run = run
        self._seen: set[int] = set()

    def on_steps(self, update: Any) -> None:
        self._seen |= {0, 1} if update.worker < 0 else {update.worker}
        if self._seen == {0, 1}:
            if not self._has_stopped:
                suspend(self._fit.pid("worker 1"))
                self._on_stop()
            self._has_stopped = True
            self._run.stop("enough")


@pytest.mark.parametrize("mode", ["async", by_night("ssp"), "sync", by_night("allreduce")])
def test_who_stands_still_at_a_halt_is_replaced(mode: str) -> None:
    # In async mode it resumed and completed the rest of the segment, which nobody could end any
    # more; in other modes its late answer to the halt ended the fit.
    fit = Fit(mode, 200_000, num_ps=0 if mode == "allreduce" else 1)
    _, history = fit.run(StopsAndEnds(fit))
    assert history.stopped == "enough"
    assert len(history.restarts) == 1
    assert history.steps < 100_000


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_short_stop_at_a_halt_is_waited_for(mode: str) -> None:
    patient = Patience(30.0, 30.0)
    fit = Fit(mode, 200_000, silence=Silence(stopped_s=60.0), patience=patient)
    # Longer than the former time limit for answering a halt.
    waking = threading.Timer(5.5, lambda: fit.kill("worker 1", signal.SIGCONT))
    _, history = fit.run(StopsAndEnds(fit, waking.start))
    waking.join()
    assert history.stopped == "enough"
    assert history.restarts == []


def test_a_process_that_stands_still_is_named() -> None:
    fit = Fit("sync", 1_000_000)

    def stop() -> None:
        suspend(fit.pid("worker 1"))
        stopping.run._watchdog._stall_timeout_s = 1.5  # the first step has completed

    stopping = OnStep(5, stop)
    with pytest.raises(StalledError) as caught:
        fit.run(stopping)
    text = str(caught.value)
    assert "No worker has made a step for 1.5 s (stallTimeout)" in text
    assert "does not answer and was last heard of" in text


STILL = Silence(stopped_s=1.5, look_s=0.2)


def stop_and_continue(fit: Fit, task: str, after_s: float) -> Callable[[], None]:
    """Suspends a task's process, and resumes it after so many seconds if it still exists."""

    def stop() -> None:
        pid = fit.server.infos()[TaskName(task.split()[0], int(task.split()[1]))].pid
        suspend(pid)
        timer = threading.Timer(after_s, _continue, [pid])
        timer.daemon = True
        timer.start()

    return stop


def _continue(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("mode", "task"),
    [
        ("async", "worker 1"),
        by_night("async", "ps 0"),
        by_night("ssp", "worker 1"),
        by_night("ssp", "ps 0"),
        by_night("sync", "worker 1"),
        ("sync", "ps 0"),
        ("allreduce", "worker 1"),
    ],
)
def test_a_process_that_stands_still_is_replaced(mode: str, task: str) -> None:
    fit = Fit(mode, 300, num_ps=0 if mode == "allreduce" else 1, silence=STILL)
    stopping = OnStep(10, stop_and_continue(fit, task, 5.0))
    values, history = fit.run(stopping)
    assert len(history.restarts) == 1
    assert "stood still for" in history.restarts[0]["reason"]
    assert history.steps == 300 * SHARE // BATCH * (1 if fit.plan.config.in_step else 2)
    assert abs(values["global_step"] - history.steps - history.repeated_steps) <= 5


def test_a_process_that_stands_still_for_a_moment_goes_on() -> None:
    fit = Fit("sync", 300, silence=STILL)
    stopping = OnStep(10, stop_and_continue(fit, "worker 1", 0.5))
    _, history = fit.run(stopping)
    assert history.restarts == []
    assert history.steps == 300 * SHARE // BATCH


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_machine_that_stands_still_is_given_up_and_comes_back(mode: str) -> None:
    """Its Spark task is suspended, too: the driver notices, and what resumes ends by itself."""
    never = Silence(stopped_s=1000.0, hung_s=1000.0)
    patience = Patience(ask_s=2.0, wait_s=2.0)
    fit = Fit(mode, 2000 if mode == "async" else 300, silence=never, patience=patience)
    stopping = OnStep(10, stop_and_continue(fit, "worker 1", 9.0))
    _, history = fit.run(stopping)
    assert len(history.restarts) == 1
    assert "has not answered for" in history.restarts[0]["reason"]


class StopsInAPause(Callback):
    """Suspends worker 1 when the driver is about to read all values, for the first checkpoint."""

    def __init__(self, fit: Fit) -> None:
        self._fit = fit
        self.stopped_at = 0.0

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        if not self.stopped_at:
            suspend(self._fit.pid("worker 1"))
            self.stopped_at = time.time()


@pytest.mark.parametrize("mode", ["async", by_night("sync"), by_night("ssp")])
def test_who_stands_still_between_segments_is_noticed(
    mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver used to wait for its answer without reading other messages."""
    caplog.set_level(logging.INFO, event_queue.__name__)
    never, patience = Silence(stopped_s=25.0, hung_s=1000.0), Patience(ask_s=1.0, wait_s=1.0)
    folder = str(tmp_path)
    fit = Fit(mode, 5, silence=never, patience=patience, checkpoint_dir=folder)
    stops = StopsInAPause(fit)
    _, history = fit.run(stops)
    assert len(history.restarts) == 1
    noticed = [each.created for each in caplog.records if each.message.startswith("noticed:")]
    assert noticed[0] - stops.stopped_at < NOTICED_S


MODES_AND_TASKS = [
    *((mode, task) for mode in ("async", "ssp", "sync") for task in ("worker 1", "ps 0")),
    ("allreduce", "worker 1"),
]
NOTICED_S = 10.0


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seconds", [5.0, 30.0, 120.0])
@pytest.mark.parametrize(("mode", "task"), MODES_AND_TASKS)
def test_standing_still_is_survived(
    mode: str,
    task: str,
    seconds: float,
    caplog: pytest.LogCaptureFixture,
    record_property: Callable[[str, object], None],
) -> None:
    caplog.set_level(logging.INFO, event_queue.__name__)
    fit = Fit(mode, 2000, num_ps=0 if mode == "allreduce" else 1)
    stopped_at: list[float] = []

    def stop() -> None:
        stop_and_continue(fit, task, seconds)()
        stopped_at.append(time.time())

    _, history = fit.run(OnStep(10, stop))
    assert history.steps == 2000 * SHARE // BATCH * (1 if fit.plan.config.in_step else 2)
    assert history.repeated_steps == 0
    noticed = [each.created for each in caplog.records if each.message.startswith("noticed:")]
    # The driver waits for short suspensions, unless the process was silent before, on a busy
    # machine.
    assert len(history.restarts) <= 1
    if not history.restarts:
        assert seconds == 5.0
        return
    noticed_s = noticed[0] - stopped_at[0]
    record_property(f"{mode}, {task}, {seconds:g} s: noticed after (s)", round(noticed_s, 1))
    assert noticed_s < NOTICED_S
