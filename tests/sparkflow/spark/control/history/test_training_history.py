"""What a history contains about its entries, epochs, validation and waiting."""

import copy
import json

import pytest

from sparkflow.spark.control.history.training_history import TrainingHistory


def _history() -> TrainingHistory:
    history = TrainingHistory(rows_per_epoch=6, num_workers=2)
    history.loss = [3.0, 1.0, 8.0, 2.0]
    history.rows = [4, 2, 4, 2]
    history.worker = [0, 1, 0, 1]
    history.time = [0.5, 1.0, 2.0, 3.0]
    history.steps = 4
    for loss, rows, before, time_s in zip(
        history.loss, history.rows, [0, 4, 6, 10], history.time, strict=True
    ):
        history.count_epoch(before, loss, rows, time_s, 0.25)
    history.seconds = 3.0
    history.waited_seconds = 1.0
    return history


def test_epochs_are_counted_by_rows() -> None:
    history = _history()
    assert history.epoch_loss == [(12 + 2) / 6, (32 + 4) / 6]
    assert history.epochs == 2.0
    assert TrainingHistory().epoch_loss == []


def test_a_step_over_the_end_of_an_epoch_belongs_to_the_one_that_it_begins_in() -> None:
    history = TrainingHistory(rows_per_epoch=6)
    for before, loss in ((0, 1.0), (4, 2.0), (8, 3.0)):
        history.count_epoch(before, loss, 4, 0.0, 0.0)
    history.count_epoch(12, 9.0, 0, 0.0, 0.0)  # a step without rows starts no epoch
    assert history.epoch_rows == [8, 4]
    assert history.epoch_loss == [1.5, 3.0]


def test_rates_are_those_of_all_workers() -> None:
    history = _history()
    assert history.rows_per_second == 4.0
    assert history.wait_share == pytest.approx(1 / 6)
    # 0.5 s of the two workers' 1 s, then of their 2 s.
    assert history.epoch_wait_share == [0.25, 0.125]
    assert TrainingHistory().rows_per_second == 0.0
    assert TrainingHistory().wait_share == 0.0


def test_a_history_survives_json() -> None:
    history = _history()
    history.validation.append({"step": 4.0, "time": 3.0, "loss": 0.5, "accuracy": 1.0})
    history.restarts.append({"step": 2, "time": 1.5, "reason": "executor lost"})
    assert TrainingHistory.from_dict(json.loads(json.dumps(history.to_dict()))) == history
    # Written by a newer version, with an entry unknown to this one.
    assert TrainingHistory.from_dict({**history.to_dict(), "later": 1}) == history


def test_a_history_of_the_first_version_is_understood() -> None:
    old = {"loss": [3.0, 1.0], "rows": [4, 2], "worker": [0, 1], "rows_per_epoch": 6}
    history = TrainingHistory.from_dict({**old, "seconds": 1.5, "waited_seconds": 0.25})
    assert history.steps == 2
    assert history.epoch_loss == [14 / 6]
    assert history.num_workers == 2


def test_frames_have_a_line_per_entry_and_per_epoch() -> None:
    history = _history()
    history.validation += [
        {"step": 2.0, "time": 1.0, "loss": 0.5, "accuracy": 0.25},
        {"step": 4.0, "time": 3.5, "loss": 0.25, "accuracy": 0.75},
    ]
    steps = history.to_pandas()
    assert list(steps["step"]) == [0, 1, 2, 3]
    assert list(steps["epoch"]) == pytest.approx([0, 4 / 6, 1, 10 / 6])
    epochs = history.epochs_to_pandas()
    assert list(epochs["loss"]) == history.epoch_loss
    assert list(epochs["rows_per_second"]) == [6.0, 3.0]
    assert list(epochs["val_accuracy"]) == [0.25, 0.75]
    assert len(TrainingHistory().to_pandas()) == len(TrainingHistory().epochs_to_pandas()) == 0


def test_what_a_history_is_made_of_stays_as_it_was() -> None:
    """Two attempts may start from the same snapshot, after the first of them has continued."""
    history = TrainingHistory(rows_per_epoch=4)
    history.count_epoch(0, 1.0, 4, 0.1, 0.0)
    history.restarts.append({"step": 1})
    values = history.to_dict()
    before = copy.deepcopy(values)
    again = TrainingHistory.from_dict(values)
    again.count_epoch(4, 0.5, 4, 0.2, 0.0)
    again.restarts[0]["step"] = 2
    assert values == before
    assert TrainingHistory.from_dict(values).epoch_loss == [1.0]
