"""Learning rates by step, against the formulas of their docstrings and papers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def rates(make: Callable[[tf.Tensor], tf.Tensor], steps: list[int]) -> list[float]:
    """Returns the values of a schedule at some steps."""
    with tf.Graph().as_default():
        step = tf.placeholder(tf.int64, [])
        rate = make(step)
        assert rate.shape == ()
        with tf.Session() as session:
            return [float(session.run(rate, {step: each})) for each in steps]


def cosine(fraction: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * fraction))


STEPS = [0, 1, 9, 10, 11, 15, 20, 25, 30, 70]


@pytest.mark.parametrize("staircase", [False, True])
@pytest.mark.parametrize(
    ("schedule", "formula"),
    [
        (tf.train.exponential_decay, lambda p: 0.5 * 0.9**p),
        (tf.train.natural_exp_decay, lambda p: 0.5 * math.exp(-0.9 * p)),
        (tf.train.inverse_time_decay, lambda p: 0.5 / (1 + 0.9 * p)),
    ],
)
def test_decays_by_a_quotient(
    schedule: Callable[..., tf.Tensor], formula: Callable[[float], float], staircase: bool
) -> None:
    found = rates(lambda step: schedule(0.5, step, 10, 0.9, staircase), STEPS)
    wanted = [formula(n // 10 if staircase else n / 10) for n in STEPS]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_polynomial(power: float) -> None:
    found = rates(lambda step: tf.train.polynomial_decay(0.5, step, 10, 0.1, power), STEPS)
    wanted = [0.4 * (1 - min(n, 10) / 10) ** power + 0.1 for n in STEPS]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_polynomial_in_cycles_goes_to_the_next_multiple() -> None:
    found = rates(lambda step: tf.train.polynomial_decay(0.5, step, 10, 0.1, cycle=True), STEPS)
    wanted = [0.4 * (1 - n / (10 * max(math.ceil(n / 10), 1))) + 0.1 for n in STEPS]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_piecewise_constant_includes_the_upper_bound() -> None:
    def make(step: tf.Tensor) -> tf.Tensor:
        return tf.train.piecewise_constant(step, [10, 20], [1.0, 0.5, 0.25])

    assert rates(make, [0, 10, 11, 20, 21]) == [1.0, 1.0, 0.5, 0.5, 0.25]


def test_cosine() -> None:
    found = rates(lambda step: tf.train.cosine_decay(0.5, step, 20, alpha=0.2), STEPS)
    wanted = [0.5 * (0.8 * cosine(min(n, 20) / 20) + 0.2) for n in STEPS]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(("longer", "lower"), [(1.0, 0.5), (2.0, 1.0), (3.0, 0.7)])
def test_cosine_with_restarts(longer: float, lower: float) -> None:
    def wanted(step: int) -> float:
        begin, length, height = 0.0, 10.0, 1.0
        while step >= begin + length:
            begin, length, height = begin + length, length * longer, height * lower
        return 0.5 * (0.9 * height * cosine((step - begin) / length) + 0.1)

    found = rates(
        lambda step: tf.train.cosine_decay_restarts(0.5, step, 10, longer, lower, 0.1),
        [0, 5, 9, 12, 29, 31, 69],
    )
    np.testing.assert_allclose(found, list(map(wanted, [0, 5, 9, 12, 29, 31, 69])), rtol=1e-5)


def test_linear_cosine() -> None:
    def wanted(step: int) -> float:
        part = min(step, 20) / 20
        return 0.5 * ((0.1 + 1 - part) * cosine(2 * 0.75 * part) + 0.01)

    found = rates(lambda step: tf.train.linear_cosine_decay(0.5, step, 20, 0.75, 0.1, 0.01), STEPS)
    np.testing.assert_allclose(found, list(map(wanted, STEPS)), rtol=1e-5)


def test_noise_falls_with_the_step() -> None:
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        step = tf.placeholder(tf.int64, [])
        rate = tf.train.noisy_linear_cosine_decay(1.0, step, 10_000, 4.0, 1.0, 0.0, 0.0, 0.0)
        with tf.Session() as session:
            spread = [np.std([session.run(rate, {step: n}) for _ in range(400)]) for n in (0, 99)]
    assert spread[0] == pytest.approx(2.0, rel=0.15)  # the cosine of no period is 1
    assert spread[1] == pytest.approx(0.2, rel=0.15)


def test_the_rate_decides_the_dtype() -> None:
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(tf.constant(0.5, tf.float64), step, 10, 0.9)
        assert rate.dtype is tf.float64


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: tf.train.exponential_decay(0.1, None, 1, 1), "global_step is required"),
        (lambda: tf.train.polynomial_decay(0.1, None, 1), "global_step is required"),
        (lambda: tf.train.cosine_decay(0.1, None, 1), "requires global_step"),
        (lambda: tf.train.piecewise_constant(1, [1, 2], [1.0, 2.0]), "1 less than the length"),
        (lambda: tf.train.piecewise_constant(1, [1.5], [1.0, 2.0]), "same dtype as x"),
        (lambda: tf.train.piecewise_constant(1, [1], [1.0, 2]), "all with the same dtype"),
    ],
)
def test_what_does_not_fit(make: Callable[[], Any], text: str) -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match=text):
        make()
