"""What a fit knows about itself and earlier fits, tested without a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkflow.spark.control.attempts.fit_state import FitState
from sparkflow.spark.control.callbacks import Callback, Callbacks
from sparkflow.spark.control.worker_recovery import WorkerRecovery
from sparkflow_runtime.security import Credentials


class CrashOnce(Callback):
    def __init__(self, rig: Any) -> None:
        self._rig, self._crashed = rig, False

    def on_steps(self, update: Any) -> None:
        if not self._crashed:
            self._crashed = True
            raise self._rig.Crash("the process is gone")


def _state(rig: Any, name: str = "", **given: Any) -> FitState:
    return FitState(
        replace(rig.plan(), name=name), Credentials("token"), Callbacks(), rig.store(), **given
    )


def _recovery(rig: Any, state: FitState) -> WorkerRecovery:
    unused: Any = None
    return WorkerRecovery(
        rig.plan(), Credentials(), unused, unused, unused, state._recorder, unused, (0, 0)
    )


@pytest.fixture
def interrupted(rig: Any, tmp_path: Path) -> Any:
    """A fit that was interrupted once, and left a checkpoint that records it."""
    rig = rig.but(sync_mode="async", epochs=1, checkpoint_dir=str(tmp_path), num_ps=1)
    result = rig.but(callbacks=(CrashOnce(rig),), restarts=True).train()
    assert len(result.history.restarts) == 1
    return rig.but(epochs=2, max_restarts=1)


def test_what_interrupted_an_earlier_fit_does_not_count_in_this_one(interrupted: Any) -> None:
    state = _state(interrupted)
    assert len(state.history.restarts) == 1  # the history includes both
    assert state.restarts == []
    assert _recovery(interrupted, state).may_lose_one()
    state.on_restart("an executor was lost")
    assert state.restarts == ["an executor was lost"]
    assert [each["reason"] for each in state.history.restarts][1:] == ["an executor was lost"]
    assert not _recovery(interrupted, state).may_lose_one()


def test_a_worker_that_came_back_and_a_loss_are_both_in_the_history(interrupted: Any) -> None:
    state = _state(interrupted)
    state._recorder.add_restart("worker 1 came back")
    state.on_restart("an executor was lost")
    state.on_restart("another one")
    reasons = [each["reason"] for each in state.history.restarts]
    assert (
        reasons[1:]
        == state.restarts
        == ["worker 1 came back", "an executor was lost", "another one"]
    )


def test_every_restart_stays_known_and_is_counted_once(rig: Any) -> None:
    # The loss of a worker while the others continued was recorded by the run, not by the end of an
    # attempt: it was forgotten at the next attempt, or, when read from a checkpoint, mistaken for
    # it.
    plan = rig.plan()
    state = FitState(plan, Credentials("token"), Callbacks())
    state._recorder.add_restart("worker task 1 was lost, the others went on")
    state.on_restart("ps task 0 was lost")
    state._recorder.add_restart("worker task 0 was lost, the others went on")
    state.resize(plan)
    state.on_restart("an executor was lost")
    assert [each["reason"] for each in state.history.restarts] == [
        "worker task 1 was lost, the others went on",
        "ps task 0 was lost",
        "worker task 0 was lost, the others went on",
        "an executor was lost",
    ]
