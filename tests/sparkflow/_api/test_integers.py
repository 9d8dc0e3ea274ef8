"""Integers passed by users: all functions that take one reject the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow._api.integers import as_integer

WRONG = [True, np.True_, 2.0, np.float32(2), "2", None, [2], np.array([2]), np.array(True)]


@pytest.mark.parametrize("value", [2, np.int8(2), np.uint64(2), np.array(2)])
def test_integers(value: Any) -> None:
    found = as_integer(value)
    assert found == 2
    assert type(found) is int


@pytest.mark.parametrize("value", WRONG)
def test_what_is_none(value: Any) -> None:
    assert as_integer(value) is None


def _run_steps(value: Any) -> None:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        tf.train.run_loop(session, tf.no_op(), num_steps=value)


def _parameter(value: Any) -> None:
    from sparkflow.spark.params.converters import integer

    integer(1)(value)


def _batch_size(value: Any) -> None:
    from sparkflow.spark.programs.cluster_dataset import whole_number

    whole_number("batch_size", value)


def _stage(value: Any) -> None:
    from sparkflow.spark import stage

    stage(value)


def _hash_key(value: Any) -> None:
    tf.contrib.lookup.StrongHashSpec((value, 1))


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize(
    "ask", [tf.Dimension, _run_steps, _parameter, _batch_size, _stage, _hash_key]
)
def test_all_who_ask_for_one_refuse_the_same(ask: Callable[[Any], object], value: Any) -> None:
    if value is None and ask in (tf.Dimension, _run_steps):
        pytest.skip("None stands for what is not known, or not limited")
    with pytest.raises(TypeError):
        ask(value)
