"""A training with NaN or infinity stops, reports why, and keeps its last good checkpoint."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.control.finite import non_finite
from sparkflow.spark.errors import NonFiniteError
from sparkflow.spark.storage.checkpoint_files import PathFiles

MODES = {
    "async": {"sync_mode": "async"},
    "sync": {"sync_mode": "sync"},
    "sync with backup": {"sync_mode": "sync", "backup_workers": 1},
    "ssp": {"sync_mode": "ssp", "staleness": 1},
    "allreduce": {"sync_mode": "allreduce"},
    "accumulation": {"sync_mode": "sync", "gradient_accumulation": 2},
}


def diverges(rig: Any, after: int = 0) -> Any:
    """Squares explode with this learning rate; or, from some step on, the loss becomes NaN."""

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        step = tf.train.get_or_create_global_step()
        weights = tf.get_variable("weights", [3, 1], initializer=tf.ones_initializer())
        bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
        prediction = tf.squeeze(tf.matmul(features, weights) + bias, 1)
        loss = tf.reduce_mean(tf.square(prediction - labels))
        rate = 1e6
        if after:
            rate = 0.01
            loss += tf.where(tf.cast(step, tf.float32) >= after, np.nan, 0.0) * weights[0, 0]
        train_op = tf.train.GradientDescentOptimizer(rate).minimize(loss, step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return rig.but(model_fn=model_fn, epochs=40)


@pytest.mark.parametrize("mode", MODES)
def test_training_stops_and_says_where_and_what_helps(rig: Any, mode: str) -> None:
    num_ps = 0 if mode == "allreduce" else 1
    rig = diverges(rig).but(**MODES[mode], num_ps=num_ps)
    with pytest.raises(NonFiniteError) as caught:
        rig.train()
    text = str(caught.value)
    assert re.search(r"The loss \(add:0|The loss \(Mean:0", text), text
    assert re.search(r"is (nan|inf) in step \d+", text), text
    assert "learning rate" in text
    assert "allowNonFinite=True" in text
    assert "There is no checkpoint" in text


def test_the_losses_before_and_the_variables_are_named(rig: Any) -> None:
    with pytest.raises(
        NonFiniteError,
        match=r"in the steps before it was [\d.]+, [\d.e+]+.*not finite by now: weights \(3 ",
    ):
        diverges(rig).train()


@pytest.mark.parametrize("mode", MODES)
def test_variables_that_only_training_has_are_named_too(rig: Any, mode: str) -> None:
    """Variables with a gradient of NaN while the loss is a number; predictions do not need them."""

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        aside = tf.get_variable("aside", [], initializer=tf.zeros_initializer())
        spec = rig.linear(features, labels, mode, params)
        loss = spec.loss + tf.sqrt(aside * aside)
        train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        return spec._replace(loss=loss, train_op=train_op)

    num_ps = 0 if mode == "allreduce" else 1
    with pytest.raises(NonFiniteError, match=r"not finite by now: aside \(1 NaN"):
        rig.but(model_fn=model_fn, **MODES[mode], num_ps=num_ps, epochs=40).train()


def test_no_checkpoint_takes_the_place_of_a_finite_one(rig: Any, tmp_path: Path) -> None:
    control = {"checkpoint_dir": str(tmp_path), "keep_checkpoint_max": 1, "checkpoint_steps": 4}
    with pytest.raises(NonFiniteError) as caught:
        diverges(rig.but(**control), after=9).train()
    found = CheckpointStore(str(tmp_path), 1, PathFiles()).latest()
    assert found is not None
    assert found.path in str(caught.value)
    assert found.snapshot.step == 8
    assert np.isfinite(found.snapshot.shared["weights"]).all()


def test_variables_are_looked_at_where_the_loss_does_not_know(rig: Any, tmp_path: Path) -> None:
    """The last update makes them infinite; no loss is computed from them afterwards."""

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        step = tf.train.get_or_create_global_step()
        weights = tf.get_variable("weights", [3, 1], initializer=tf.zeros_initializer())
        tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
        rate = tf.where(tf.equal(step, 9), np.float32(1e38), np.float32(0.0))
        loss = tf.reduce_mean(tf.matmul(features * 1e3, weights))
        train_op = tf.train.GradientDescentOptimizer(rate).minimize(loss, step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    rig = rig.but(model_fn=model_fn)
    with pytest.raises(NonFiniteError, match=r"After step 10 variables.*: weights \(\d infinite"):
        rig.train()
    control = {"checkpoint_dir": str(tmp_path)}
    with pytest.raises(NonFiniteError, match=r"The last checkpoint, .*step-5, has finite values"):
        rig.but(**control).train()
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint-000001-step-5"]


def test_who_allows_it_gets_it_but_keeps_the_last_finite_checkpoint(
    rig: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    control = {"checkpoint_dir": str(tmp_path), "keep_checkpoint_max": 1, "allow_non_finite": True}
    rig = diverges(rig.but(**control), after=7).but(epochs=4)
    with caplog.at_level(logging.WARNING):
        result = rig.train()
    assert np.isnan(result.values["weights"]).all()
    assert caplog.text.count("allowNonFinite=True, training continues: The loss") == 1
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["checkpoint-000001-step-5", "checkpoint-000004-step-20"]
    # A fit that does not allow it resumes from there.
    with caplog.at_level(logging.WARNING), pytest.raises(NonFiniteError):
        rig.but(**{**control, "allow_non_finite": False}).train()
    assert "step-20 is ignored: weights (3 NaN of 3 elements)" in caplog.text
    assert "continues from step 5" in caplog.text


def test_a_metric_that_is_none_is_no_reason_to_stop(
    rig: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        spec = rig.linear(features, labels, mode, params)
        nothing = tf.metrics.mean(tf.log(-tf.square(labels)))
        return spec._replace(eval_metric_ops={"auc": nothing})

    control = {"early_stopping_patience": 9, "early_stopping_metric": "auc"}
    rig = rig.but(model_fn=model_fn, validation=(4, 4), **control)
    with caplog.at_level(logging.WARNING):
        result = rig.train()
    assert result.trained
    assert result.history.best is None
    assert caplog.text.count("auc of the validation rows is nan after step 5") == 1


def test_a_validation_loss_of_broken_variables_is(rig: Any) -> None:
    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        step = tf.train.get_or_create_global_step()
        weights = tf.get_variable("weights", [3, 1], initializer=tf.zeros_initializer())
        bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.matmul(features, weights)) + tf.reduce_sum(
            bias if mode == "eval" else tf.stop_gradient(bias) * 0.0 + 1.0
        )
        train_op = None
        if mode == "train":
            update = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
            with tf.control_dependencies([update]):
                train_op = tf.assign(bias, [np.nan])
            loss = tf.reduce_mean(features)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with pytest.raises(NonFiniteError, match=r"After step 5 .*bias \(1 NaN of 1 elements\)"):
        rig.but(model_fn=model_fn, validation=(4, 4), epochs=9).train()


def test_what_may_be_infinite() -> None:
    values = {
        "mask": np.array([0.0, -np.inf]),
        "count": np.array([1, 2]),
        "words": np.array([b"a"], object),
        "kernel": np.array([1.0, np.inf], np.float32),
        "turning": np.array([np.nan * 1j], np.complex64),
    }
    assert non_finite(values, ("kernel", "turning")) == [
        "kernel (1 infinite of 2 elements)",
        "turning (1 NaN of 1 elements)",
    ]
