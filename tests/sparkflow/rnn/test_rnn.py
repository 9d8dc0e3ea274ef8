"""What the golden cases of `rnn` do not cover: both runners agree, wrappers, training, servers."""

import numpy as np
import pytest

import sparkflow as tf

X = np.random.RandomState(0).randn(3, 5, 2).astype(np.float32)
cells = tf.nn.rnn_cell


def run(*fetches, feed=None, target=""):
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches), feed)


def uniform():
    return tf.variable_scope("net", initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=1))


@pytest.mark.parametrize("make", [cells.BasicRNNCell, cells.BasicLSTMCell, cells.GRUCell])
def test_loop_and_unrolled_network_agree_in_values_and_gradients(make):
    with tf.Graph().as_default(), uniform():
        cell, x = make(4), tf.constant(X)
        looped, last = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, sequence_length=[2, 5, 3])
        outputs, same = tf.nn.static_rnn(
            cell, tf.unstack(x, axis=1), dtype=tf.float32, sequence_length=[2, 5, 3], scope="rnn"
        )
        unrolled = tf.stack(outputs, 1)
        sources = [x, *tf.trainable_variables()]
        assert len(sources) in (3, 5)
        wanted = [tf.gradients(tf.reduce_sum(y * y), sources) for y in (looped, unrolled)]
        a, b, (ga, gb), s, t = run(looped, unrolled, wanted, last, same)
    np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_allclose(s, t, rtol=1e-6)
    for one, other in zip(ga, gb, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_lengths_may_be_fed_and_differ_from_step_to_step():
    with tf.Graph().as_default(), uniform(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, None, 2])
        lengths = tf.placeholder(tf.int32, [None])
        y, _ = tf.nn.dynamic_rnn(cells.GRUCell(4), x, lengths, dtype=tf.float32)
        assert y.shape.as_list() == [None, None, 4]
        session.run(tf.global_variables_initializer())
        short = session.run(y, {x: X[:, :2], lengths: [2, 2, 2]})
        long = session.run(y, {x: X, lengths: [2, 2, 2]})
    np.testing.assert_array_equal(long[:, :2], short)
    assert not long[:, 2:].any()


def test_a_network_learns():
    labels = (X.sum((1, 2)) > 0).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        _, state = tf.nn.dynamic_rnn(cells.BasicLSTMCell(8), tf.constant(X), dtype=tf.float32)
        logits = tf.layers.dense(state.h, 1)[:, 0]
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        train = tf.train.AdamOptimizer(0.05).minimize(loss)
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            session.run(train)
        assert session.run(loss) < 0.05


def test_a_network_runs_on_a_server():
    server = tf.train.Server.create_local_server()
    try:
        with tf.Graph().as_default(), uniform():
            y, _ = tf.nn.dynamic_rnn(cells.GRUCell(4), tf.constant(X), dtype=tf.float32)
            (gradient,) = tf.gradients(y, tf.trainable_variables()[:1])
            there = run(y, gradient, target=server.target)
            here = run(y, gradient)
    finally:
        server.stop()
    for one, other in zip(there, here, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_dropout_drops_outputs_and_keeps_their_mean():
    with tf.Graph().as_default():
        cell = cells.DropoutWrapper(cells.BasicRNNCell(1000), output_keep_prob=0.5, seed=3)
        y, _ = cell(tf.ones([1, 2]), cell.zero_state(1, tf.float32))
        plain, _ = cell.wrapped_cell(tf.ones([1, 2]), cell.zero_state(1, tf.float32))
        dropped, kept = run(y, plain)
    zeros = (dropped == 0).mean()
    assert 0.4 < zeros < 0.6
    np.testing.assert_allclose(dropped[dropped != 0], 2 * kept[dropped != 0], rtol=1e-6)


def test_variational_dropout_drops_the_same_units_in_every_step():
    with tf.Graph().as_default(), uniform():
        cell = cells.DropoutWrapper(
            cells.BasicRNNCell(50),
            output_keep_prob=0.5,
            variational_recurrent=True,
            dtype=tf.float32,
        )
        y, _ = tf.nn.dynamic_rnn(cell, tf.constant(X), dtype=tf.float32)
        (value,) = run(y)
    gone = value == 0
    assert 5 < gone[0, 0].sum() < 45
    assert (gone == gone[:1, :1]).all()


def test_a_cell_of_ones_own_may_use_get_variable():
    class Scaled(cells.RNNCell):
        state_size = output_size = 2

        def __call__(self, inputs, state, scope=None):
            with tf.variable_scope(scope or type(self).__name__):
                w = tf.get_variable("w", [], initializer=tf.constant_initializer(2.0))
                new = inputs * w + state
            return new, new

    with tf.Graph().as_default():
        y, last = tf.nn.dynamic_rnn(Scaled(), tf.constant(X), dtype=tf.float32)
        assert [v.name for v in tf.trainable_variables()] == ["rnn/Scaled/w:0"]
        value, state = run(y, last)
    np.testing.assert_allclose(value, 2 * X.cumsum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(state, value[:, -1])


def test_a_state_is_saved_and_found_again():
    class Saver:
        def __init__(self):
            self.kept = tf.get_variable("kept", [3, 4], initializer=tf.zeros_initializer())

        def state(self, name):
            assert name == "s"
            return self.kept.read_value()

        def save_state(self, name, value):
            return self.kept.assign(value)

    with tf.Graph().as_default(), uniform(), tf.Session() as session:
        saver = Saver()
        outputs, last = tf.nn.static_state_saving_rnn(
            cells.BasicRNNCell(4), tf.unstack(tf.constant(X), axis=1), saver, "s"
        )
        session.run(tf.global_variables_initializer())
        first, state = session.run([outputs[-1], last])
        np.testing.assert_array_equal(session.run(saver.kept), state)
        assert not np.allclose(session.run(outputs[-1]), first)


def test_a_basic_lstm_s_nodes_have_the_names_that_frozen_graphs_are_asked_for():
    with tf.Graph().as_default() as graph:
        cell = tf.nn.rnn_cell.BasicLSTMCell(2)
        outputs, state = tf.nn.static_rnn(cell, [tf.ones([1, 2])], dtype=tf.float32)
        assert outputs[0] is graph.get_tensor_by_name("rnn/basic_lstm_cell/Mul_2:0")
        assert state.c is graph.get_tensor_by_name("rnn/basic_lstm_cell/Add_1:0")
