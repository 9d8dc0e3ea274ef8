"""How reports of workers become a history."""

import json

import numpy as np
import pytest

from sparkflow.spark.control.callbacks import Update
from sparkflow.spark.control.recorder import HistoryRecorder


def _add(
    recorder: HistoryRecorder, worker: int, losses: list[float], weights: list[float]
) -> Update:
    return recorder.add(worker, np.float32(losses), np.float32(weights), 0.5)


def test_async_steps_stand_alone() -> None:
    recorder = HistoryRecorder(6, range(2), sync=False)
    assert _add(recorder, 1, [4.0, 2.0], [2, 1]).num_steps == 2
    update = _add(recorder, 0, [1.0], [3])
    assert (update.first_step, update.worker, update.waited_s) == (2, 0, 0.5)
    history = recorder.history
    assert history.loss == [4.0, 2.0, 1.0]
    assert history.rows == [2, 1, 3]
    assert history.worker == [1, 1, 0]
    assert history.steps == 3
    assert history.waited_seconds == 1.0
    assert history.epoch_loss == [(8 + 2 + 3) / 6]


def test_sync_steps_are_averaged_over_the_rows_of_all_workers() -> None:
    recorder = HistoryRecorder(6, range(2), sync=True)
    assert _add(recorder, 0, [1.0, 5.0], [2, 2]).num_steps == 0
    assert recorder.history.steps == 0
    # A worker that takes part without rows does not count, even if its loss is NaN.
    update = _add(recorder, 1, [4.0, float("nan")], [1, 0])
    assert list(update.losses) == [2.0, 5.0]
    assert list(update.rows) == [3, 2]
    assert update.waited_s == 1.0
    assert recorder.history.loss == [2.0, 5.0]
    assert recorder.history.rows == [3, 2]
    assert recorder.history.worker == [-1, -1]


def test_time_counts_from_the_start_and_goes_on_in_a_history_that_is_continued() -> None:
    now = 100.0
    recorder = HistoryRecorder(6, range(1), sync=False, clock=lambda: now)
    recorder.start()
    now = 102.0
    recorder.start()
    _add(recorder, 0, [1.0], [3])
    assert recorder.history.time == [2.0]
    now = 500.0
    later = HistoryRecorder(6, range(1), False, history=recorder.history, clock=lambda: now)
    later.start()
    now = 501.0
    _add(later, 0, [2.0], [3])
    _add(later, 0, [3.0], [6])
    assert later.history.time == [2.0, 3.0, 3.0]
    assert later.history.seconds == 3.0
    assert later.history.epoch_loss == [1.5, 3.0]


def test_long_histories_are_thinned_and_their_epochs_stay_exact() -> None:
    rng = np.random.default_rng(3)
    losses = rng.random(1000).astype(np.float32)
    rows = rng.integers(1, 9, 1000)
    recorder = HistoryRecorder(700, range(1), sync=False, max_entries=16)
    for start in range(0, 1000, 7):
        _add(recorder, 0, list(losses[start : start + 7]), list(rows[start : start + 7]))
    history = recorder.history
    assert history.steps == 1000
    assert history.steps_per_entry == 64
    assert len(history.loss) == len(history.rows) == len(history.worker) == len(history.time) == 16
    assert sum(history.rows) == rows.sum()
    assert history.step[:3] == [0, 64, 128]
    assert history.loss[1] == pytest.approx(np.average(losses[64:128], weights=rows[64:128]))
    epoch = (np.cumsum(rows) - rows) // 700
    sums = np.bincount(epoch, losses.astype(float) * rows)
    assert history.epoch_loss == pytest.approx(sums / np.bincount(epoch, rows), rel=1e-12)


def test_the_longest_history_is_small() -> None:
    recorder = HistoryRecorder(10**6, range(2), sync=False)
    losses = np.random.default_rng(1).random(20_000).astype(np.float32)
    recorder.add(1, losses, np.full(20_000, 128, np.float32), 0.1)
    assert len(json.dumps(recorder.history.to_dict())) < 1_000_000


def test_entries_of_several_workers_belong_to_none() -> None:
    recorder = HistoryRecorder(100, range(2), sync=False, max_entries=2)
    for worker, loss in ((0, 1.0), (0, 2.0), (0, 3.0), (1, 4.0)):
        _add(recorder, worker, [loss], [1])
    assert recorder.history.worker == [0, -1]
    assert recorder.history.loss == [1.5, 3.5]


def test_validation_and_restarts_know_step_and_time() -> None:
    recorder = HistoryRecorder(6, range(2), sync=True, clock=lambda: 7.0)
    _add(recorder, 0, [1.0, 9.0], [3, 3])
    _add(recorder, 1, [2.0], [3])
    recorder.add_validation({"loss": 0.5, "accuracy": 0.75})
    recorder.add_restart("executor lost")
    history = recorder.history
    assert history.validation == [{"step": 1.0, "time": 0.0, "loss": 0.5, "accuracy": 0.75}]
    restart = {"step": 1, "time": 0.0, "reason": "executor lost", "undone_steps": 0}
    assert history.restarts == [restart]
    # The step that one worker had made alone is repeated.
    _add(recorder, 0, [4.0], [3])
    assert _add(recorder, 1, [6.0], [3]).losses == [5.0]
