"""Optimizers, schedules, decay and clipping: the effect of one step, computed by hand."""

import math
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark import SparkDNNClassifier, SparkLinearClassifier
from sparkflow.spark.estimators.optimizers import OPTIMIZERS, Schedule, Stepping
from sparkflow.spark.graphs.replication import strategy_for
from sparkflow.spark.params.config import FitConfig

pytestmark = pytest.mark.spark  # pyspark.ml's Params need no session, but pyspark

START = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)


def loss_step(stepping: Stepping) -> tuple[Any, list[Any]]:
    """Returns a step for a matrix, a bias (gradients 3 and 4 everywhere) and a table; and these."""
    matrix = tf.get_variable("kernel", initializer=tf.constant(START))
    bias = tf.get_variable("bias", initializer=tf.constant([1.0, 1.0]))
    table = tf.get_variable("embedding_weights", initializer=tf.constant(START))
    loss = 3 * tf.reduce_sum(matrix) + 4 * tf.reduce_sum(bias)
    loss += 0.0 * tf.reduce_sum(tf.nn.embedding_lookup(table, [0]))
    counter = tf.train.get_or_create_global_step()
    return stepping.minimize(loss, counter, tf.trainable_variables()), [matrix, bias, table]


def weights_after(stepping: Stepping, steps: int = 1) -> Any:
    """The values of matrix, bias and table by step."""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        step, variables = loss_step(stepping)
        session.run(tf.global_variables_initializer())
        found = []
        for _ in range(steps):
            session.run(step)
            found.append(session.run(variables))
        assert session.run(tf.train.get_global_step()) == steps
        return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_steps_against_the_gradient(name: str) -> None:
    matrix, bias, _ = weights_after(Stepping(name, 0.01))[0]
    assert np.all(bias < 1)
    if name != "Ftrl":  # which first forgets the initial values
        assert np.all(matrix < START)


@pytest.mark.parametrize("name", [each for each in OPTIMIZERS if "weightDecay" in OPTIMIZERS[each]])
def test_decay_makes_matrices_smaller_and_nothing_else(name: str) -> None:
    plain, with_decay = (
        weights_after(Stepping(name, 0.01, weight_decay=each))[0] for each in (0.0, 2.0)
    )
    np.testing.assert_allclose(with_decay[0], plain[0] - 0.01 * 2.0 * START, rtol=1e-5)
    for index in (1, 2):
        np.testing.assert_array_equal(with_decay[index], plain[index])


@pytest.mark.parametrize(("nesterov", "last"), [(False, 1.5), (True, 1.75)])
def test_momentum_goes_on(nesterov: bool, last: float) -> None:
    stepping = Stepping("SGD", 0.01, momentum=0.5, nesterov=nesterov)
    first, second = weights_after(stepping, 2)
    np.testing.assert_allclose(first[1] - second[1], 0.01 * 4 * last, rtol=1e-4)


def test_gradients_are_clipped_by_their_common_norm() -> None:
    norm = math.sqrt(4 * 9 + 2 * 16)
    matrix, bias, _ = weights_after(Stepping("SGD", 1.0, clip_norm=1.0))[0]
    np.testing.assert_allclose(START - matrix, 3 / norm, rtol=1e-5)
    np.testing.assert_allclose(1 - bias, 4 / norm, rtol=1e-5)
    matrix, _, _ = weights_after(Stepping("SGD", 1.0, clip_norm=100.0))[0]
    np.testing.assert_allclose(START - matrix, 3.0, rtol=1e-5)


