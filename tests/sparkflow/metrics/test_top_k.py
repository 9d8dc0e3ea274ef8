"""Metrics of the k best classes against a count by hand."""

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(9)
SCORES = RNG.permuted(np.tile(np.arange(6.0), (8, 1)), axis=1).astype(np.float32)
LABELS = np.array([RNG.choice(6, 2, replace=False) for _ in range(8)])


def best(k):
    return np.argsort(-SCORES, axis=1)[:, :k]


def final(metric, *args, **others):
    with tf.Graph().as_default(), tf.Session() as session:
        scores = tf.placeholder(tf.float32, [None, 6])
        labels = tf.placeholder(tf.int64, [None, 2])
        value, update = metric(labels, scores, *args, **others)
        session.run(tf.local_variables_initializer())
        for part in (slice(0, 5), slice(5, 8)):
            updated = session.run(update, {labels: LABELS[part], scores: SCORES[part]})
        np.testing.assert_equal(session.run(value), updated)
        return updated


def found_by_hand(k, class_id=None):
    """Returns the numbers of the best that are labels, of those taken, and of labels."""
    hits = taken = wanted = 0
    for labels, classes in zip(LABELS, best(k), strict=True):
        labels, classes = set(labels.tolist()), set(classes.tolist())
        if class_id is not None:
            labels, classes = labels & {class_id}, classes & {class_id}
        hits, taken, wanted = (
            hits + len(labels & classes),
            taken + len(classes),
            wanted + len(labels),
        )
    return hits, taken, wanted


@pytest.mark.parametrize("class_id", [None, 3])
@pytest.mark.parametrize("k", [1, 3, 6])
def test_precision_and_recall(k, class_id):
    hits, taken, wanted = found_by_hand(k, class_id)
    precision = final(tf.metrics.precision_at_k, k, class_id=class_id)
    assert precision == pytest.approx(hits / taken) if taken else np.isnan(precision)
    assert final(tf.metrics.recall_at_k, k, class_id=class_id) == pytest.approx(hits / wanted)


@pytest.mark.parametrize("k", [1, 3])
def test_average_precision(k):
    scores = []
    for labels, classes in zip(LABELS, best(k), strict=True):
        hits, total = 0, 0.0
        for place, each in enumerate(classes, 1):
            if each in labels:
                hits += 1
                total += hits / place
        scores.append(total / min(k, len(labels)))
    assert final(tf.metrics.average_precision_at_k, k) == pytest.approx(np.mean(scores))


def test_rows_of_no_weight_do_not_count():
    weights = (np.arange(8) % 2).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        _, update = tf.metrics.recall_at_k(LABELS, SCORES, 2, weights=weights)
        session.run(tf.local_variables_initializer())
        found = session.run(update)
    rows = [i for i in range(8) if weights[i]]
    hits = sum(len(set(LABELS[i]) & set(best(2)[i])) for i in rows)
    assert found == pytest.approx(hits / (2 * len(rows)))


def test_sparse_labels_are_the_same_as_dense_ones():
    rows = np.stack([np.repeat(np.arange(8), 2), np.tile([0, 1], 8)], axis=1)
    with tf.Graph().as_default(), tf.Session() as session:
        sparse = tf.SparseTensor(rows, LABELS.ravel(), [8, 2])
        _, one = tf.metrics.recall_at_k(sparse, SCORES, 3)
        _, other = tf.metrics.recall_at_k(LABELS, SCORES, 3)
        session.run(tf.local_variables_initializer())
        assert session.run(one) == session.run(other)
