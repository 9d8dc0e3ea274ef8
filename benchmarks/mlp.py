"""The networks of dense layers that several benchmarks train, on batches of random rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

SIZES = (784, 256, 128, 10)
BATCH = 100
LEARNING_RATE = 0.1

LARGE_SIZES = (784, 1024, 1024, 10)
LARGE_BATCH = 512
ADAM_LEARNING_RATE = 0.0001
"""Small, so that losses agree for some steps: Adam makes rounding errors as large as steps."""

Array = npt.NDArray[Any]


def batch(seed: int = 0, rows: int = BATCH) -> tuple[Array, Array]:
    """Returns features [rows, 784] float32 and labels [rows] int64."""
    generator = np.random.default_rng([seed, 1])
    features = generator.random((rows, SIZES[0]), np.float32)
    return features, generator.integers(0, SIZES[-1], rows)


def initial_values(sizes: Sequence[int] = SIZES) -> list[Array]:
    """Returns weights and biases, layer by layer."""
    generator = np.random.default_rng(0)
    values: list[Array] = []
    for inputs, outputs in pairwise(sizes):
        scale = np.float32(np.sqrt(2 / inputs))
        values.append(generator.standard_normal((inputs, outputs), np.float32) * scale)
        values.append(np.zeros(outputs, np.float32))
    return values


def multiplications(sizes: Sequence[int], rows: int) -> int:
    """Returns a step's multiply-adds: forward, by weights, by all inputs but the first."""
    products = [rows * inputs * outputs for inputs, outputs in pairwise(sizes)]
    return 3 * sum(products) - products[0]


def loss(tf: Any, x: Any, labels: Any, values: Sequence[Array]) -> Any:
    """Returns the mean cross entropy as a tensor of the framework `tf`."""
    hidden = x
    layers = len(values) // 2
    for layer in range(layers):
        weight = tf.Variable(values[2 * layer], name=f"weight_{layer}")
        bias = tf.Variable(values[2 * layer + 1], name=f"bias_{layer}")
        hidden = tf.matmul(hidden, weight) + bias
        if layer < layers - 1:
            hidden = tf.nn.relu(hidden)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden)
    return tf.reduce_mean(each)


def numpy_step(values: list[Array]) -> Callable[[Array, Array], float]:
    """A hand-written training step: updates `values` and returns the loss before the update."""
    rate = np.float32(LEARNING_RATE)

    def step(x: Array, labels: Array) -> float:
        activations = [x]
        for layer in range(len(SIZES) - 1):
            z = activations[-1] @ values[2 * layer]
            z += values[2 * layer + 1]
            if layer < len(SIZES) - 2:
                np.maximum(z, 0, out=z)
            activations.append(z)
        rows = np.arange(len(x))
        z = activations.pop()
        z -= z.max(axis=1, keepdims=True)
        picked = z[rows, labels]
        np.exp(z, out=z)
        sums = z.sum(axis=1, keepdims=True)
        mean_loss = float((np.log(sums[:, 0]) - picked).mean())
        z /= sums
        z[rows, labels] -= 1
        gradient = z / np.float32(len(x))
        for layer in reversed(range(len(SIZES) - 1)):
            below = activations[layer]
            weight_gradient = below.T @ gradient
            bias_gradient = gradient.sum(axis=0)
            if layer:
                gradient = gradient @ values[2 * layer].T
                gradient *= below > 0
            weight_gradient *= rate
            values[2 * layer] -= weight_gradient
            values[2 * layer + 1] -= rate * bias_gradient
        return mean_loss

    return step
