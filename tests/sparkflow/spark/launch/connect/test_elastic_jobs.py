"""Consecutive jobs with different numbers of workers, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.callbacks import Callback, Callbacks
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.errors import LostTaskError
from sparkflow.spark.launch.connect.elastic_jobs import FIRST_PAUSE_S, ElasticJobs, workers_in
from sparkflow.spark.launch.connect.live import Replay
from sparkflow.spark.launch.connect.outcome import Outcome, Paused
from sparkflow.spark.launch.connect.pausing import BEGAN
from sparkflow.spark.params.config import FitConfig


@pytest.mark.parametrize(
    ("slots", "workers"),
    [
        (5, 2),  # two of the five are servers', and one is reserved for questions
        (4, 1),
        (3, 1),  # the minimum number of workers needs it
        (2, 0),
        (0, 0),
    ],
)
def test_a_slot_is_left_to_ask_by_where_there_is_one(slots: int, workers: int) -> None:
    assert workers_in(slots, 2, least=1) == workers


@dataclass(frozen=True)
class Planned:
    layout: ClusterLayout
    config: FitConfig


@dataclass(frozen=True)
class Trained:
    """The parts of a `Training` that are used."""

    plan: Planned
    callbacks: Callbacks
    most_workers: int = 3

    def resized(self, workers: int) -> Any:
        return replace(self, plan=replace(self.plan, layout=self.plan.layout.of_workers(workers)))


class Restarts(Callback):
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def on_restart(self, reason: str) -> None:
        self.reasons.append(reason)


class Rig:
    """Jobs that end when the test says so, and slots that it counts."""

    def __init__(self, *ends: Any, slots: Any = ()) -> None:
        self.ends, self.slots = list(ends), list(slots)
        self.made: list[Any] = []
        self.counted: list[int] = []
        self.restarts = Restarts()
        config = FitConfig(sync_mode="sync", min_workers=1, num_workers=3, max_restarts=2)
        plan = Planned(ClusterLayout(0, 1, 1), config)
        training: Any = Trained(plan, Callbacks([self.restarts]))
        self.replay = Replay(training.callbacks, plan)  # type: ignore[arg-type]
        self.jobs = ElasticJobs(
            training, self._make, self.replay, self._count, pause=lambda seconds: None
        )

    def _count(self, running: int) -> int:
        self.counted.append(running)
        return self.slots.pop(0)

    def _make(self, training: Any, left: Any, changes: Any, look: Any, pause_after_s: float) -> Any:
        workers = training.plan.layout.num_workers
        assert self.replay.plan.layout.num_workers == workers
        self.made.append(
            SimpleNamespace(
                workers=workers, left=left, changes=changes, look=look, pause_after_s=pause_after_s
            )
        )
        return SimpleNamespace(attempt=self._attempt)

    def _attempt(self, lost: Any) -> Any:
        self.made[-1].lost = list(lost)
        end = self.ends.pop(0)
        if callable(end):
            end = end(self.made[-1])
        if isinstance(end, Exception):
            raise end
        return end

    def run(self) -> list[Any]:
        """Returns the number of workers of each job."""
        self.outcome = self.jobs.run()
        return [each.workers for each in self.made]


def paused(step: int, *changes: Any) -> Paused:
    return Paused({"snapshot": b"", "state": b""}, step, changes)


END = Outcome({}, {})


def _look(end: Any) -> Any:
    def run(job: Any) -> Any:
        job.look()
        return end

    return run


def test_workers_are_added_where_a_look_finds_room_and_no_look_is_made_with_the_most() -> None:
    rig = Rig(_look(paused(10)), END, slots=[7])
    assert rig.run() == [1, 3]
    assert rig.counted == [1]  # in addition to the running one; not again after it has ended
    assert rig.replay.wants_pause
    assert rig.made[0].look is not None
    assert rig.made[1].look is rig.made[1].pause_after_s is None
    assert rig.made[1].left.step == 10
    (change,) = rig.made[1].changes
    assert change.pop(BEGAN) > 0
    assert change == {"step": 10, "workers": 3, "before": 1}


def test_a_look_that_finds_nothing_does_not_end_the_run() -> None:
    rig = Rig(_look(END), slots=[1])
    assert rig.run() == [1]
    assert not rig.replay.wants_pause


def test_jobs_that_end_by_themselves_for_a_look_do_so_less_and_less_often() -> None:
    rig = Rig(paused(5), paused(9), paused(12), END, slots=[1, 0, 2])
    # With fewer slots than the minimum, the current workers continue.
    assert rig.run() == [1, 1, 1, 2]
    assert rig.counted == [0, 0, 0]
    times = [each.pause_after_s / FIRST_PAUSE_S for each in rig.made]
    assert times == [1, 2, 4, 1]


def test_after_a_loss_as_many_go_on_as_there_are_slots_for() -> None:
    first = {"step": 10, "workers": 3, "before": 1, "pause_s": 2.0}

    def lost(job: Any) -> Exception:
        history = TrainingHistory(steps=14, resized=[first])
        rig.replay.run = SimpleNamespace(history=history)  # type: ignore[assignment]
        return LostTaskError("an executor was lost")

    rig = Rig(_look(paused(10)), lost, END, slots=[3, 0, 0, 2])
    assert rig.run() == [1, 3, 2]
    assert rig.counted == [1, 0, 0, 0]
    last = rig.made[-1]
    assert last.lost == [("an executor was lost", 14)]
    assert last.left.step == 10
    assert last.changes == (first,)  # with its duration, which the lost run knew
    assert rig.restarts.reasons == ["an executor was lost"]


def test_what_is_no_loss_ends_it() -> None:
    with pytest.raises(ValueError, match="bad rows"):
        Rig(ValueError("bad rows")).run()
