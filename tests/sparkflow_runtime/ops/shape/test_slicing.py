"""What slices compute once and what in every step."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.ops.shape.strided import StridedSpec


@pytest.fixture
def specs(monkeypatch):
    """The specifications that were read from bounds."""
    read, made = StridedSpec.of, []

    def counted(*bounds):
        made.append(read(*bounds))
        return made[-1]

    monkeypatch.setattr(StridedSpec, "of", counted)
    return made


@pytest.mark.parametrize(
    "part",
    [
        lambda x: x[1],
        lambda x: x[1:3],
        lambda x: x[::-1],
        lambda x: tf.strided_slice(x, [1], tf.constant([1]) + tf.constant([2])),
    ],
    ids=["a number", "a range", "reversed", "bounds that are computed from constants"],
)
def test_constant_bounds_are_read_in_the_first_steps_only(specs, part):
    x = tf.placeholder(tf.float32, [4])
    y = part(x)
    given = np.arange(4, dtype=np.float32)
    with tf.Session() as session:
        expected = session.run(y, {x: given})
        session.run(y, {x: given})
        specs.clear()
        for _ in range(5):
            np.testing.assert_array_equal(session.run(y, {x: given}), expected)
    assert specs == []


def test_bounds_that_change_are_read_in_every_step(specs):
    x, end = tf.placeholder(tf.float32, [4]), tf.placeholder(tf.int32, [])
    y = x[:end]
    given = np.arange(4, dtype=np.float32)
    with tf.Session() as session:
        for stop in (1, 3, 2, 4, 0):
            np.testing.assert_array_equal(session.run(y, {x: given, end: stop}), given[:stop])
    assert len(specs) >= 5
