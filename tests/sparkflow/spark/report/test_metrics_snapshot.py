"""The figures that all displays show."""

import math

import pytest

from sparkflow.spark.report.metrics_snapshot import Figures, FiguresTracker, describe, duration
from tests.sparkflow.spark.report.runs import Clock, FakeRun, whole_run


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tracker(clock: Clock) -> FiguresTracker:
    return FiguresTracker(clock)


def test_before_the_first_step_it_is_what_is_waited_for(tracker: FiguresTracker) -> None:
    tracker.on_waiting("waiting for rows")
    assert describe(tracker.figures()) == "waiting for rows"


def test_rates_are_those_of_the_last_seconds(clock: Clock, tracker: FiguresTracker) -> None:
    run = FakeRun(clock, tracker)
    run.begin()
    for _ in range(20):
        clock.now += 1
        run.step(1.0, waited_s=1.0)
    assert tracker.figures().rows_per_s == pytest.approx(3.0)
    assert tracker.figures().wait_share == pytest.approx(0.5)
    for _ in range(19):
        clock.now += 0.5
        run.step(1.0)
    figures = tracker.figures()
    assert figures.rows_per_s == pytest.approx(6.0, rel=0.15)
    assert figures.wait_share == pytest.approx(0.0, abs=0.06)
    assert figures.remaining_s == pytest.approx((120 - figures.rows) / figures.rows_per_s)


def test_the_loss_follows_slowly_and_forgets_what_is_no_number(
    clock: Clock, tracker: FiguresTracker
) -> None:
    run = FakeRun(clock, tracker)
    run.begin()
    run.step(4.0, 2.0, 2.0)
    assert tracker.figures().loss == pytest.approx((4.0 * 0.95 + 0.1) * 0.95 + 0.1)
    run.step(math.nan)
    run.step(1.0)
    assert tracker.figures().loss == 1.0


def test_a_whole_run_in_words(clock: Clock, tracker: FiguresTracker) -> None:
    whole_run(clock, tracker)
    figures = tracker.figures()
    assert describe(figures) == (
        "epoch 2/2, step 40/40, loss 2.717, 12 rows/s, wait 10%, val loss 3, val accuracy 0.75, "
        "done"
    )
    assert figures.done == 1.0
    assert figures.remaining_s is None
    assert [epoch["loss"] for epoch in figures.epoch_rows] == [4.0, 2.0]
    assert [epoch["rows_per_s"] for epoch in figures.epoch_rows] == [12.0, 12.0]
    assert [epoch["wait_share"] for epoch in figures.epoch_rows] == pytest.approx([0.1, 0.1])


def test_why_training_ended_early_is_said(clock: Clock, tracker: FiguresTracker) -> None:
    run = FakeRun(clock, tracker)
    run.begin()
    run.step(1.0)
    run.history.stopped = "early stopping: loss was best (0.5) after step 1"
    run.end()
    expected = "done (early stopping: loss was best (0.5) after step 1)"
    assert describe(tracker.figures()).endswith(expected)


def test_a_restart_is_counted_and_its_epochs_are_done_again(
    clock: Clock, tracker: FiguresTracker
) -> None:
    run = FakeRun(clock, tracker)
    run.begin()
    run.step(*[1.0] * 20)
    run.end_epoch(0)
    tracker.on_restart("executor 3 lost\nand more")
    assert describe(tracker.figures()) == "starting again: executor 3 lost"
    again = FakeRun(clock, tracker)
    again.begin()
    again.step(*[5.0] * 20)
    again.end_epoch(0)
    figures = tracker.figures()
    assert "1 restart" in describe(figures)
    assert [epoch["loss"] for epoch in figures.epoch_rows] == [5.0]
    tracker.on_close()
    assert tracker.figures().ended == "failed"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0:00"), (65, "1:05"), (3723, "1:02:03"), (None, ""), (math.inf, "")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_nothing_is_divided_by_nothing() -> None:
    assert Figures().done == 0.0
    assert Figures().remaining_s is None
