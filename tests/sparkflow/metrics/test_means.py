"""Means over batches against numpy and scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics

import sparkflow as tf

RNG = np.random.default_rng(7)
LABELS = RNG.normal(size=(3, 20)).astype(np.float32)
PREDICTIONS = (LABELS + RNG.normal(size=LABELS.shape)).astype(np.float32)
WEIGHTS = RNG.integers(0, 3, LABELS.shape).astype(np.float32)


def final(build, *streams, dtype=tf.float32):
    """Returns the value of a metric after all batches, checked against that of its last update."""
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [tf.placeholder(dtype, stream.shape[1:]) for stream in streams]
        value, update = build(*inputs)
        session.run(tf.local_variables_initializer())
        for batches in zip(*streams, strict=True):
            updated = session.run(update, dict(zip(inputs, batches, strict=True)))
        np.testing.assert_array_equal(session.run(value), updated)
        return updated


def test_mean():
    assert final(tf.metrics.mean, LABELS) == pytest.approx(LABELS.mean(), rel=1e-5)
    found = final(tf.metrics.mean, LABELS, WEIGHTS)
    assert found == pytest.approx(np.average(LABELS, weights=WEIGHTS), rel=1e-5)


def test_mean_of_each_element():
    found = final(tf.metrics.mean_tensor, LABELS, WEIGHTS)
    with np.errstate(invalid="ignore"):
        wanted = (LABELS * WEIGHTS).sum(0) / WEIGHTS.sum(0)
    np.testing.assert_allclose(found, np.nan_to_num(wanted), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("mean_absolute_error", metrics.mean_absolute_error),
        ("mean_squared_error", metrics.mean_squared_error),
        ("root_mean_squared_error", metrics.root_mean_squared_error),
    ],
)
def test_errors(ours, theirs):
    metric = getattr(tf.metrics, ours)
    for weights in ((), (WEIGHTS,)):
        found = final(metric, LABELS, PREDICTIONS, *weights)
        some = weights[0].ravel() if weights else None
        wanted = theirs(LABELS.ravel(), PREDICTIONS.ravel(), sample_weight=some)
        assert found == pytest.approx(wanted, rel=1e-5)


def test_relative_errors_are_0_where_the_normalizer_is():
    normalizer = np.where(np.arange(20) % 4, np.abs(LABELS[0]), 0.0).astype(np.float32)
    found = final(
        lambda labels, predictions: tf.metrics.mean_relative_error(labels, predictions, normalizer),
        LABELS,
        PREDICTIONS,
    )
    errors = np.abs(LABELS - PREDICTIONS)
    wanted = np.divide(errors, normalizer, out=np.zeros_like(errors), where=normalizer != 0).mean()
    assert found == pytest.approx(wanted, rel=1e-5)


def test_accuracy():
    labels, guesses = (RNG.integers(0, 3, (3, 20)) for _ in "lg")
    found = final(tf.metrics.accuracy, labels, guesses, dtype=tf.int64)
    assert found == pytest.approx((labels == guesses).mean(), rel=1e-6)


def test_cosine_distance_is_of_vectors_of_length_1():
    def unit(array):
        return array / np.linalg.norm(array, axis=-1, keepdims=True)

    one, other = unit(LABELS.reshape(3, 5, 4)), unit(PREDICTIONS.reshape(3, 5, 4))
    found = final(lambda a, b: tf.metrics.mean_cosine_distance(a, b, dim=1), one, other)
    assert found == pytest.approx(1 - (one * other).sum(-1).mean(), rel=1e-5)


def test_percentage_below():
    found = final(lambda values: tf.metrics.percentage_below(values, 0.2), LABELS)
    assert found == pytest.approx((LABELS < 0.2).mean(), rel=1e-6)


def test_no_weight_at_all_is_a_mean_of_0():
    assert final(tf.metrics.mean, LABELS, np.zeros_like(LABELS)) == 0.0
