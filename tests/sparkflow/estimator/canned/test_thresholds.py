"""Accuracy, precision and recall where a probability of at least a threshold is a yes."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.estimator.canned.thresholds import at_thresholds, checked_thresholds


def test_each_threshold_has_its_metrics():
    labels = tf.constant([[1], [1], [0], [0]])
    probabilities = tf.constant([[0.9], [0.5], [0.5], [0.1]])
    found = at_thresholds((0.5, 0.7), labels, probabilities, np.float32([[1], [1], [2], [1]]))
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        session.run([update for _, update in found.values()])
        values = session.run({key: value for key, (value, _) in found.items()})
    end = "positive_threshold_0.{}00000"
    assert values == {
        f"accuracy/{end}".format(5): pytest.approx(3 / 5),
        f"precision/{end}".format(5): pytest.approx(1 / 2),
        f"recall/{end}".format(5): 1.0,
        f"accuracy/{end}".format(7): pytest.approx(4 / 5),
        f"precision/{end}".format(7): 1.0,
        f"recall/{end}".format(7): pytest.approx(1 / 2),
    }


@pytest.mark.parametrize("wrong", [0, 1, -0.5, float("nan")])
def test_thresholds_are_between_0_and_1(wrong):
    with pytest.raises(ValueError, match="thresholds not in"):
        checked_thresholds([0.5, wrong])
    assert checked_thresholds(None) == ()
