"""Which steps come next."""

from __future__ import annotations

import random

import pytest

from sparkflow.spark.control.schedule import Schedule, Stops
from sparkflow.spark.params.config import FitConfig


def segments(schedule: Schedule) -> list[tuple[int, ...]]:
    found = []
    while (segment := schedule.next_segment()) is not None:
        schedule.advance(segment)
        found.append(segment)
    return found


def test_with_nothing_to_do_between_all_epochs_are_one_segment() -> None:
    assert segments(Schedule((5, 5), 3, True, Stops())) == [(15, 15)]
    assert segments(Schedule((5, 2, 0), 3, False, Stops())) == [(15, 6, 0)]


def test_workers_in_step_halt_at_every_multiple_and_at_epochs() -> None:
    schedule = Schedule((5, 5), 2, True, Stops(every=(3,), at_epochs=True))
    assert [count for count, _ in segments(schedule)] == [3, 2, 1, 3, 1]
    assert schedule.finished


def test_the_most_steps_of_a_worker() -> None:
    assert Schedule((5, 2, 0), 3, False, Stops()).most == 15
    assert Schedule((5, 5), 3, True, Stops(max_steps=7)).most == 7


def test_workers_on_their_own_share_the_steps_and_end_epochs_together() -> None:
    schedule = Schedule((6, 3), 2, False, Stops(every=(5,)))
    done = []
    while (segment := schedule.next_segment()) is not None:
        schedule.advance(segment)
        done.append((schedule.total, tuple(schedule.done)))
    assert done == [(5, (3, 2)), (10, (7, 3)), (15, (10, 5)), (18, (12, 6))]


@pytest.mark.parametrize(("in_step", "steps"), [(True, (7, 7)), (False, (4, 3))])
def test_max_steps_end_training_exactly(in_step: bool, steps: tuple[int, int]) -> None:
    schedule = Schedule((5, 4) if not in_step else (5, 5), 3, in_step, Stops(max_steps=7))
    assert segments(schedule) == [steps]
    assert (schedule.total, schedule.end) == (7, 7)


def test_a_run_goes_on_where_another_has_ended() -> None:
    schedule = Schedule((5, 0, 4), 2, False, Stops(), done=(7, 0, 4))
    assert schedule.positions == ((1, 2), (0, 0), (1, 0))
    assert schedule.epochs_done == 1
    assert segments(schedule) == [(3, 0, 4)]


def test_a_worker_that_was_stopped_ahead_waits_for_the_others_epoch() -> None:
    schedule = Schedule((4, 4), 3, False, Stops(at_epochs=True))
    schedule.advance((6, 1))  # something has stopped the loops
    assert schedule.next_segment() == (0, 3)


def test_whatever_the_periods_all_steps_are_made_once() -> None:
    generator = random.Random(1)
    for _ in range(200):
        steps = [generator.randrange(0, 9) for _ in range(3)] + [1]
        stops = Stops(
            every=tuple(generator.randrange(1, 12) for _ in range(generator.randrange(3))),
            at_epochs=generator.random() < 0.5,
        )
        schedule = Schedule(steps, 3, False, stops)
        for segment in segments(schedule):
            assert min(segment) >= 0
            assert sum(segment) > 0
        assert schedule.done == [3 * each for each in steps]


def test_where_training_halts() -> None:
    assert Stops.of(FitConfig(), False) == Stops()
    assert Stops.of(FitConfig(), True) == Stops(at_epochs=True)
    assert Stops.of(FitConfig(validates=True), False) == Stops(at_epochs=True)
    assert Stops.of(FitConfig(validates=True, validation_steps=4), False) == Stops((4,))
    assert Stops.of(FitConfig(checkpoint_dir="x"), False) == Stops(at_epochs=True)
    assert Stops.of(FitConfig(checkpoint_dir="x", checkpoint_seconds=1.0), False) == Stops()
    assert Stops.of(FitConfig(checkpoint_dir="x", checkpoint_steps=5, max_steps=9), False) == Stops(
        (5,), False, 9
    )
