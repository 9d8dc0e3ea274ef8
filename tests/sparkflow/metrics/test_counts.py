"""Counts of right and wrong answers, accumulated over batches, against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics

import sparkflow as tf

RNG = np.random.default_rng(5)
LABELS = RNG.random((3, 40)) < 0.4
PREDICTIONS = LABELS ^ (RNG.random((3, 40)) < 0.3)
WEIGHTS = RNG.integers(1, 4, (3, 40)).astype(np.float32)


def streamed(metric, weights=None, **others):
    """Returns the metric's value after each batch, and its update operation."""
    with tf.Graph().as_default(), tf.Session() as session:
        labels, predictions = (tf.placeholder(tf.bool, [None]) for _ in "lp")
        factor = None if weights is None else tf.placeholder(tf.float32, [None])
        value, update = metric(labels, predictions, weights=factor, **others)
        session.run(tf.local_variables_initializer())
        before = session.run(value)
        found = []
        for number in range(len(LABELS)):
            feed = {labels: LABELS[number], predictions: PREDICTIONS[number]}
            if weights is not None:
                feed[factor] = weights[number]
            updated = session.run(update, feed)
            assert session.run(value) == updated
            found.append(updated)
        return before, found


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    ("metric", "place"),
    [("true_negatives", 0), ("false_positives", 1), ("false_negatives", 2), ("true_positives", 3)],
)
def test_counts(metric, place, weights):
    before, found = streamed(getattr(tf.metrics, metric), weights)
    assert before == 0.0
    for batches, count in enumerate(found, 1):
        some = None if weights is None else weights[:batches].ravel()
        matrix = metrics.confusion_matrix(
            LABELS[:batches].ravel(), PREDICTIONS[:batches].ravel(), sample_weight=some
        )
        assert count == matrix.ravel()[place]


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("metric", ["precision", "recall"])
def test_shares(metric, weights):
    before, found = streamed(getattr(tf.metrics, metric), weights)
    assert before == 0.0
    wanted = getattr(metrics, f"{metric}_score")(
        LABELS.ravel(),
        PREDICTIONS.ravel(),
        sample_weight=None if weights is None else weights.ravel(),
    )
    assert found[-1] == pytest.approx(wanted, rel=1e-6)


def test_nothing_predicted_is_a_precision_of_0():
    with tf.Graph().as_default(), tf.Session() as session:
        _, update = tf.metrics.precision([True, True], [False, False])
        session.run(tf.local_variables_initializer())
        assert session.run(update) == 0.0


def test_pairs_go_to_the_collections_that_are_named():
    with tf.Graph().as_default() as graph:
        value, update = tf.metrics.recall(
            [1], [1], metrics_collections=["values"], updates_collections="updates"
        )
        assert graph.get_collection("values") == [value]
        assert graph.get_collection("updates") == [update]
        counted = graph.get_collection(tf.GraphKeys.METRIC_VARIABLES)
        assert counted == tf.local_variables()
        assert not tf.trainable_variables()
