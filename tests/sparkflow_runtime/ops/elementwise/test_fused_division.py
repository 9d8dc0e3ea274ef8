"""Division of int32 by constants, in kernels that compute more than that."""

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
