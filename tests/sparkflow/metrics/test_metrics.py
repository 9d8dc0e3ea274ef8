"""What the comparison with TensorFlow does not cover: unknown ranks, late weights, eager mode."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.eager import mode


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_weights_that_do_not_fit_are_found_when_they_run():
    values, weights = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    _, update = tf.metrics.mean(values, weights)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert session.run(update, {values: [1.0, 3.0], weights: 2.0}) == 2.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="can not be broadcast"):
            session.run(update, {values: [1.0, 3.0], weights: [1.0, 2.0, 3.0]})


def test_a_last_dimension_of_one_is_dropped_when_it_runs():
    labels, predictions = tf.placeholder(tf.int64), tf.placeholder(tf.int64)
    _, update = tf.metrics.accuracy(labels, predictions)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert session.run(update, {labels: [[1], [2]], predictions: [1, 0]}) == 0.5


def test_predictions_outside_of_0_and_1_are_refused():
    scores = tf.placeholder(tf.float32, [2])
    _, update = tf.metrics.auc(tf.constant([1, 0]), scores)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"predictions must be in \[0, 1\]"
        ):
            session.run(update, {scores: [0.5, 1.5]})


def test_the_area_is_that_of_ranks():
    """By Mann and Whitney: how often a positive example ranks above a negative one."""
    random = np.random.RandomState(0)
    labels, scores = random.randint(0, 2, 300), random.rand(300)
    pairs = scores[labels == 1][:, None] - scores[labels == 0][None]
    _, update = tf.metrics.auc(labels, tf.constant(scores), num_thresholds=2000)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        np.testing.assert_allclose(session.run(update), (pairs > 0).mean(), atol=2e-3)


def test_there_must_be_a_graph(monkeypatch):
    monkeypatch.setattr("sparkflow.metrics.scope.executing_eagerly", lambda: True)
    assert not mode.executing_eagerly()
    with pytest.raises(RuntimeError, match=r"tf\.metrics\.mean is not supported when eager"):
        tf.metrics.mean([1.0])
