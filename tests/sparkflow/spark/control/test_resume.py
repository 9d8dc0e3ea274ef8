"""Runs that resume where others have ended."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.control.attempts.fit_state import FitState
from sparkflow.spark.control.callbacks import Callback, Callbacks
from sparkflow.spark.errors import SparkTrainingError
from sparkflow_runtime.security import Credentials


@pytest.fixture
def crash_at(rig: Any) -> Any:
    """Returns a callback that ends a run once, after the validation of some step."""

    class CrashAt(Callback):
        def __init__(self, step: int) -> None:
            self._step = step
            self._crashed = False

        def on_validation(self, metrics: Any) -> None:
            if metrics["step"] == self._step and not self._crashed:
                self._crashed = True
                raise rig.Crash("the process is gone")

    return CrashAt


def assert_same(first: Any, second: Any) -> None:
    for name, value in first.values.items():
        np.testing.assert_array_equal(value, second.values[name])


@pytest.mark.parametrize("optimizer", [tf.train.AdamOptimizer, tf.train.MomentumOptimizer])
@pytest.mark.parametrize("mode", ["sync", "allreduce"])
def test_an_interrupted_run_ends_as_an_uninterrupted_one_bit_for_bit(
    rig: Any, tmp_path: Path, mode: str, optimizer: Any
) -> None:
    def make() -> Any:
        more = () if optimizer is tf.train.AdamOptimizer else (0.9,)
        return optimizer(0.05, *more)

    rig = rig.but(
        sync_mode=mode,
        gradient_accumulation=2,
        shares=(21, 17),
        epochs=4,
        params={"dropout": 0.4, "optimizer": make},
    )
    whole = rig.train()
    control = {"checkpoint_dir": str(tmp_path), "checkpoint_steps": 4}
    # 13 steps: in the middle of an epoch, with gradients of one batch waiting for the next.
    first = rig.but(**{**control, "max_steps": 13}).train()
    rest = rig.but(**control).train()
    assert first.history.steps == 13
    assert [each["step"] for each in rest.history.checkpoints] == [4, 8, 12, 13, 16, 20, 24]
    assert_same(whole, rest)
    assert rest.history.loss == whole.history.loss
    assert rest.history.steps == whole.history.steps == 24
    assert rest.history.epoch_loss == whole.history.epoch_loss


def test_a_crash_costs_the_steps_since_the_last_checkpoint(
    rig: Any, tmp_path: Path, crash_at: Any
) -> None:
    rig = rig.but(epochs=3, validation=(4, 4), params={"dropout": 0.4})
    whole = rig.train()
    rig = rig.but(checkpoint_dir=str(tmp_path))
    with pytest.raises(rig.Crash):
        rig.but(callbacks=(crash_at(10),)).train()
    (saved,) = tmp_path.iterdir()
    assert saved.name == "checkpoint-000001-step-5"
    recording = rig.Recording()
    rest = rig.but(callbacks=(recording,)).train()
    assert recording.steps == 10
    assert [epoch for epoch, _ in recording.epochs] == [1, 2]
    assert_same(whole, rest)
    assert rest.history.loss == whole.history.loss


@pytest.mark.parametrize("saves", [True, False])
def test_another_attempt_goes_on_and_the_history_tells_of_it(
    rig: Any, tmp_path: Path, crash_at: Any, saves: bool
) -> None:
    rig = rig.but(epochs=3, validation=(4, 4), params={"dropout": 0.4})
    whole = rig.train()
    recording = rig.Recording()
    # A run does not resume from an older run's checkpoint.
    old = rig.but(epochs=1, seed=99, checkpoint_dir=str(tmp_path)).train()
    control = {"checkpoint_dir": str(tmp_path), "resume": "never"} if saves else {}
    result = rig.but(**control, callbacks=(recording, crash_at(10)), restarts=True).train()
    assert_same(whole, result)
    assert result.history.loss == whole.history.loss != old.history.loss
    assert recording.restarts == ["the process is gone"]
    (restart,) = result.history.restarts
    assert restart["reason"] == "the process is gone"
    assert restart["step"] == (5 if saves else 0)
    assert recording.steps == 10 + (10 if saves else 15)


@pytest.mark.parametrize("mode", ["async", "ssp"])
def test_workers_on_their_own_go_on_at_their_places(rig: Any, tmp_path: Path, mode: str) -> None:
    control = {"checkpoint_dir": str(tmp_path), "checkpoint_steps": 3}
    rig = rig.but(sync_mode=mode, staleness=1, shares=(20, 9), **control)
    rig.but(**{**control, "max_steps": 8}).train()
    rest = rig.train()
    assert sum(rest.history.rows) == 58
    assert rest.history.steps == 16


def test_what_is_finished_needs_no_cluster_and_can_be_prolonged(rig: Any, tmp_path: Path) -> None:
    rig = rig.but(checkpoint_dir=str(tmp_path), params={"dropout": 0.4})
    first = rig.train()
    again = rig.train()
    assert not again.trained
    assert_same(first, again)
    assert again.history.loss == first.history.loss
    longer = rig.but(epochs=3).train()
    assert longer.history.steps == 15
    assert_same(rig.but(checkpoint_dir="", epochs=3).train(), longer)


@pytest.mark.parametrize("mode", ["sync", "allreduce"])
def test_another_training_begins_with_the_best_values(rig: Any, tmp_path: Path, mode: str) -> None:
    # With copies, those of all workers.
    workers = 1 if mode == "sync" else 2
    given = {"sync_mode": mode, "num_ps": int(mode == "sync")}
    rig = rig.but(
        model_fn=rig.diverging, shares=(20,) * workers, validation=(4,) * workers, **given
    )
    stopping = rig.but(epochs=50, early_stopping_patience=3, checkpoint_dir=str(tmp_path))
    # The best step is 20, the last one 35.
    assert stopping.train().values["bias"].tolist() == [10.0]
    found = stopping.store().latest().snapshot
    assert found.shared["bias"].tolist() == [17.5]
    for patience in (0, 3):  # the 5 steps of an epoch add 2.5
        plan = rig.but(epochs=1, early_stopping_patience=patience).plan()
        state = FitState(plan, Credentials("token"), Callbacks(()), start=found)
        assert rig.attempt(plan, state)["bias"].tolist() == [12.5]


def test_early_stopping_remembers_its_best_values(rig: Any, tmp_path: Path, crash_at: Any) -> None:
    control = {"checkpoint_dir": str(tmp_path), "early_stopping_patience": 3}
    rig = rig.but(model_fn=rig.diverging, shares=(20,), epochs=50, validation=(4,), **control)
    with pytest.raises(rig.Crash):
        # The best step is 20.
        rig.but(callbacks=(crash_at(30),)).train()
    result = rig.train()
    assert result.history.best_step == 20
    assert result.history.steps == 35
    assert result.values["bias"].tolist() == [10.0]
    again = rig.train()
    assert not again.trained
    assert again.values["bias"].tolist() == [10.0]


def test_resume_never_starts_anew_and_says_what_happens_to_old_ones(
    rig: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    control = {"checkpoint_dir": str(tmp_path), "keep_checkpoint_max": 2}
    first = rig.but(**control).train()
    fresh = {**control, "resume": "never", "max_steps": 3}
    with caplog.at_level(logging.WARNING):
        anew = rig.but(**fresh).train()
    assert anew.history.steps == 3
    assert anew.history.loss == first.history.loss[:3]
    assert "The 2 checkpoints in" in caplog.text
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == [
        "checkpoint-000001-step-5",
        "checkpoint-000002-step-10",
        "checkpoint-000003-step-3",
    ]
    # The newest is that of the newest run, whatever its step.
    assert rig.but(**{**control, "max_steps": 3}).train().history.steps == 3


def test_another_model_is_refused_with_what_differs(rig: Any, tmp_path: Path) -> None:
    control = {"checkpoint_dir": str(tmp_path)}
    rig.but(**control).train()

    def other(features: Any, labels: Any, mode: str, params: Any) -> Any:
        with tf.variable_scope("renamed"):
            tf.get_variable("more", [2])
        return rig.linear(features, labels, mode, params)

    with pytest.raises(
        SparkTrainingError,
        match=r"(?s)of another, finished training.*renamed/more is not in the checkpoint.*'never'",
    ):
        rig.but(**control, model_fn=other).train()


def test_other_rows_go_on_at_the_beginning_of_an_epoch(
    rig: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    control = {"checkpoint_dir": str(tmp_path), "max_steps": 7}
    rig.but(**control).train()
    control = {"checkpoint_dir": str(tmp_path), "resume": "always"}
    with caplog.at_level(logging.WARNING):
        result = rig.but(**control, shares=(8, 8, 8), epochs=3).train()
    assert "at the start of epoch 2" in caplog.text
    assert sum(result.history.rows[7:]) == 2 * 24


def test_checkpoints_by_seconds_halt_a_long_segment(rig: Any, tmp_path: Path) -> None:
    class StopsAfterTwo(rig.Recording):
        def on_train_begin(self, run: Any) -> None:
            self.run = run

        def on_checkpoint(self, path: str) -> None:
            super().on_checkpoint(path)
            if len(self.checkpoints) == 2:
                self.run.stop()

    recording = StopsAfterTwo()
    control = {"checkpoint_dir": str(tmp_path), "checkpoint_seconds": 0.2, "keep_checkpoint_max": 0}
    result = rig.but(epochs=100_000, **control, callbacks=(recording,)).train()
    assert len(recording.checkpoints) >= 2
    steps = [each["step"] for each in result.history.checkpoints]
    assert steps == sorted(set(steps))
    assert steps[-1] == result.history.steps
