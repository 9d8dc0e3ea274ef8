"""Metrics over thresholds of scores against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics

import sparkflow as tf

RNG = np.random.default_rng(8)
LABELS = RNG.random(400) < 0.4
SCORES = np.clip(LABELS * 0.3 + RNG.random(400) * 0.7, 0, 1).astype(np.float32)
WEIGHTS = RNG.integers(1, 4, 400).astype(np.float32)


def final(metric, *args, batches=4, weights=None, **others):
    with tf.Graph().as_default(), tf.Session() as session:
        labels, scores = tf.placeholder(tf.bool, [None]), tf.placeholder(tf.float32, [None])
        factor = None if weights is None else tf.placeholder(tf.float32, [None])
        value, update = metric(labels, scores, *args, weights=factor, **others)
        session.run(tf.local_variables_initializer())
        for part in np.array_split(np.arange(len(LABELS)), batches):
            feed = {labels: LABELS[part], scores: SCORES[part]}
            if weights is not None:
                feed[factor] = weights[part]
            session.run(update, feed)
        return session.run(value)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_areas_come_near_those_of_all_thresholds(weights):
    roc = final(tf.metrics.auc, weights=weights, num_thresholds=1000)
    assert roc == pytest.approx(
        metrics.roc_auc_score(LABELS, SCORES, sample_weight=weights), abs=2e-3
    )
    pr = final(
        tf.metrics.auc,
        weights=weights,
        num_thresholds=1000,
        curve="PR",
        summation_method="careful_interpolation",
    )
    wanted = metrics.average_precision_score(LABELS, SCORES, sample_weight=weights)
    assert pr == pytest.approx(wanted, abs=0.01)


def test_the_sums_enclose_the_trapezoids():
    areas = [
        final(tf.metrics.auc, num_thresholds=50, summation_method=method)
        for method in ("minoring", "trapezoidal", "majoring")
    ]
    assert areas == sorted(areas)
    assert areas[1] == pytest.approx((areas[0] + areas[2]) / 2, abs=1e-5)


@pytest.mark.parametrize("threshold", [0.25, 0.5])
@pytest.mark.parametrize("kind", ["precision", "recall"])
def test_shares_at_thresholds(kind, threshold):
    found = final(getattr(tf.metrics, f"{kind}_at_thresholds"), [threshold, 0.99])
    wanted = getattr(metrics, f"{kind}_score")(LABELS, threshold < SCORES)
    assert found[0] == pytest.approx(wanted, rel=1e-5)
    assert found.shape == (2,)


def test_sensitivity_where_the_specificity_is_high_enough():
    found = final(tf.metrics.sensitivity_at_specificity, 0.8, num_thresholds=1000)
    false, true, _ = metrics.roc_curve(LABELS, SCORES)
    assert found == pytest.approx(true[1 - false >= 0.8].max(), abs=0.01)


def test_specificity_where_the_sensitivity_is_high_enough():
    found = final(tf.metrics.specificity_at_sensitivity, 0.8, num_thresholds=1000)
    false, true, _ = metrics.roc_curve(LABELS, SCORES)
    assert found == pytest.approx((1 - false)[true >= 0.8].max(), abs=0.02)


@pytest.mark.parametrize("given", [-0.1, 1.1])
def test_a_sensitivity_is_a_share(given):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"between|\[0, 1\]"):
        tf.metrics.sensitivity_at_specificity([True], [0.5], given)
