"""The network that several benchmarks train: 784-256-128-10 on batches of 100 random rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

SIZES = (784, 256, 128, 10)
BATCH = 100
LEARNING_RATE = 0.1

Array = npt.NDArray[Any]


def batch(seed: int = 0) -> tuple[Array, Array]:
    """Features [100, 784] float32 and labels [100] int64."""
    generator = np.random.default_rng([seed, 1])
    features = generator.random((BATCH, SIZES[0]), np.float32)
    return features, generator.integers(0, SIZES[-1], BATCH)


def initial_values() -> list[Array]:
    """Weights and biases of each layer, in turn."""
    generator = np.random.default_rng(0)
    values: list[Array] = []
    for inputs, outputs in pairwise(SIZES):
        scale = np.float32(np.sqrt(2 / inputs))
        values.append(generator.standard_normal((inputs, outputs), np.float32) * scale)
        values.append(np.zeros(outputs, np.float32))
    return values


def loss(tf: Any, x: Any, labels: Any, values: Sequence[Array]) -> Any:
    """The mean cross entropy as a tensor of the framework `tf`."""
    hidden = x
    for layer in range(len(SIZES) - 1):
        weight = tf.Variable(values[2 * layer], name=f"weight_{layer}")
        bias = tf.Variable(values[2 * layer + 1], name=f"bias_{layer}")
        hidden = tf.matmul(hidden, weight) + bias
        if layer < len(SIZES) - 2:
            hidden = tf.nn.relu(hidden)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden)
    return tf.reduce_mean(each)


def numpy_step(values: list[Array]) -> Callable[[Array, Array], float]:
    """A training step written by hand; it updates `values` and returns the loss before."""
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
