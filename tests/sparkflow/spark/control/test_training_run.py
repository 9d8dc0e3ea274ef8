"""Runs from beginning to end in every mode, with workers in threads of this process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.control.callbacks import Callback
from sparkflow.spark.errors import SparkTrainingError

MODES = {
    "async": {"sync_mode": "async"},
    "sync": {"sync_mode": "sync"},
    "backup": {"sync_mode": "sync", "backup_workers": 1},
    "ssp": {"sync_mode": "ssp", "staleness": 1},
    "allreduce": {"sync_mode": "allreduce"},
}


@pytest.mark.parametrize("shares", [(20, 20), (21, 9), (17, 0)], ids=str)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_every_row_counts_once_per_epoch_in_every_mode(rig: Any, mode: Any, shares: Any) -> None:
    if "backup_workers" in mode and not all(shares):
        shares = (17, 1)  # in a step that needs one worker, the one with rows may be late
    result = rig.but(**mode, shares=shares).train()
    assert sum(result.history.rows) == 2 * sum(shares)
    assert result.history.epochs == 2
    assert all(np.isfinite(value).all() for value in result.values.values())
    assert not np.allclose(result.values["bias"], 0)


def reference(rig: Any, num_updates: int, accumulated: int = 1) -> tuple[Any, list[float]]:
    """Weights and losses of one process that gets the batches of all workers as one."""
    count = len(rig.shares)
    steps = -(-max(rig.shares) // rig.config.batch_size)
    sources = [
        rig.PlanSource(
            rig.rows(worker),
            rig.config.batch_size,
            rig.config.epochs,
            steps,
            seed=10 * rig.config.seed + worker,
        )
        for worker in range(count)
    ]
    parameters, velocity = np.array(rig.params["initial"], np.float64), np.zeros(4)
    losses = []
    for _ in range(num_updates):
        features, labels = np.zeros((0, 4)), np.zeros(0)
        for _ in range(accumulated):
            at = len(labels)
            for source in sources:
                x, y, _, rows = source.next_batch()
                if rows:
                    x = np.concatenate([x, np.ones((len(x), 1))], 1)
                    features, labels = np.concatenate([features, x]), np.concatenate([labels, y])
            error = features[at:] @ parameters - labels[at:]
            losses.append(float(np.mean(error**2)))
        error = features @ parameters - labels
        velocity = 0.9 * velocity + features.T @ error * 2 / len(labels)
        parameters = parameters - 0.05 * velocity
    return parameters, losses


def starting_at(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """The linear model with known initial values."""
    first = np.array(params["initial"], np.float32)
    with tf.variable_scope("", initializer=tf.zeros_initializer()):
        weights = tf.get_variable("weights", initializer=first[:3, None])
        bias = tf.get_variable("bias", initializer=first[3:])
    loss = tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(features, weights) + bias, 1) - labels))
    optimizer = tf.train.MomentumOptimizer(0.05, 0.9)
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.mark.parametrize("shares", [(20, 20), (21, 9), (17, 0)], ids=str)
@pytest.mark.parametrize("mode", ["sync", "allreduce"])
def test_in_step_training_is_that_of_one_process(rig: Any, mode: str, shares: Any) -> None:
    rig = rig.but(
        sync_mode=mode,
        shares=shares,
        model_fn=starting_at,
        params={"initial": [0.5, -0.5, 0.25, 0.1]},
    )
    result = rig.train()
    expected, losses = reference(rig, 2 * -(-max(shares) // 4))
    found = np.concatenate([result.values["weights"].ravel(), result.values["bias"]])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(result.history.loss, losses, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["sync", "allreduce"])
def test_accumulated_gradients_make_the_update_of_one_large_batch(rig: Any, mode: str) -> None:
    rig = rig.but(
        sync_mode=mode,
        gradient_accumulation=2,
        shares=(16, 9),
        model_fn=starting_at,
        params={"initial": [0.5, -0.5, 0.25, 0.1]},
    )
    result = rig.train()
    expected, losses = reference(rig, 4, accumulated=2)
    found = np.concatenate([result.values["weights"].ravel(), result.values["bias"]])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(result.history.loss, losses, rtol=1e-5, atol=1e-6)


def test_copies_of_the_variables_stay_equal(rig: Any) -> None:
    class Compares(Callback):
        def on_train_begin(self, run: Any) -> None:
            self.run = run

        def on_train_end(self, history: Any) -> None:
            nodes = self.run._plan.graph.state.shared.values()
            names = [each.value for each in nodes]
            self.copies = [each.run(names, {}, []) for each in self.run._replicas._sessions]

    compares = Compares()
    mode = {"sync_mode": "allreduce", "gradient_accumulation": 2}
    params = {"dropout": 0.4, "optimizer": lambda: tf.train.AdamOptimizer(0.05)}
    rig.but(**mode, shares=(21, 9, 1), params=params, callbacks=(compares,)).train()
    assert len(compares.copies) == 3
    for copy in compares.copies[1:]:
        for first, value in zip(compares.copies[0], copy, strict=True):
            np.testing.assert_array_equal(first, value)


@pytest.mark.parametrize("mode", ["async", "ssp"])
def test_every_mode_accumulates(rig: Any, mode: str) -> None:
    """One worker, so that the result is known."""
    rig = rig.but(
        sync_mode=mode,
        gradient_accumulation=2,
        staleness=1,
        shares=(16,),
        model_fn=starting_at,
        params={"initial": [0.5, -0.5, 0.25, 0.1]},
    )
    result = rig.train()
    expected, _ = reference(rig, 4, accumulated=2)
    found = np.concatenate([result.values["weights"].ravel(), result.values["bias"]])
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_max_steps_end_training_in_every_mode(rig: Any, mode: Any) -> None:
    result = rig.but(**mode, max_steps=7).train()
    assert result.history.steps == 7
    assert result.history.stopped == "maxSteps"


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_callback_stops_training_in_the_middle_of_a_segment(rig: Any, mode: Any) -> None:
    class Stops(Callback):
        def on_train_begin(self, run: Any) -> None:
            self.run = run

        def on_steps(self, update: Any) -> None:
            self.run.stop("enough")

    recording = rig.Recording()
    result = rig.but(**mode, epochs=20_000, callbacks=(Stops(), recording)).train()
    assert 0 < result.history.steps < 100_000
    assert result.history.stopped == "enough"
    assert recording.ended
    assert recording.steps == result.history.steps


def test_epochs_are_told_while_steps_go_on_and_callbacks_can_ask_for_quiet(rig: Any) -> None:
    class Looks(rig.Recording):
        needs_epochs = True

        def on_train_begin(self, run: Any) -> None:
            self.run = run
            self.seen: list[Any] = []

        def on_epoch_end(self, epoch: int, metrics: Any) -> None:
            super().on_epoch_end(epoch, metrics)
            self.seen.append(self.run.values()["bias"])

    recording, looking = rig.Recording(), Looks()
    without = rig.but(callbacks=(recording,), epochs=3).train()
    result = rig.but(callbacks=(looking,), epochs=3).train()
    assert [epoch for epoch, _ in recording.epochs] == [0, 1, 2]
    assert recording.epochs == looking.epochs
    assert [each["loss"] for _, each in looking.epochs] == result.history.epoch_loss
    np.testing.assert_array_equal(looking.seen[2], result.values["bias"])
    assert not np.array_equal(looking.seen[1], looking.seen[2])
    for name, value in without.values.items():
        np.testing.assert_array_equal(value, result.values[name])


def test_data_that_end_early_are_an_error(rig: Any) -> None:
    class Short(type(rig)):  # type: ignore[misc]
        def rows(self, worker: int) -> Any:
            features, labels = super().rows(worker)
            return features[:8], labels[:8]

    short = Short().but(sync_mode="async")
    with pytest.raises(SparkTrainingError, match=r"worker task \d ended after 4 of 10 steps"):
        short.train()
