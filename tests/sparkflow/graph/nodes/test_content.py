"""Digests of nodes: what they include, and what they ignore."""

from __future__ import annotations

import pytest

import sparkflow as tf
from sparkflow.graph.nodes.content import Digests, callees


def digest(build, name="y"):
    with tf.Graph().as_default() as graph:
        tf.identity(build(), name=name)
        return Digests(graph.as_graph_def()).of(name)


def base():
    return tf.constant([1.0, 2.0]) * 3.0


def elsewhere():
    with tf.name_scope("deep"), tf.device("/cpu:0"), tf.control_dependencies([tf.no_op()]):
        return base()


@pytest.mark.parametrize(
    ("build", "is_same"),
    [
        (elsewhere, True),
        (lambda: tf.constant([1.0, 2.0]) * 4.0, False),
        (lambda: tf.constant([1.0, 2.0]) + 3.0, False),
        (lambda: 3.0 * tf.constant([1.0, 2.0]), False),
        (lambda: tf.split(tf.constant([1.0, 2.0]), 2)[0], False),
    ],
)
def test_equal_digests_compute_the_same(build, is_same):
    assert (digest(build) == digest(base)) == is_same


def test_slots_and_functions_count():
    first, second = (digest(lambda i=i: tf.split(tf.constant([1.0, 1.0]), 2)[i]) for i in range(2))
    assert first != second

    def mapped(value):
        return tf.map_fn(lambda x: x + value, tf.constant([1.0]))

    assert digest(lambda: mapped(1.0)) != digest(lambda: mapped(2.0))


def test_what_a_node_calls():
    with tf.Graph().as_default() as graph:
        tf.cond(tf.placeholder(tf.bool), lambda: 1.0, lambda: 2.0)
        nodes = graph.as_graph_def().node
    called = {name for node in nodes for name in callees(node)}
    assert len([name for name in called if "cond" in name.lower()]) >= 2