PIECES = ((0.5, 0.1), (0.75, 0.0))
SCHEDULES = {
    "constant": (Schedule("constant", steps=8), lambda t: 1.0),
    "cosine": (
        Schedule("cosine", 0.1, steps=8),
        lambda t: 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * t / 8)),
    ),
    "exponential": (Schedule("exponential", 0.1, steps=8), lambda t: 0.1 ** (t / 8)),
    "piecewise": (
        Schedule("piecewise", pieces=PIECES, steps=8),
        lambda t: 1.0 if t < 4 else 0.1 if t < 6 else 0.0,
    ),
    "warmup": (Schedule("constant", warmup=0.5, steps=8), lambda t: min((t + 1) / 4, 1.0)),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("first", [0, 100])
def test_schedules_go_from_the_first_step_to_the_last(name: str, first: int) -> None:
    given, expected = SCHEDULES[name]
    schedule = Schedule(given.kind, given.end, given.pieces, given.warmup, first, given.steps)
    rates = []
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        counter = tf.train.get_or_create_global_step()
        rate = tf.convert_to_tensor(schedule.rate(0.5))
        for step in range(8):
            session.run(counter.assign(first + step))
            rates.append(session.run(rate))
    np.testing.assert_allclose(rates, [0.5 * expected(step) for step in range(8)], atol=1e-6)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"momentum": 0.9}, "momentum=0.9 has no effect with optimizer='AdamW'; RMSProp, SGD take"),
        ({"optimizer": "SGD", "nesterov": True}, "nesterov=True is a kind of momentum; set mom"),
        ({"optimizer": "Ftrl", "weightDecay": 0.1}, "weightDecay=0.1 has no effect with .*'Ftrl'"),
        (
            {"optimizer": "Ftrl", "learningRateSchedule": "cosine"},
            "learningRateSchedule='cosine' has no effect with optimizer='Ftrl'; Adagrad, Adam, Ad",
        ),
        ({"learningRatePieces": [[0.5, 0.1]]}, "learningRatePieces has no .*set that to 'piecew"),
        (
            {"learningRateSchedule": "constant", "learningRateEnd": 0.1},
            "learningRateEnd has no effect .*='constant'; set that to 'cosine' or 'exponential'",
        ),
    ],
)
def test_what_has_no_effect_is_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparkDNNClassifier(**params)._check_params(False)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"learningRateSchedule": "linear"}, "must be one of constant, cosine, exponential"),
        ({"learningRateEnd": 0}, "must be above 0, got 0"),
        ({"learningRatePieces": [[0.5]]}, r"a pair \[fraction of training, factor\] is needed"),
        ({"learningRatePieces": [[0.5, 1], [0.2, 1]]}, "fractions of training must be above 0 and"),
        ({"warmup": 1}, "must be below 1"),
        ({"momentum": -1}, "must be between 0 and 1"),
        ({"nesterov": "yes"}, "True or False is needed"),
        ({"gradientClipNorm": -1}, "must be between 0 and inf"),
        ({"epochs": -1}, "must be at least 0"),
    ],
)
def test_wrong_values_fail_when_they_are_set(params: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{next(iter(params))}: .*{message}"):
        SparkDNNClassifier(**params)


def test_a_linear_model_may_be_trained_by_each_of_them() -> None:
    """The default schedule does not prevent optimizers without schedules."""
    for name in OPTIMIZERS:
        SparkLinearClassifier(optimizer=name)._check_params(False)
    assert SparkLinearClassifier(optimizer="Ftrl").schedule_kind() == "constant"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_are_made_within_branches_as_well(name: str) -> None:
    """As in `sync` with empty batches and in `gradientAccumulation`."""
    decay = 2.0 if "weightDecay" in OPTIMIZERS[name] else 0.0
    stepping = Stepping(name, 0.01, weight_decay=decay, clip_norm=5.0)
    plain = weights_after(stepping)[0]
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        strategy = strategy_for(FitConfig(gradient_accumulation=2), graph, tf.constant(1.0), 1)
        with strategy.scope():
            step, variables = loss_step(stepping)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(step)
        np.testing.assert_array_equal(session.run(variables)[0], START)
        session.run(step)
        for found, expected in zip(session.run(variables), plain, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
