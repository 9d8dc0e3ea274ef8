"""`tf.contrib.nn`: predecessors of functions of `tf.nn`."""

from __future__ import annotations

from typing import Any

import sparkflow as tf
from sparkflow.ops.nn.activation import noise_sizes

__all__ = [
    "alpha_dropout",
    "nth_element",
    "scaled_softplus",
]


def alpha_dropout(
    x: Any,
    keep_prob: Any,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Dropout for `selu` that keeps mean and variance (Klambauer et al. 2017, arXiv:1706.02515).

    Args:
        x: A floating-point tensor.
        keep_prob: The share that is kept.
        noise_shape: As for `tf.nn.dropout`.
        seed: As for `tf.nn.dropout`.
        name: The name scope.

    Raises:
        ValueError: `keep_prob` is not in (0, 1].
    """
    with tf.name_scope(name, "alpha_dropout", [x]):
        x = tf.convert_to_tensor(x, name="x")
        if isinstance(keep_prob, float) and not 0 < keep_prob <= 1.0:
            raise ValueError(
                "keep_prob must be a scalar tensor or a float in the range (0, 1], "
                f"got {keep_prob:g}"
            )
        if isinstance(keep_prob, int | float) and keep_prob == 1:
            return x
        keep = tf.convert_to_tensor(keep_prob, dtype=x.dtype, name="keep_prob")
        alpha = -1.7580993408473766
        shape = noise_sizes(x, noise_shape)
        kept = tf.floor(keep + tf.random_uniform(shape, seed=seed, dtype=x.dtype))
        mixed = x * kept + alpha * (1 - kept)
        a = tf.rsqrt(keep + alpha**2 * keep * (1 - keep))
        result = a * mixed - a * alpha * (1 - keep)
        result.set_shape(x.shape)
        return result


def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Any:
    """The nth smallest element of the last dimension; the nth largest with `reverse`."""
    input = tf.convert_to_tensor(input)
    ordered = tf.sort(input, axis=-1, direction="DESCENDING" if reverse else "ASCENDING")
    return tf.gather(ordered, n, axis=-1, name=name)


def scaled_softplus(x: Any, alpha: Any, clip: Any = None, name: str | None = None) -> Any:
    """Alpha · softplus(x / alpha), at most `clip`."""
    with tf.name_scope(name, "scaled_softplus", [x, alpha]):
        x = tf.convert_to_tensor(x, name="x")
        alpha = tf.cast(alpha, x.dtype)
        y = alpha * tf.nn.softplus(x / alpha)
        return y if clip is None else tf.minimum(y, tf.cast(clip, x.dtype))
