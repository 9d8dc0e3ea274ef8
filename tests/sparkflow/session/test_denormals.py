"""Steps treat denormal numbers as zeros, whatever computes them (ADR 0070)."""

import platform

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native

pytestmark = [
    pytest.mark.skipif(not native.available(), reason="there is no code generator here"),
    pytest.mark.skipif(
        platform.machine() not in ("x86_64", "aarch64"), reason="denormals are kept here"
    ),
]
TINY = np.finfo(np.float32).tiny


def _looped(x):
    return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * 0.5), (0, x))[1]


WAYS = {
    "one op": lambda x: 0.5 * x,
    "fused": lambda x: tf.exp(0.5 * x) - 1.0 + 0.25 * x,
    "a product": lambda x: tf.matmul(tf.reshape(x, (1, -1)), tf.fill((tf.size(x), 1), 0.5 / 4e6)),
    "a loop": _looped,
    "a branch": lambda x: tf.cond(tf.size(x) > 0, lambda: 0.5 * x, lambda: x),
    "Python": lambda x: tf.py_func(lambda y: y * np.float32(0.5), [x], tf.float32),
    "numpy": lambda x: tf.log1p(0.5 * x),
    "a function of a dataset": lambda x: (
        tf.data.Dataset.from_tensors(x)
        .map(lambda y: 0.5 * y)
        .repeat()
        .make_one_shot_iterator()
        .get_next()
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [1, 40, 300_000])
def test_results_are_zero_and_the_caller_keeps_denormals(way, size):
    given = tf.fill([size], TINY) if way == "a function of a dataset" else None
    x = tf.placeholder(tf.float32, [size]) if given is None else given
    result = WAYS[way](x)
    feeds = {x: np.full(size, TINY, np.float32)} if given is None else {}
    with tf.Session() as session:
        for _ in range(2):
            assert not session.run(result, feeds).any()
            assert np.multiply(TINY, np.float32(0.5)) > 0
        constant = session.run(0.5 * tf.constant(TINY))
        assert constant == 0


def test_what_only_moves_keeps_every_bit():
    given = np.array([TINY / 2, -TINY / 4, 1], np.float32)
    x = tf.placeholder(tf.float32, [3])
    variable = tf.Variable(given)
    moved = (tf.identity(x), tf.reshape(x, (3, 1))[:, 0], tf.gather(x, [0, 1, 2]), variable)
    with tf.Session() as session:
        session.run(variable.initializer)
        for found in session.run(moved, {x: given}):
            np.testing.assert_array_equal(found.view(np.int32), given.view(np.int32))
        restored = session.run(variable.assign(x), {x: given})
        np.testing.assert_array_equal(restored.view(np.int32), given.view(np.int32))


def test_updates_of_denormal_moments_give_zeros():
    variable = tf.Variable(np.ones(100, np.float32))
    optimizer = tf.train.AdamOptimizer(0.1)
    train = optimizer.apply_gradients([(tf.zeros(100), variable)])
    moment = optimizer.get_slot(variable, "m")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(moment.assign(np.full(100, TINY / 8, np.float32)))
        session.run(train)
        assert not session.run(moment).any()
        assert session.run(variable).min() == 1
