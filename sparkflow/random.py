"""`tf.random`: random tensors under their newer names."""

from sparkflow.ops.random import (
    multinomial,
    random_normal,
    random_uniform,
    set_random_seed,
    truncated_normal,
)
from sparkflow.ops.random import (
)
from sparkflow.ops.random import (
    random_normal as normal,
)
from sparkflow.ops.random import (
    random_shuffle as shuffle,
)
from sparkflow.ops.random import (
    random_uniform as uniform,
)

__all__ = [
    "multinomial",
    "normal",
    "random_normal",
    "random_uniform",
    "set_random_seed",
    "shuffle",
    "truncated_normal",
    "uniform",
]
