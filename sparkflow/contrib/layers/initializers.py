"""Initializers of `tf.contrib.layers`."""

from __future__ import annotations

import math
from typing import Any

import sparkflow as tf


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = tf.float32,
) -> Any:
    """An initializer whose variance is `factor` divided by a number of inputs or outputs.

    Args:
        factor: Positive.
        mode: `FAN_IN`, `FAN_OUT` or `FAN_AVG`: what the variance is divided by.
        uniform: Uniformly distributed; else normal, none over two deviations from 0.
        seed: Makes the numbers reproducible.
        dtype: A floating-point type.

    Raises:
        TypeError: Another dtype, or another mode.
    """
    if not tf.as_dtype(dtype).is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")
    default = dtype

    def initializer(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        dtype = default if dtype is None else dtype
        if not tf.as_dtype(dtype).is_floating:
            raise TypeError("Cannot create initializer for non-floating point type.")
        sizes = [int(each) for each in (partition_info.full_shape if partition_info else shape)]
        fan_in = float(sizes[-2]) if len(sizes) > 1 else float(sizes[-1]) if sizes else 1.0
        fan_out = float(sizes[-1]) if sizes else 1.0
        window = math.prod(sizes[:-2])
        fan = {
            "FAN_IN": fan_in * window,
            "FAN_OUT": fan_out * window,
            "FAN_AVG": (fan_in + fan_out) * window / 2.0,
        }[mode]
        if uniform:
            limit = math.sqrt(3.0 * factor / fan)
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # 1.3 makes up for the variance that truncation takes away.
        return tf.truncated_normal(shape, 0.0, math.sqrt(1.3 * factor / fan), dtype, seed=seed)

    return initializer


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Any:
    """Glorot and Bengio 2010: variance 2 / (inputs + outputs).

    Args:
        uniform: Uniformly distributed; else normal, none over two deviations from 0.
        seed: Makes the numbers reproducible.
        dtype: A floating-point type.
    """
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer
