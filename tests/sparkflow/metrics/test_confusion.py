"""Metrics of many classes, accumulated over batches, against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics

import sparkflow as tf

RNG = np.random.default_rng(6)
LABELS = RNG.integers(0, 4, (3, 2, 25))
PREDICTIONS = np.where(RNG.random(LABELS.shape) < 0.6, LABELS, RNG.integers(0, 4, LABELS.shape))
WEIGHTS = RNG.integers(1, 4, LABELS.shape).astype(np.float32)


def final(metric, classes, weights=None):
    with tf.Graph().as_default(), tf.Session() as session:
        labels, predictions = (tf.placeholder(tf.int64, LABELS.shape[1:]) for _ in "lp")
        factor = None if weights is None else tf.placeholder(tf.float32, LABELS.shape[1:])
        value, update = metric(labels, predictions, classes, weights=factor)
        session.run(tf.local_variables_initializer())
        for number in range(len(LABELS)):
            feed = {labels: LABELS[number], predictions: PREDICTIONS[number]}
            if weights is not None:
                feed[factor] = weights[number]
            updated = session.run(update, feed)
        return session.run(value), updated


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_mean_iou(weights):
    value, matrix = final(tf.metrics.mean_iou, 4, weights)
    some = None if weights is None else weights.ravel()
    given = (LABELS.ravel(), PREDICTIONS.ravel())
    np.testing.assert_array_equal(matrix, metrics.confusion_matrix(*given, sample_weight=some))
    wanted = metrics.jaccard_score(*given, average="macro", sample_weight=some)
    assert value == pytest.approx(wanted, rel=1e-6)


def test_classes_that_do_not_occur_are_not_in_the_mean():
    few, _ = final(tf.metrics.mean_iou, 4)
    many, _ = final(tf.metrics.mean_iou, 9)
    assert many == pytest.approx(few)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_mean_per_class_accuracy(weights):
    value, each = final(tf.metrics.mean_per_class_accuracy, 4, weights)
    some = None if weights is None else weights.ravel()
    given = (LABELS.ravel(), PREDICTIONS.ravel())
    wanted = metrics.recall_score(*given, average=None, sample_weight=some)
    np.testing.assert_allclose(each, wanted, rtol=1e-6)
    assert value == pytest.approx(wanted.mean(), rel=1e-6)


def test_shapes_must_agree():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="incompatible"):
        tf.metrics.mean_iou([1, 2, 3], [1, 2], 4)
