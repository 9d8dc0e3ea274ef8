"""An optimizer around another one shows the other's slots and variables."""

import pytest

import sparkflow as tf

AROUND = {
    "accumulating": lambda opt: tf.train.GradientAccumulationOptimizer(opt, 1),
    "clipping": lambda opt: tf.contrib.estimator.clip_gradients_by_norm(opt, 1.0),
    "synchronous": lambda opt: tf.train.SyncReplicasOptimizer(opt, 1),
}


@pytest.mark.parametrize("name", AROUND)
def test_slots_and_variables_are_those_of_the_other(name):
    with tf.Graph().as_default():
        v = tf.Variable([1.0, 2.0])
        inner = tf.train.AdamOptimizer(0.1)
        outer = AROUND[name](inner)
        outer.minimize(tf.reduce_sum(v), global_step=tf.train.create_global_step())
        assert outer.get_slot_names() == inner.get_slot_names() == ["m", "v"]
        assert outer.get_slot(v, "m") is inner.get_slot(v, "m") is not None
        assert outer.variables() == inner.variables()
        assert len(inner.variables()) == 4
