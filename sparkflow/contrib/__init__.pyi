"""The parts of `tf.contrib`; `__init__.py` loads each on first use."""

from . import (
    framework as framework,
    layers as layers,
    losses as losses,
    metrics as metrics,
    opt as opt,
    rnn as rnn,
    slim as slim,
    training as training,
)
