"""Division of int32 by constants and powers of them, in kernels that compute more than that."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.compiler import specialise

NUMBERS = np.array([0, 1, 7, -7, 2**31 - 1, -(2**31), 2**31 - 2, 1 - 2**31, 99], np.int32)


@pytest.mark.parametrize("divisor", [1, 2, 3, -2, -3, 7, 10**9, 2**31 - 1, -(2**31), -1])
def test_quotients_and_rests_are_numpys(divisor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialise, "EARLY", 0)
    monkeypatch.setattr(specialise, "SIGHTINGS", 1)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.int32, NUMBERS.shape)
        constant = tf.constant(divisor)
        fetches = [tf.floordiv(x, constant) ^ 1, tf.floormod(x, constant) ^ 1]
        for _ in range(3):
            with np.errstate(over="ignore"):
                quotients, rests = session.run(fetches, {x: NUMBERS})
                np.testing.assert_array_equal(quotients ^ 1, np.floor_divide(NUMBERS, divisor))
                np.testing.assert_array_equal(rests ^ 1, np.remainder(NUMBERS, divisor))


def test_no_number_is_divided_by_zero() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        quotient = tf.floordiv(tf.placeholder_with_default(NUMBERS, None), 0) + 1
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
                session.run(quotient)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 5.0, 7.0, 16.0, -1.0, -2.0, -3.0, 0.5, 17.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_are_numpys(exponent: float, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialise, "EARLY", 0)
    monkeypatch.setattr(specialise, "SIGHTINGS", 1)
    numbers = np.array([1.5, -1.25, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-3, -7.0], dtype)
    with tf.Graph().as_default(), tf.Session() as session, np.errstate(all="ignore"):
        x = tf.placeholder(dtype, numbers.shape)
        power = tf.pow(x, exponent)
        for _ in range(3):
            alone, among_others = session.run([power, power * 2 + 1], {x: numbers})
            expected = np.power(numbers, dtype(exponent))
            np.testing.assert_allclose(alone, expected, rtol=2e-6)
            np.testing.assert_allclose(among_others, expected * 2 + 1, rtol=2e-6)
