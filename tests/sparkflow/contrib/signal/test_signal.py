"""`tf.contrib.signal` has the functions of `tf.signal`."""

import pytest

import sparkflow as tf


def test_its_names_are_those_of_signal():
    for name in ("frame", "hann_window", "linear_to_mel_weight_matrix", "overlap_and_add", "stft"):
        assert getattr(tf.contrib.signal, name) is getattr(tf.signal, name)
    with pytest.raises(AttributeError, match="nothing"):
        tf.contrib.signal.nothing  # noqa: B018
