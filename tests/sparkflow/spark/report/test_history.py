"""Losses per step and per epoch."""

import json

import numpy as np

from sparkflow.spark.report.history import HistoryRecorder, TrainingHistory


def _add(recorder: HistoryRecorder, worker: int, losses: list[float], weights: list[float]) -> int:
    return recorder.add(worker, np.float32(losses), np.float32(weights), 0.5)


def test_async_steps_stand_alone() -> None:
    recorder = HistoryRecorder(6, range(2), sync=False)
    assert _add(recorder, 1, [4.0, 2.0], [2, 1]) == 2
    assert _add(recorder, 0, [1.0], [3]) == 1
    history = recorder.history
    assert history.loss == [4.0, 2.0, 1.0]
    assert history.rows == [2, 1, 3]
    assert history.worker == [1, 1, 0]
    assert history.waited_seconds == 1.0
    assert history.epoch_loss == [(8 + 2 + 3) / 6]


def test_sync_steps_are_averaged_over_the_rows_of_all_workers() -> None:
    recorder = HistoryRecorder(6, range(2), sync=True)
    assert _add(recorder, 0, [1.0, 5.0], [2, 2]) == 0
    assert recorder.history.steps == 0
    # A worker that only keeps step does not count, even if its loss is no number.
    assert _add(recorder, 1, [4.0, float("nan")], [1, 0]) == 2
    assert recorder.history.loss == [2.0, 5.0]
    assert recorder.history.rows == [3, 2]
    assert recorder.history.worker == [-1, -1]


def test_epochs_are_counted_by_rows() -> None:
    history = TrainingHistory(
        loss=[3.0, 1.0, 8.0, 2.0], rows=[4, 2, 4, 2], worker=[0] * 4, rows_per_epoch=6
    )
    assert history.epoch_loss == [(12 + 2) / 6, (32 + 4) / 6]
    assert TrainingHistory().epoch_loss == []


def test_a_history_survives_json() -> None:
    history = TrainingHistory([0.5], [3], [0], 3, 1.5, 0.25)
    assert TrainingHistory.from_dict(json.loads(json.dumps(history.to_dict()))) == history
