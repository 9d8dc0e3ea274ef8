"""When the chief ends a run so that its client can look for slots."""

from __future__ import annotations

from typing import Any

import pytest

from sparkflow.spark.control.elastic import Resize
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.schedule import Schedule, Stops
from sparkflow.spark.launch.connect.pausing import BEGAN, Pausing


def _schedule(*done: int, in_step: bool = True) -> Schedule:
    return Schedule((5,) * len(done), 4, in_step, Stops(at_epochs=True), done)


class Rig:
    """A client controlled by the test, and a clock."""

    def __init__(self, after_s: float | None = None, in_step: bool = True, **given: Any) -> None:
        self.wanted, self.now_s = False, 100.0
        self.remembered: list[Any] = []
        self.pausing = Pausing(
            lambda: self.wanted,
            after_s,
            in_step,
            self.remembered.append,
            clock=lambda: self.now_s,
            now=lambda: 1000.0 + self.now_s,
            **given,
        )

    def ends(self, schedule: Schedule) -> bool:
        try:
            self.pausing.between_segments(schedule, lambda: "a snapshot")  # type: ignore[arg-type,return-value]
        except Resize:
            return True
        return False


def test_a_run_ends_between_segments_when_the_client_wants_it() -> None:
    rig = Rig()
    assert not rig.ends(_schedule(3, 3))
    assert rig.remembered == ["a snapshot"]  # in case of a loss
    rig.wanted = True
    assert rig.ends(_schedule(5, 5))


def test_on_their_own_workers_stop_where_all_have_ended_an_epoch() -> None:
    rig = Rig(in_step=False)
    rig.wanted = True
    assert not rig.ends(_schedule(5, 4, in_step=False))
    assert rig.remembered == []
    assert rig.ends(_schedule(5, 5, in_step=False))


def test_a_run_whose_client_cannot_say_so_ends_after_a_while() -> None:
    rig = Rig(after_s=60.0)
    rig.pausing.begins(TrainingHistory())
    assert not rig.ends(_schedule(5, 5))
    rig.now_s += 60
    assert rig.ends(_schedule(10, 10))


def test_the_history_knows_each_change_once_and_how_long_it_took() -> None:
    first = {"step": 5, "workers": 3, "before": 1, "pause_s": 4.0}
    second = {"step": 9, "workers": 2, "before": 3, BEGAN: 1093.0}
    rig = Rig(changes=[first, second])
    history = TrainingHistory(resized=[dict(first)])
    rig.pausing.begins(history)
    rig.now_s += 50  # a restart in the same job, with the history from before the change
    again = TrainingHistory()
    rig.pausing.begins(again)
    noted = {"step": 9, "workers": 2, "before": 3, "pause_s": 7.0}
    assert history.resized == again.resized == [first, noted]


def test_clocks_that_differ_make_no_pause_of_less_than_nothing() -> None:
    rig = Rig(changes=[{"step": 5, "workers": 3, "before": 1, BEGAN: 5000.0}])
    history = TrainingHistory()
    rig.pausing.begins(history)
    assert [each["pause_s"] for each in history.resized] == [0.0]


def test_resize_says_what_it_is() -> None:
    with pytest.raises(Resize, match="as many as there are slots for"):
        raise Resize(0)
