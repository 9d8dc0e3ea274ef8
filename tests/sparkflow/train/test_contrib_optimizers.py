"""The optimizers of tf.contrib.opt against their formulas in plain numpy."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import opt

RATE, DECAY, EPSILON = 0.1, 0.01, 1e-8
START = np.arange(8, dtype=np.float64).reshape(4, 2) / 8 + 0.1
ROWS = np.array([1, 3])


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def rate_of(s):
    s["t"] = s.get("t", 0) + 1
    return RATE * np.sqrt(1 - 0.999 ** s["t"]) / (1 - 0.9 ** s["t"])


def moments(g, s, w, rows):
    s.setdefault("m", np.zeros_like(w))
    s.setdefault("v", np.zeros_like(w))
    s["m"][rows] = 0.9 * s["m"][rows] + 0.1 * g[rows]
    s["v"][rows] = 0.999 * s["v"][rows] + 0.001 * g[rows] ** 2
    return s["m"], s["v"]


def adam_w(w, g, s, rows):
    w[rows] -= DECAY * w[rows]
    m, v = moments(g, s, w, slice(None))
    w -= rate_of(s) * m / (np.sqrt(v) + EPSILON)


def momentum_w(w, g, s, rows):
    w[rows] -= DECAY * w[rows]
    s["a"] = s.get("a", np.zeros_like(w))
    s["a"][rows] = 0.9 * s["a"][rows] + g[rows]
    w[rows] -= RATE * s["a"][rows]


def lazy(w, g, s, rows):
    m, v = moments(g, s, w, rows)
    w[rows] -= rate_of(s) * m[rows] / (np.sqrt(v[rows]) + EPSILON)


def nadam(w, g, s, rows):
    m, v = moments(g, s, w, slice(None))
    step = rate_of(s) * (0.9 * m + 0.1 * g) / (np.sqrt(v) + EPSILON)
    w[rows] -= step[rows]


def ada_max(w, g, s, rows):
    s["t"] = s.get("t", 0) + 1
    m, v = s.setdefault("m", np.zeros_like(w)), s.setdefault("v", np.zeros_like(w))
    m[rows] = 0.9 * m[rows] + 0.1 * g[rows]
    v[rows] = np.maximum(0.999 * v[rows], abs(g[rows]))
    w[rows] -= RATE / (1 - 0.9 ** s["t"]) * m[rows] / (v[rows] + EPSILON)


def signs(w, g, s, rows):
    m = s.setdefault("m", np.zeros_like(w))
    m[:] = 0.9 * m + 0.1 * g
    return (np.sign(g) * np.sign(m))[rows]


def add_sign(w, g, s, rows):
    w[rows] -= RATE * (1.5 + 0.5 * signs(w, g, s, rows)) * g[rows]


def power_sign(w, g, s, rows):
    w[rows] -= RATE * 1.2 ** signs(w, g, s, rows) * g[rows]


EXTENDED = opt.extend_with_decoupled_weight_decay(tf.train.MomentumOptimizer)
OPTIMIZERS = {
    "adam_w": (lambda: opt.AdamWOptimizer(DECAY, RATE), adam_w),
    "momentum_w": (lambda: opt.MomentumWOptimizer(lambda: DECAY, RATE, 0.9), momentum_w),
    "extended": (lambda: EXTENDED(DECAY, RATE, 0.9), momentum_w),
    "lazy": (lambda: opt.LazyAdamOptimizer(RATE), lazy),
    "nadam": (lambda: opt.NadamOptimizer(RATE), nadam),
    "add_sign": (
        lambda: opt.AddSignOptimizer(RATE, 1.5, sign_decay_fn=lambda step: 0.5),
        add_sign,
    ),
    "power_sign": (lambda: opt.PowerSignOptimizer(RATE, 1.2), power_sign),
    "ada_max": (lambda: opt.AdaMaxOptimizer(RATE), ada_max),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("make", "formula"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_five_steps(make, formula, sparse):
    w = tf.Variable(START)
    read = tf.gather(w, ROWS) if sparse else w
    train = make().minimize(tf.reduce_sum(tf.square(read - 1.0)))
    expected, slots = START.copy(), {}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run(train)
            rows = ROWS if sparse else slice(None)
            gradient = np.zeros_like(expected)
            gradient[rows] = 2 * (expected[rows] - 1)
            formula(expected, gradient, slots, rows)
        # The hyperparameters are float32 constants, as in TensorFlow.
        np.testing.assert_allclose(session.run(w), expected, rtol=5e-5, atol=2e-6)


def test_only_listed_variables_decay():
    a, b = tf.Variable([1.0]), tf.Variable([1.0])
    optimizer = opt.MomentumWOptimizer(0.5, 0.0, 0.9)
    train = optimizer.minimize(tf.reduce_sum(a + b), decay_var_list=[b])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run([a, b]) == [[1.0], [0.5]]
