"""Scopes of a graph that are opened while a branch or loop of it is written down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def _loop(body: Any, start: Any = 2.0, turns: int = 2) -> Any:
    return tf.while_loop(lambda n, a: n < turns, lambda n, a: (n + 1, body(a)), [0, start])[1]


@tf.RegisterGradient("TimesHundred")
def _times_hundred(op: Any, gradient: Any) -> Any:
    return gradient * 100


def test_gradient_overrides_of_the_graph_hold_in_branches_and_loops() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.constant(2.0)

        def square(value: Any) -> Any:
            with graph.gradient_override_map({"Square": "TimesHundred"}):
                return tf.square(value)

        chosen = tf.cond(x > 0, lambda: square(x), lambda: x)
        looped = _loop(square, x)
        assert session.run(tf.gradients(chosen, x)[0]) == 100
        assert session.run(tf.gradients(looped, x)[0]) == 10_000
        assert session.run(tf.gradients(tf.square(x), x)[0]) == 4


def test_control_dependencies_of_the_graph_hold_in_branches() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        p = tf.placeholder(tf.bool, [])

        def branch() -> Any:
            with graph.control_dependencies([tf.assign_add(v, 1.0)]), graph.name_scope("named"):
                made = tf.constant(5.0)
            assert made.op.name.endswith("named/Const")
            return made

        y = tf.cond(p, branch, lambda: 0.0)
        session.run(v.initializer)
        assert [session.run(y, {p: each}) for each in (True, False, True)] == [5, 0, 5]
        assert session.run(v) == 2


def test_the_graph_as_default_stays_in_the_body() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:

        def body(value: Any) -> Any:
            with graph.as_default():
                return value + tf.random_uniform([])

        drawn = session.run(tf.map_fn(body, tf.zeros([20])))
        assert len(set(drawn.tolist())) == 20


@pytest.mark.parametrize("rate", [0.5, None])
def test_each_turn_drops_other_units(rate: float | None) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.ones([50])

        def dropped(_: Any) -> Any:
            return tf.nn.dropout(x, rate=tf.minimum(0.5, 1.0) if rate is None else rate)

        drawn = session.run(tf.map_fn(dropped, tf.zeros([5])))
        assert len({row.tobytes() for row in drawn}) == 5


def test_moving_averages_may_be_applied_in_a_branch() -> None:
    """The batch normalisation that many TensorFlow 1 programs write by hand."""
    with tf.Graph().as_default(), tf.Session() as session:
        training, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [None, 2])
        mean, variance = tf.nn.moments(x, [0])
        averages = tf.train.ExponentialMovingAverage(decay=0.5)

        def update() -> Any:
            with tf.control_dependencies([averages.apply([mean, variance])]):
                return tf.identity(mean), tf.identity(variance)

        used, _ = tf.cond(
            training, update, lambda: (averages.average(mean), averages.average(variance))
        )
        session.run(tf.global_variables_initializer())
        batch = np.float32([[1, 2], [3, 6]])
        assert session.run(used, {training: True, x: batch}).tolist() == [2, 4]
        assert session.run(used, {training: False, x: batch}).tolist() == [1, 2]


def test_regularizers_of_variables_in_loops_are_outside() -> None:
    with tf.Graph().as_default(), tf.Session() as session:

        def regularizer(weights: Any) -> Any:
            return tf.reduce_sum(weights * weights)

        def body(value: Any) -> Any:
            with tf.variable_scope("loop", reuse=tf.AUTO_REUSE, regularizer=regularizer):
                w = tf.get_variable("w", [3], initializer=tf.ones_initializer())
            return value + tf.reduce_sum(w)

        y = _loop(body)
        loss = tf.losses.get_regularization_loss()
        w = tf.trainable_variables()[0]
        session.run(tf.global_variables_initializer())
        assert session.run(loss) == 3
        assert session.run(tf.gradients(y + loss, w)[0]).tolist() == [4, 4, 4]


@pytest.mark.parametrize("is_resource", [False, True])
@pytest.mark.parametrize("flow", ["cond", "while", "map"])
def test_what_reads_an_update_waits_for_it(is_resource: bool, flow: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=is_resource)
        updated = v.assign_add(1.0)
        made = {
            "cond": lambda: tf.cond(tf.constant(True), lambda: updated * 1.0, lambda: 0.0),
            "while": lambda: _loop(lambda a: a + updated, 0.0, 1),
            "map": lambda: tf.reduce_sum(tf.map_fn(lambda k: k * updated, tf.ones([1]))),
        }[flow]()
        session.run(v.initializer)
        assert session.run(made) == 1
        assert session.run(v) == 1
