import pytest

import sparkflow as tf
from sparkflow.train import replication


class Halving:
    """A strategy that halves the gradients, then lets the optimizer do its work."""

    def __init__(self):
        self.asked = []

    def apply_gradients(self, optimizer, grads_and_vars, global_step, name):
        self.asked.append((optimizer.get_name(), name))
        halved = [(grad * 0.5, variable) for grad, variable in grads_and_vars]
        return optimizer.apply_dense_and_sparse(halved, global_step, name)


def test_a_strategy_in_scope_takes_the_gradients():
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(1.0)
        step = tf.train.create_global_step()
        strategy = Halving()
        assert replication.current() is None
        with replication.scope(strategy):
            assert replication.current() is strategy
            train = tf.train.GradientDescentOptimizer(1.0).minimize(w * 1.0, step, name="train")
        assert replication.current() is None
        plain = tf.train.GradientDescentOptimizer(1.0).minimize(w * 1.0)
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run([w, step]) == [0.5, 1]
        session.run(plain)
        assert session.run(w) == -0.5
    assert strategy.asked == [("GradientDescent", "train")]


def test_a_strategy_is_out_of_scope_after_an_error():
    with pytest.raises(RuntimeError, match="model_fn"), replication.scope(Halving()):
        raise RuntimeError("model_fn")
    assert replication.current() is None
