"""The parts of `tf.contrib`; `__init__.py` loads each on first use."""

from . import (
    crf as crf,
    framework as framework,
    layers as layers,
    legacy_seq2seq as legacy_seq2seq,
    losses as losses,
    metrics as metrics,
    opt as opt,
    rnn as rnn,
    seq2seq as seq2seq,
    slim as slim,
    training as training,
    util as util,
)
