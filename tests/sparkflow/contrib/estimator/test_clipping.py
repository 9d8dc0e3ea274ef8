"""`clip_gradients_by_norm`: all gradients together are no longer than a norm."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib.estimator import clip_gradients_by_norm


def test_gradients_are_clipped_together():
    a, b = tf.Variable([0.0, 0.0]), tf.Variable(0.0)
    loss = 3.0 * tf.reduce_sum(a) - 4.0 * b
    optimizer = clip_gradients_by_norm(tf.train.MomentumOptimizer(1.0, 0.5), 2.0)
    train = optimizer.minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        norm = np.sqrt(3**2 + 3**2 + 4**2)
        expected = np.array([-3, -3, 4]) * 2 / norm
        np.testing.assert_allclose(np.append(session.run(a), session.run(b)), expected, rtol=1e-6)
        slot = session.run(optimizer.get_slot(b, "momentum"))
    assert slot == pytest.approx(-8 / norm)
    assert optimizer.get_slot_names() == ["momentum"]
    assert optimizer.get_name() == "ClipByNormMomentum"
    assert len(optimizer.variables()) == 2


def test_what_is_no_optimizer_is_refused():
    with pytest.raises(TypeError, match=r"tf\.train\.Optimizer"):
        clip_gradients_by_norm("Adam", 1.0)
