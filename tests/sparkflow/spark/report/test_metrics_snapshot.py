"""The metrics that all displays show."""

import math
from dataclasses import replace

import pytest

from sparkflow.spark.report.metrics_snapshot import (
    MetricsSnapshot,
    SnapshotTracker,
    describe,
    duration,
)
from tests.sparkflow.spark.report.runs import Clock, FakeRun, whole_run


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tracker(clock: Clock) -> SnapshotTracker:
    return SnapshotTracker(clock)


def test_before_the_first_step_it_is_what_is_waited_for(tracker: SnapshotTracker) -> None:
    tracker.on_waiting("waiting for rows")
    assert describe(tracker.snapshot()) == "waiting for rows"


def test_rates_are_those_of_the_last_seconds(clock: Clock, tracker: SnapshotTracker) -> None:
    run = FakeRun(clock, tracker)
    run.begin()
    for _ in range(20):
        clock.now += 1
        run.step(1.0, waited_s=1.0)
    assert tracker.snapshot().rows_per_s == pytest.approx(3.0)
    assert tracker.snapshot().wait_share == pytest.approx(0.5)
    for _ in range(19):
        clock.now += 0.5
        run.step(1.0)
    snapshot = tracker.snapshot()
    assert snapshot.rows_per_s == pytest.approx(6.0, rel=0.15)
    assert snapshot.wait_share == pytest.approx(0.0, abs=0.06)
    assert snapshot.remaining_s == pytest.approx((120 - snapshot.rows) / snapshot.rows_per_s)


def test_the_loss_follows_slowly_and_forgets_what_is_no_number(
    clock: Clock, tracker: SnapshotTracker
) -> None:
    run = FakeRun(clock, tracker)
    run.begin()
    run.step(4.0, 2.0, 2.0)
    assert tracker.snapshot().loss == pytest.approx((4.0 * 0.95 + 0.1) * 0.95 + 0.1)
    run.step(math.nan)
    run.step(1.0)
    assert tracker.snapshot().loss == 1.0


def test_a_whole_run_in_words(clock: Clock, tracker: SnapshotTracker) -> None:
    whole_run(clock, tracker)
    snapshot = tracker.snapshot()
    assert describe(snapshot) == ("epoch 2/2, step 40/40, loss 2.717, val loss 3, 12 rows/s, done")
    assert snapshot.done == 1.0
    assert snapshot.remaining_s is None
    assert [epoch["loss"] for epoch in snapshot.epoch_rows] == [4.0, 2.0]
    assert [epoch["rows_per_s"] for epoch in snapshot.epoch_rows] == [12.0, 12.0]
    assert [epoch["wait_share"] for epoch in snapshot.epoch_rows] == pytest.approx([0.1, 0.1])


def test_why_training_ended_early_is_said(clock: Clock, tracker: SnapshotTracker) -> None:
    run = FakeRun(clock, tracker)
    run.begin()
    run.step(1.0)
    run.history.stopped = "early stopping: loss was best (0.5) after step 1"
    run.end()
    expected = "done (early stopping: loss was best (0.5) after step 1)"
    assert describe(tracker.snapshot()).endswith(expected)


def test_a_restart_is_counted_and_its_epochs_are_done_again(
    clock: Clock, tracker: SnapshotTracker
) -> None:
    run = FakeRun(clock, tracker)
    run.begin()
    run.step(*[1.0] * 20)
    run.end_epoch(0)
    tracker.on_restart("executor 3 lost\nand more")
    assert describe(tracker.snapshot()) == "starting again: executor 3 lost"
    again = FakeRun(clock, tracker)
    again.begin()
    again.step(*[5.0] * 20)
    again.end_epoch(0)
    snapshot = tracker.snapshot()
    assert "1 restart" in describe(snapshot)
    assert [epoch["loss"] for epoch in snapshot.epoch_rows] == [5.0]
    tracker.on_close()
    assert tracker.snapshot().ended == "failed"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0:00"), (65, "1:05"), (3723, "1:02:03"), (None, ""), (math.inf, "")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_nothing_is_divided_by_nothing() -> None:
    assert MetricsSnapshot().done == 0.0
    assert MetricsSnapshot().remaining_s is None


def test_a_line_has_the_metric_that_decides_and_waiting_that_matters() -> None:
    validation = {"loss": 0.5, "auc": 0.8, "accuracy": 0.7}
    shown = MetricsSnapshot(
        epoch=1, epochs=2, step=3, loss=0.25, rows_per_s=1000.0, validation=validation
    )
    assert describe(shown) == "epoch 1/2, loss 0.25, val loss 0.5, 1,000 rows/s"
    waits = replace(shown, watched="auc", wait_share=0.31)
    assert describe(waits) == ("epoch 1/2, loss 0.25, val auc 0.8, 1,000 rows/s, wait 31%")
    assert "val" not in describe(replace(shown, watched="rmse"))
