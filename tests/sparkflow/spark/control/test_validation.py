"""Validation on the workers, and training that ends when the metric no longer improves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.spark.control.early_stopping import EarlyStopping


def expected_metrics(rig: Any, values: Any) -> dict[str, float]:
    parts = [
        rig.rows_of(count, 100 + worker) for worker, count in enumerate(rig.validation) if count
    ]
    features, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    error = features @ values["weights"].ravel() + values["bias"] - labels
    return {"loss": float(np.mean(error**2)), "absolute": float(np.mean(np.abs(error)))}


@pytest.mark.parametrize("mode", ["async", "sync", "ssp", "allreduce"])
def test_metrics_are_those_of_all_rows_together(rig: Any, mode: str) -> None:
    recording = rig.Recording()
    rig = rig.but(sync_mode=mode, staleness=1, validation=(9, 2), callbacks=(recording,))
    result = rig.train()
    assert len(recording.validations) == 2
    last = recording.validations[-1]
    for name, value in expected_metrics(rig, result.values).items():
        np.testing.assert_allclose(last[name], value, rtol=1e-5)
    assert result.history.validation[-1]["loss"] == last["loss"]
    assert recording.epochs[-1][1]["val_absolute"] == last["absolute"]
    assert last["step"] == result.history.steps


def test_a_worker_without_validation_rows_takes_no_part(rig: Any) -> None:
    recording = rig.Recording()
    rig = rig.but(validation=(0, 5), callbacks=(recording,))
    result = rig.train()
    expected = expected_metrics(rig, result.values)["loss"]
    np.testing.assert_allclose(recording.validations[-1]["loss"], expected, rtol=1e-5)


def test_validation_by_steps_and_at_the_end(rig: Any) -> None:
    recording = rig.Recording()
    control = {"validation_steps": 4}
    rig.but(validation=(9, 2), callbacks=(recording,), **control).train()
    assert [each["step"] for each in recording.validations] == [4, 8, 10]


def test_validation_changes_nothing_in_training(rig: Any) -> None:
    rig = rig.but(params={"dropout": 0.3})
    plain, validated = rig.train(), rig.but(validation=(9, 2)).train()
    assert plain.history.loss == validated.history.loss
    for name, value in plain.values.items():
        np.testing.assert_array_equal(value, validated.values[name])


@pytest.mark.parametrize("metric", ["loss", "-closeness"])
def test_the_best_values_come_back(rig: Any, metric: str) -> None:
    control = {"early_stopping_patience": 2, "early_stopping_metric": metric}
    recording = rig.Recording()
    result = rig.but(
        model_fn=rig.diverging,
        shares=(20,),
        epochs=50,
        validation=(4,),
        **control,
        callbacks=(recording,),
    ).train()
    # 0.5 per step, so 10 is passed after 20 steps: at the end of epoch 4.
    assert result.values["bias"].tolist() == [10.0]
    assert result.history.best_step == 20
    assert result.history.steps == 30
    assert result.history.stopped.startswith("early stopping")
    assert len(recording.validations) == 6


def test_less_than_min_delta_does_not_count() -> None:
    watch = EarlyStopping("loss", 2, 0.1)
    assert [watch.update(value, 0) for value in (1.0, 0.95, 0.8)] == [True, False, True]
    assert not watch.update(float("nan"), 0)
    assert not watch.exhausted
    assert not watch.update(0.75, 0)
    assert watch.exhausted
    other = EarlyStopping("loss", 2, 0.1)
    other.restore(watch.to_json())
    assert other.exhausted
    assert other.best == 0.8


def test_nan_is_never_the_best() -> None:
    watch = EarlyStopping("-auc", 1)
    assert not watch.update(float("nan"), 1)
    assert watch.update(0.5, 2)
    assert watch.update(0.6, 3)
    assert (watch.best, watch.best_step) == (0.6, 3)
