"""`tf.random`: random tensors under their newer names."""

from sparkflow.ops.random import (
    multinomial,
    random_normal,
    random_shuffle,
    random_uniform,
    set_random_seed,
    truncated_normal,
)

normal = random_normal
shuffle = random_shuffle
uniform = random_uniform

__all__ = [
    "multinomial",
    "normal",
    "random_normal",
    "random_shuffle",
    "random_uniform",
    "set_random_seed",
    "shuffle",
    "truncated_normal",
    "uniform",
]
