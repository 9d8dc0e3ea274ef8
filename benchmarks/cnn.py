"""The convolutional network that `executor.py` trains, on batches of 64 random 28×28 images.

Convolution 5×5×32, max pooling 2×2, convolution 5×5×64, max pooling 2×2, dense 1024, dense 10;
NHWC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

SIZE = 28
BATCH = 64
LEARNING_RATE = 0.01
FEATURES = (7, 7, 64)
"""Elements of an image after the second pooling."""

_SHAPES = ((5, 5, 1, 32), (5, 5, 32, 64), (7 * 7 * 64, 1024), (1024, 10))

Array = npt.NDArray[Any]


def batch() -> tuple[Array, Array]:
    """Returns images [64, 28, 28, 1] float32 and labels [64] int64."""
    generator = np.random.default_rng(1)
    pictures = generator.random((BATCH, SIZE, SIZE, 1), np.float32)
    return pictures, generator.integers(0, 10, BATCH)


def initial_values() -> list[Array]:
    """Returns weights and biases, layer by layer; filters are [height, width, in, out]."""
    generator = np.random.default_rng(0)
    values: list[Array] = []
    for shape in _SHAPES:
        scale = np.float32(np.sqrt(2 / np.prod(shape[:-1])))
        values.append(generator.standard_normal(shape, np.float32) * scale)
        values.append(np.zeros(shape[-1], np.float32))
    return values


def loss(tf: Any, pictures: Any, labels: Any, values: Sequence[Array]) -> Any:
    """Returns the mean cross entropy as a tensor of the framework `tf`."""
    variables = [tf.Variable(value) for value in values]
    hidden = pictures
    for filters, bias in (variables[:2], variables[2:4]):
        hidden = tf.nn.conv2d(hidden, filters, [1, 1, 1, 1], "SAME")
        hidden = tf.nn.relu(tf.nn.bias_add(hidden, bias))
        hidden = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    hidden = tf.reshape(hidden, [-1, int(np.prod(FEATURES))])
    hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(hidden, variables[4]), variables[5]))
    logits = tf.nn.bias_add(tf.matmul(hidden, variables[6]), variables[7])
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(each)
