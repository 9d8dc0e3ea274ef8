"""Networks that `peers.py` trains with all competitors: data, initial values, TensorFlow 1 code.

A transformer encoder layer, a residual block with batch normalization in both data formats, and a
recommender with 26 tables and pairwise interactions of their rows, each with SGD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
RATE = 0.05
EPSILON = 1e-5

ROWS, LENGTH, WIDTH, HEADS, INNER = 16, 128, 256, 4, 1024
PICTURES, SIZE, CHANNELS = 8, 28, 128
CLICKS, TABLES, IDS, FACTORS, NUMBERS = 512, 26, 10_000, 16, 13
PAIRS = np.flatnonzero(np.tril(np.ones((TABLES + 1, TABLES + 1)), -1).reshape(-1))
"""The positions of distinct pairs in the matrix of all products."""


def _weights(generator: np.random.Generator, *shape: int) -> Array:
    scale = np.float32(1 / np.sqrt(np.prod(shape[:-1])))
    return generator.standard_normal(shape, np.float32) * scale


def transformer() -> tuple[dict[str, Array], dict[str, Array]]:
    """Returns initial values and data of an encoder layer."""
    generator = np.random.default_rng(0)
    values = {name: _weights(generator, WIDTH, WIDTH) for name in ("q", "k", "v", "o")}
    values |= {"up": _weights(generator, WIDTH, INNER), "down": _weights(generator, INNER, WIDTH)}
    values |= {"up_bias": np.zeros(INNER, np.float32), "down_bias": np.zeros(WIDTH, np.float32)}
    for name in ("first", "second"):
        values |= {f"{name}_scale": np.ones(WIDTH, np.float32)}
        values |= {f"{name}_offset": np.zeros(WIDTH, np.float32)}
    shape = (ROWS * LENGTH, WIDTH)
    data = {name: generator.standard_normal(shape, np.float32) for name in ("x", "wanted")}
    return values, data


def residual() -> tuple[dict[str, Array], dict[str, Array]]:
    """Returns initial values and data of a residual block; images are NHWC."""
    generator = np.random.default_rng(0)
    values = {}
    for name in ("first", "second"):
        values[name] = _weights(generator, 3, 3, CHANNELS, CHANNELS)
        values[f"{name}_scale"] = np.ones(CHANNELS, np.float32)
        values[f"{name}_offset"] = np.zeros(CHANNELS, np.float32)
    shape = (PICTURES, SIZE, SIZE, CHANNELS)
    data = {name: generator.standard_normal(shape, np.float32) for name in ("x", "wanted")}
    return values, data


def recommender() -> tuple[dict[str, Array], dict[str, Array]]:
    """Returns initial values and data of a recommender."""
    generator = np.random.default_rng(0)
    values = {f"table{i}": _weights(generator, IDS, FACTORS) for i in range(TABLES)}
    width = len(PAIRS) + FACTORS
    shapes = {"low1": (NUMBERS, 64), "low2": (64, FACTORS), "top1": (width, 64), "top2": (64, 1)}
    for name, shape in shapes.items():
        values[name] = _weights(generator, *shape)
        values[f"{name}_bias"] = np.zeros(shape[1], np.float32)
    data = {
        "numbers": generator.standard_normal((CLICKS, NUMBERS), np.float32),
        "ids": generator.integers(0, IDS, (TABLES, CLICKS)),
        "clicked": generator.integers(0, 2, CLICKS).astype(np.float32),
    }
    return values, data


NETWORKS: Mapping[str, Callable[[], tuple[dict[str, Array], dict[str, Array]]]] = {
    "transformer": transformer,
    "residual_nhwc": residual,
    "residual_nchw": residual,
    "recommender": recommender,
}


def channels_first(name: str, data: dict[str, Array]) -> dict[str, Array]:
    """Returns the data in the data format of the network's name."""
    if not name.endswith("nchw"):
        return data
    return {key: np.ascontiguousarray(each.transpose(0, 3, 1, 2)) for key, each in data.items()}


def tf_loss(tf: Any, name: str, p: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """Returns the loss of a network as a tensor of TensorFlow 1's API."""
    if name == "transformer":
        return _transformer(tf, p, data["x"], data["wanted"])
    if name == "recommender":
        return _recommender(tf, p, data)
    order = name.rpartition("_")[2].upper()
    x = data["x"]

    def layer(h: Any, key: str) -> Any:
        h = tf.nn.conv2d(h, p[key], [1, 1, 1, 1], "SAME", data_format=order)
        scale, offset = p[f"{key}_scale"], p[f"{key}_offset"]
        return tf.nn.fused_batch_norm(h, scale, offset, epsilon=EPSILON, data_format=order)[0]

    h = tf.nn.relu(layer(x, "first"))
    h = tf.nn.relu(layer(h, "second") + x)
    return tf.reduce_mean(tf.square(h - data["wanted"]))


def _transformer(tf: Any, p: Mapping[str, Any], x: Any, wanted: Any) -> Any:
    def heads(key: str) -> Any:
        parts = tf.reshape(tf.matmul(x, p[key]), [ROWS, LENGTH, HEADS, WIDTH // HEADS])
        return tf.transpose(parts, [0, 2, 1, 3])

    def normal(h: Any, key: str) -> Any:
        mean, variance = tf.nn.moments(h, [1], keep_dims=True)
        scaled = (h - mean) * tf.rsqrt(variance + EPSILON)
        return scaled * p[f"{key}_scale"] + p[f"{key}_offset"]

    scores = tf.matmul(heads("q"), heads("k"), transpose_b=True) * (WIDTH // HEADS) ** -0.5
    seen = tf.transpose(tf.matmul(tf.nn.softmax(scores), heads("v")), [0, 2, 1, 3])
    h = normal(x + tf.matmul(tf.reshape(seen, [-1, WIDTH]), p["o"]), "first")
    inner = tf.nn.relu(tf.matmul(h, p["up"]) + p["up_bias"])
    h = normal(h + tf.matmul(inner, p["down"]) + p["down_bias"], "second")
    return tf.reduce_mean(tf.square(h - wanted))


def _recommender(tf: Any, p: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    def dense(h: Any, key: str) -> Any:
        return tf.matmul(h, p[key]) + p[f"{key}_bias"]

    low = tf.nn.relu(dense(tf.nn.relu(dense(data["numbers"], "low1")), "low2"))
    rows = [tf.nn.embedding_lookup(p[f"table{i}"], data["ids"][i]) for i in range(TABLES)]
    together = tf.stack([low, *rows], 1)
    products = tf.matmul(together, together, transpose_b=True)
    pairs = tf.gather(tf.reshape(products, [CLICKS, -1]), PAIRS, axis=1)
    logits = dense(tf.nn.relu(dense(tf.concat([low, pairs], 1), "top1")), "top2")
    each = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=data["clicked"], logits=tf.reshape(logits, [-1])
    )
    return tf.reduce_mean(each)
