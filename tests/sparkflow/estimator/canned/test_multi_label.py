"""A head whose examples belong to several classes: loss and metrics computed by hand."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import estimator as contrib
from support.heads import evaluated

LOGITS = np.float32([[1.0, -1.0, 2.0], [0.5, 0.0, -2.0]])
MANY = np.int64([[1, 0, 0], [1, 1, 0]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def entropies(labels, logits):
    p = sigmoid(logits.astype(np.float64))
    return -(labels * np.log(p) + (1 - labels) * np.log(1 - p))


SPARSE = {"indices": [[0, 0], [1, 0], [1, 1]], "dense_shape": [2, 2]}


@pytest.mark.parametrize(
    ("labels", "vocabulary"),
    [
        (lambda: tf.constant(MANY), None),
        (lambda: tf.SparseTensor(values=np.int64([0, 1, 0]), **SPARSE), None),
        (lambda: tf.SparseTensor(values=["cat", "dog", "cat"], **SPARSE), ["cat", "dog", "owl"]),
    ],
    ids=["dense", "numbers", "names"],
)
def test_a_multi_label_head_measures_all_classes(labels, vocabulary):
    head = contrib.multi_label_head(3, label_vocabulary=vocabulary, thresholds=[0.6])
    loss, metrics = evaluated(head, LOGITS, labels)
    each = entropies(MANY, LOGITS).mean(axis=1)
    assert loss == pytest.approx(each.mean(), rel=1e-6)
    assert metrics["average_loss"] == pytest.approx(each.mean(), rel=1e-6)
    said = sigmoid(LOGITS) >= 0.6
    assert metrics["accuracy/positive_threshold_0.600000"] == pytest.approx((said == MANY).mean())
    assert metrics["precision/positive_threshold_0.600000"] == pytest.approx(2 / 3)
    assert metrics["recall/positive_threshold_0.600000"] == pytest.approx(2 / 3)
    assert 0 < metrics["auc"] < 1


def test_weights_weigh_examples():
    head = contrib.multi_label_head(3, weight_column="w", loss_reduction=tf.losses.Reduction.SUM)
    loss, metrics = evaluated(head, LOGITS, lambda: tf.constant(MANY), {"w": np.float32([2, 0])})
    first = entropies(MANY, LOGITS).mean(axis=1)[0]
    assert loss == pytest.approx(2 * first, rel=1e-6)
    assert metrics["average_loss"] == pytest.approx(first, rel=1e-6)
