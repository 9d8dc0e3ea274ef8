"""Every kind of step in every mode, compared with one process that makes the same steps."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.data.schema.row_format import TRAIN_DATA
from sparkflow.spark.graphs.replication import strategy_for
from sparkflow.spark.params.config import FitConfig
from tests.sparkflow.train.step_programs import PROGRAMS, RANDOM, SKIPPING, by_day

SHARE, EPOCHS, STEPS = 20, 2, 10
MODES = {
    "async": {"sync_mode": "async"},
    "sync": {"sync_mode": "sync"},
    "backup": {"sync_mode": "sync", "backup_workers": 1},
    "ssp": {"sync_mode": "ssp", "staleness": 1},
    "allreduce": {"sync_mode": "allreduce"},
}


@dataclass
class Source:
    """The same batches for every user, exactly as many as there are steps."""

    rig: Any

    def __post_init__(self) -> None:
        self._source = self.rig.PlanSource(self.rig.rows_of(SHARE), 4, EPOCHS, seed=1)

    def next_batch(self) -> Any:
        return self._source.next_batch()

    def close(self) -> None:
        self._source.close()


def train(rig: Any, name: str, mode: dict[str, Any], num_workers: int) -> Any:
    """The result of workers that all have the same rows, with the values of all variables."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss, train_op = PROGRAMS[name](features, labels)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    class SameRows(type(rig)):  # type: ignore[misc]  # of the conftest, which is no module
        def plan(self) -> Any:
            plan = super().plan()
            return replace(plan, fetch=plan.graph.variables)

        def feed(self, cluster: Any, plan: Any, positions: Any) -> None:
            for worker in range(num_workers):
                cluster.server("worker", worker).resources.put("", TRAIN_DATA, Source(self))

    given = {each: getattr(rig, each) for each in ("config", "params")}
    shares = (SHARE,) * num_workers
    made = SameRows(model_fn=model_fn, shares=shares, **given)
    return made.but(**mode, epochs=EPOCHS, num_ps=2, stall_timeout=20.0).train()


@functools.cache
def alone(rig_type: Any, name: str, batches: int) -> tuple[dict[str, Any], list[str]]:
    """The variables after the same steps of one session, and the names of the trained ones."""
    source = Source(rig_type)
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(3)
        x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None])
        mode = {"gradient_accumulation": batches}
        rows = tf.cast(tf.size(y), tf.float32)
        with strategy_for(FitConfig(**mode), graph, rows, 1).scope():
            _, train_op = PROGRAMS[name](x, y)
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for _ in range(STEPS):
                features, labels, *_ = source.next_batch()
                session.run(train_op, {x: features, y: labels})
            found = session.run({each.op.name: each for each in tf.global_variables()})
            return found, [each.op.name for each in tf.trainable_variables()]


def assert_equal(found: Any, expected: Any, names: Any) -> None:
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], 1e-5, 1e-6, err_msg=name)


@pytest.mark.parametrize("name", by_day())
@pytest.mark.parametrize("mode", MODES)
def test_two_workers_make_their_steps_of_two_batches(rig: Any, mode: str, name: str) -> None:
    make_their_steps(rig, mode, name, 2)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mode", ["async", "sync", "allreduce"])
def test_two_workers_make_their_steps(rig: Any, mode: str, name: str) -> None:
    make_their_steps(rig, mode, name, 1)


@pytest.mark.parametrize("name", by_day())
@pytest.mark.parametrize("mode", ["backup", "ssp"])
def test_two_workers_make_those_that_are_dropped_or_wait(rig: Any, mode: str, name: str) -> None:
    make_their_steps(rig, mode, name, 1)


def make_their_steps(rig: Any, mode: str, name: str, batches: int) -> None:
    result = train(rig, name, {**MODES[mode], "gradient_accumulation": batches}, 2)
    expected, trained = alone(type(rig), name, batches)
    assert sum(result.history.rows) == 2 * SHARE * EPOCHS
    assert set(result.values) >= set(expected)
    assert all(np.isfinite(value).all() for value in result.values.values())
    updates = int(result.values["global_step"])
    if mode == "backup":
        assert updates <= 2 * expected["global_step"]
        assert name in SKIPPING or updates >= expected["global_step"]
    else:
        assert updates == expected["global_step"] * (1 if FitConfig(**MODES[mode]).in_step else 2)
    if name in RANDOM or mode not in ("sync", "allreduce"):
        return
    # State written in addition to the update is written by both workers if they share it.
    assert_equal(result.values, expected, trained if mode == "sync" else expected)


@pytest.mark.parametrize("name", by_day())
@pytest.mark.parametrize("mode", ["async", "ssp", "sync", "allreduce"])
def test_one_worker_makes_those_of_one_process(rig: Any, mode: str, name: str) -> None:
    result = train(rig, name, MODES[mode], 1)
    expected, _ = alone(type(rig), name, 1)
    assert result.history.steps == STEPS
    assert_equal(result.values, expected, expected)


def test_dropout_differs_between_workers_in_loops_and_branches_too(rig: Any) -> None:
    result = train(rig, "dropout_in_a_loop", MODES["sync"], 2)
    expected, _ = alone(type(rig), "dropout_in_a_loop", 1)
    assert not np.allclose(result.values["dense/kernel"], expected["dense/kernel"], atol=1e-4)
