import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_losses_are_listed_and_summed(session):
    w = tf.get_variable(
        "w", [2], initializer=tf.ones_initializer(), regularizer=lambda v: tf.nn.l2_loss(v)
    )
    first = tf.losses.mean_squared_error([0.0, 0.0], w)
    tf.losses.absolute_difference([0.0], [5.0], loss_collection=None)
    tf.losses.add_loss(tf.constant(10.0))
    assert tf.losses.get_losses()[0] is first
    session.run(w.initializer)
    assert session.run(tf.losses.get_total_loss()) == 1.0 + 10.0 + 1.0
    assert session.run(tf.losses.get_total_loss(add_regularization_losses=False)) == 11.0
    assert session.run(tf.losses.get_regularization_loss()) == 1.0


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("none", [2.0, 0.0, 12.0]),
        ("weighted_sum", 14.0),
        ("weighted_mean", 14.0 / 5),
        ("weighted_sum_by_nonzero_weights", 7.0),
        ("weighted_sum_over_batch_size", 14.0 / 3),
    ],
)
def test_reductions(session, reduction, expected):
    loss = tf.losses.compute_weighted_loss([1.0, 2.0, 4.0], [2.0, 0.0, 3.0], reduction=reduction)
    np.testing.assert_allclose(session.run(loss), expected, rtol=1e-6)


def test_no_example_means_no_loss(session):
    assert session.run(tf.losses.compute_weighted_loss([1.0, 2.0], [0.0, 0.0])) == 0.0


def test_what_does_not_fit_is_named():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Invalid ReductionKey mean"):
            tf.losses.compute_weighted_loss([1.0], reduction="mean")
        with pytest.raises(ValueError, match=r"values.shape=\[2\], weights.shape=\[3\]"):
            tf.losses.compute_weighted_loss([1.0, 2.0], [1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match=r"\(2,\) and \(3,\) are incompatible"):
            tf.losses.mean_squared_error([1.0, 2.0, 3.0], [1.0, 2.0])
        with pytest.raises(ValueError, match="Rank mismatch"):
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[[1]], logits=[[1.0, 2.0]])
        with pytest.raises(ValueError, match="named arguments"):
            tf.nn.sigmoid_cross_entropy_with_logits([1.0], [1.0])
        with pytest.raises(ValueError, match="must be provided"):
            tf.nn.softmax_cross_entropy_with_logits(logits=[1.0])


def test_labels_get_no_gradient_in_the_first_version(session):
    labels = tf.constant([[0.3, 0.7]])
    logits = tf.constant([[1.0, 2.0]])
    old = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    new = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)
    assert tf.gradients(old, labels) == [None]
    (gradient,) = tf.gradients(new, labels)
    log_softmax = np.log(np.exp([1.0, 2.0]) / np.exp([1.0, 2.0]).sum())
    np.testing.assert_allclose(session.run(gradient), [-log_softmax], rtol=1e-5)


def test_large_logits_do_not_overflow(session):
    x = tf.constant([1000.0, -1000.0, 0.0])
    loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=[0.0, 0.0, 1.0], logits=x)
    np.testing.assert_allclose(session.run(loss), [1000.0, 0.0, np.log(2.0)], rtol=1e-6)
    np.testing.assert_allclose(session.run(tf.gradients(loss, x)[0]), [1.0, 0.0, -0.5])
