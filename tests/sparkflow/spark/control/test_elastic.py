"""With how many workers training continues, tested without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from sparkflow.spark.control.attempts.fit_state import FitState
from sparkflow.spark.control.callbacks import Callbacks
from sparkflow.spark.control.elastic import ElasticWorkers, Resize
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.schedule import Schedule, Stops
from sparkflow_runtime.security import Credentials


def _schedule(*done: int, in_step: bool = True) -> Schedule:
    return Schedule((5,) * len(done), 4, in_step, Stops(at_epochs=True), done)


class Rig:
    """Two to four workers, and a number of slots set by the test."""

    def __init__(self, *counts: int, in_step: bool = True) -> None:
        self.counts = list(counts)
        self.remembered: list[Any] = []
        self.paused_s = 0.0
        self.elastic = ElasticWorkers(2, 4, self.count, in_step, self.remembered.append, self.pause)
        self.elastic.workers = 3

    def count(self) -> int:
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]

    def pause(self, seconds: float) -> None:
        self.paused_s += seconds

    def between(self, schedule: Schedule) -> int:
        """Returns the number of workers that continue."""
        try:
            self.elastic.between_segments(schedule, lambda: "a snapshot")  # type: ignore[arg-type,return-value]
        except Resize as change:
            return change.workers
        return self.elastic.workers


@pytest.mark.parametrize(
    ("slots", "workers"),
    [(3, 3), (4, 4), (9, 4), (2, 2), (1, 3), (0, 3)],
)
def test_it_follows_the_slots_within_its_bounds(slots: int, workers: int) -> None:
    # With fewer slots than the minimum, current workers continue until one of them is lost.
    rig = Rig(slots)
    assert rig.between(_schedule(7, 7, 7)) == workers
    assert rig.remembered == ["a snapshot"]


def test_on_their_own_workers_change_where_all_have_ended_an_epoch() -> None:
    rig = Rig(4, in_step=False)
    assert rig.between(_schedule(5, 5, 4, in_step=False)) == 3
    assert rig.between(_schedule(10, 5, 5, in_step=False)) == 3
    assert rig.remembered == []
    assert rig.between(_schedule(10, 10, 10, in_step=False)) == 4


def test_a_change_is_noted_with_its_pause_and_once() -> None:
    rig = Rig(4)
    history = TrainingHistory()
    rig.elastic.begins(history)
    assert history.resized == []
    assert rig.between(_schedule(5, 5, 5)) == 4
    rig.elastic.begins(history)
    rig.elastic.begins(history)
    (change,) = history.resized
    assert change.pop("pause_s") >= 0
    assert change == {"step": 5, "workers": 4, "before": 3}


def test_after_a_loss_it_waits_for_the_least() -> None:
    rig = Rig(0, 1, 2)
    assert rig.elastic.after_loss() == 2
    assert rig.paused_s == 4.0
    assert Rig(9).elastic.after_loss() == 4
    rig = Rig(1)
    assert rig.elastic.after_loss() == 2  # for which Spark then has no slots, as it reports
    assert rig.paused_s > 120


def test_a_restart_is_known_when_another_number_goes_on(rig: Any) -> None:
    plan = rig.plan()
    state = FitState(plan, Credentials("token"), Callbacks())
    state.on_restart("an executor was lost")
    state.resize(plan)
    assert [each["reason"] for each in state.history.restarts] == ["an executor was lost"]


def test_a_change_before_a_loss_is_in_the_history_that_goes_on() -> None:
    rig = Rig(4)
    with pytest.raises(Resize):
        rig.elastic.between_segments(_schedule(7, 7, 7), lambda: "a snapshot")  # type: ignore[arg-type,return-value]
    first, again = TrainingHistory(), TrainingHistory()
    rig.elastic.begins(first)
    rig.elastic.after_loss()
    rig.elastic.begins(again)
    rig.elastic.begins(again)
    assert [each["workers"] for each in again.resized] == [4]
    assert again.resized == first.resized
