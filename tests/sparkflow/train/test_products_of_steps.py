"""Training steps multiply matrices in machine code: numpy's BLAS threads would compete with ours.

A stack of adjacent heads used to go to numpy, which made an encoder layer slower on two threads
than on one.
"""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.native import matrix_products

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")
ROWS, LENGTH, HEADS, WIDTH = 3, 7, 4, 6


def heads(x, name):
    inner = tf.layers.dense(x, HEADS * WIDTH, use_bias=False, name=name)
    return tf.transpose(tf.reshape(inner, [ROWS, LENGTH, HEADS, WIDTH]), [0, 2, 1, 3])


def attention(x):
    q, k, v = (heads(x, name) for name in "qkv")
    seen = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v)
    return tf.reshape(tf.transpose(seen, [0, 2, 1, 3]), [ROWS * LENGTH, HEADS * WIDTH])


def attention_by_einsum(x):
    parts = [
        tf.reshape(tf.layers.dense(x, HEADS * WIDTH), [ROWS, LENGTH, HEADS, WIDTH])
        for _ in range(3)
    ]
    scores = tf.nn.softmax(tf.einsum("blhd,bmhd->bhlm", *parts[:2]))
    seen = tf.einsum("bhlm,bmhd->blhd", scores, parts[2])
    return tf.reshape(seen, [ROWS * LENGTH, HEADS * WIDTH])


def one_set_of_keys(x):
    """Multi-query attention: all heads share their keys."""
    keys = tf.reshape(tf.layers.dense(x, WIDTH), [ROWS, 1, LENGTH, WIDTH])
    return tf.reshape(tf.matmul(heads(x, "q"), keys, transpose_b=True), [ROWS * LENGTH, -1])


@pytest.mark.parametrize("network", [attention, attention_by_einsum, one_set_of_keys])
def test_numpy_multiplies_nothing(monkeypatch, network):
    multiplied = []

    def product(name):
        def multiply(left, right, *rest):
            multiplied.append((name, left.shape, right.shape, left.strides, right.strides))
            return getattr(np, name)(left, right, *rest)

        return multiply

    class Numpy:
        matmul, dot = staticmethod(product("matmul")), staticmethod(product("dot"))

        def __getattr__(self, name):
            return getattr(np, name)

    monkeypatch.setattr(matrix_products, "np", Numpy())
    tf.reset_default_graph()
    x = tf.constant(np.random.default_rng(0).standard_normal((ROWS * LENGTH, 10), np.float32))
    loss = tf.reduce_mean(tf.square(network(x) - 0.3))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train])[0] for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert not multiplied
