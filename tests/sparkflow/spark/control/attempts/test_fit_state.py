"""What outlives an attempt of a fit."""

from __future__ import annotations

from typing import Any

from sparkflow.spark.control.attempts.fit_state import FitState
from sparkflow.spark.control.callbacks import Callbacks
from sparkflow_runtime.security import Credentials


def test_every_restart_stays_known_and_is_counted_once(rig: Any) -> None:
    # A worker that was lost while the others went on was noted by the run, not by an attempt's end:
    # it was forgotten at the next one, or, out of a checkpoint, taken for that one.
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
