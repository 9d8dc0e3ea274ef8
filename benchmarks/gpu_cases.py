"""The cases of `gpu.py` as graphs of sparkflow: data and parameters are variables on the card."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import networks
import numpy as np

CHAIN_OPS = 48
LAYERS = (784, 1024, 1024, 10)
RATE = 0.001


@dataclass(frozen=True, slots=True)
class Case:
    """A measured case.

    Attributes:
        name: Its name in the table.
        sizes: Rows and columns of its arrays, or as its step defines.
        bytes: The minimum number of bytes that a step moves.
        operations: Additions and multiplications of its matrix products.
        step: Returns the op of a step for sparkflow and the sizes; all data are in variables.
    """

    name: str
    sizes: tuple[int, ...]
    bytes: float
    operations: float
    step: Callable[..., Any]


def cases(shrink: int = 1) -> list[Case]:
    """Returns all cases.

    Args:
        shrink: The factor by which rows are reduced.
    """
    rows, wide, many = 8192 // shrink, 4096, (1 << 26) // shrink
    batch, pictures = 4096 // shrink, 512 // shrink
    pairs = list(pairwise(LAYERS))
    parameters = sum(m * n for m, n in pairs)
    forward = 2 * batch * parameters
    first = 2 * batch * pairs[0][0] * pairs[0][1]  # there is no gradient of the data
    places = pictures * 28 * 28
    convolutions = [2 * places * 25 * 32, 2 * places / 4 * 25 * 32 * 64]
    dense = [2 * pictures * 7 * 7 * 64 * 1024, 2 * pictures * 1024 * 10]
    network = 3 * (sum(convolutions) + sum(dense)) - convolutions[0]
    return [
        Case(f"{CHAIN_OPS} elementwise", (rows, wide), 8.0 * rows * wide, 0, _chain),
        Case("softmax", (rows, wide), 8.0 * rows * wide, 0, _softmax),
        Case("Adam", (many,), 7 * 4.0 * many, 0, _adam),
        Case("MLP, Adam", (batch,), 7 * 4.0 * parameters, 3.0 * forward - first, _mlp),
        Case("CNN, SGD", (pictures,), 0, network, _cnn),
        *(Case(name, (), 0, 0, partial(_network, name=name)) for name in networks.NETWORKS),
    ]


def _random(tf: Any, shape: tuple[int, ...], scale: float = 1.0, trainable: bool = False) -> Any:
    return tf.Variable(tf.random_normal(shape, stddev=scale, seed=1), trainable=trainable)


def _labels(tf: Any, count: int) -> Any:
    values = np.random.default_rng(0).integers(0, 10, count).astype(np.int32)
    return tf.Variable(values, trainable=False)


def _chain(tf: Any, rows: int, columns: int) -> Any:
    x, result = _random(tf, (rows, columns)), _random(tf, (rows, columns))
    value = x
    for number in range(CHAIN_OPS // 3):
        value = tf.tanh(value * (1.0 + 0.01 * number)) + 0.1
    return result.assign(value).op


def _softmax(tf: Any, rows: int, columns: int) -> Any:
    x, result = _random(tf, (rows, columns)), _random(tf, (rows, columns))
    return result.assign(tf.nn.softmax(x)).op


def _adam(tf: Any, count: int) -> Any:
    value, gradient = _random(tf, (count,), trainable=True), _random(tf, (count,))
    gradient = gradient.read_value() if hasattr(gradient, "read_value") else gradient
    return tf.train.AdamOptimizer(RATE).apply_gradients([(gradient, value)])


def _mlp(tf: Any, batch: int) -> Any:
    value: Any = _random(tf, (batch, LAYERS[0]))
    pairs = list(pairwise(LAYERS))
    for number, (m, n) in enumerate(pairs):
        weights = _random(tf, (m, n), float(np.sqrt(2 / m)), trainable=True)
        bias = tf.Variable(np.zeros(n, np.float32))
        value = tf.nn.bias_add(tf.matmul(value, weights), bias)
        if number < len(pairs) - 1:
            value = tf.nn.relu(value)
    return tf.train.AdamOptimizer(RATE).minimize(_loss(tf, value, batch))


def _cnn(tf: Any, batch: int) -> Any:
    value: Any = _random(tf, (batch, 28, 28, 1))
    for shape in ((5, 5, 1, 32), (5, 5, 32, 64)):
        filters = _random(tf, shape, float(np.sqrt(2 / np.prod(shape[:-1]))), trainable=True)
        value = tf.nn.conv2d(value, filters, [1, 1, 1, 1], "SAME")
        value = tf.nn.relu(tf.nn.bias_add(value, tf.Variable(np.zeros(shape[-1], np.float32))))
        value = tf.nn.max_pool(value, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    value = tf.reshape(value, [batch, 7 * 7 * 64])
    for m, n in ((7 * 7 * 64, 1024), (1024, 10)):
        weights = _random(tf, (m, n), float(np.sqrt(2 / m)), trainable=True)
        value = tf.nn.bias_add(tf.matmul(value, weights), tf.Variable(np.zeros(n, np.float32)))
        if n > 10:
            value = tf.nn.relu(value)
    return tf.train.GradientDescentOptimizer(RATE).minimize(_loss(tf, value, batch))


def _network(tf: Any, name: str) -> Any:
    """A network of `peers.py`, which is small for a card and shows the overhead of a step."""
    values, data = networks.NETWORKS[name]()
    data = networks.channels_first(name, data)
    given = {key: tf.Variable(each, trainable=False) for key, each in data.items()}
    parameters = {key: tf.Variable(each) for key, each in values.items()}
    loss = networks.tf_loss(tf, name, parameters, given)
    return tf.train.GradientDescentOptimizer(networks.RATE).minimize(loss)


def _loss(tf: Any, logits: Any, batch: int) -> Any:
    labels = _labels(tf, batch)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(each)
