"""Every optimizer against its formula in plain numpy, dense and with repeated rows."""

import numpy as np
import pytest

import sparkflow as tf

RATE = 0.1


def sgd(w, g, s):
    w -= RATE * g


def momentum(w, g, s):
    s["a"] = 0.9 * s.get("a", 0.0) + g
    w -= RATE * s["a"]


def nesterov(w, g, s):
    s["a"] = 0.9 * s.get("a", 0.0) + g
    w -= RATE * (g + 0.9 * s["a"])


def adagrad(w, g, s):
    s["a"] = s.get("a", 0.1) + g * g
    w -= RATE * g / np.sqrt(s["a"])


def adam(w, g, s):
    t = s["t"] = s.get("t", 0) + 1
    s["m"] = 0.9 * s.get("m", 0.0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0.0) + 0.001 * g * g
    w -= RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * s["m"] / (np.sqrt(s["v"]) + 1e-8)


OPTIMIZERS = {
    "sgd": (lambda: tf.train.GradientDescentOptimizer(RATE), sgd),
    "momentum": (lambda: tf.train.MomentumOptimizer(RATE, 0.9), momentum),
    "nesterov": (lambda: tf.train.MomentumOptimizer(RATE, 0.9, use_nesterov=True), nesterov),
    "adagrad": (lambda: tf.train.AdagradOptimizer(RATE), adagrad),
    "adam": (lambda: tf.train.AdamOptimizer(RATE), adam),
}
each_optimizer = pytest.mark.parametrize(("make", "formula"), OPTIMIZERS.values(), ids=OPTIMIZERS)
START = np.arange(8, dtype=np.float64).reshape(4, 2) / 8


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@each_optimizer
def test_dense_updates(make, formula):
    w = tf.Variable(START)
    target = np.array([[1.0, 0.0]] * 4)
    step = tf.train.get_or_create_global_step()
    train = make().minimize(tf.reduce_sum(tf.square(w - target)), step)
    expected, slots = START.copy(), {}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run(train)
            formula(expected, 2 * (expected - target), slots)
        # The hyperparameters are float32 constants, as in TensorFlow.
        np.testing.assert_allclose(session.run(w), expected, rtol=3e-5, atol=2e-6)
        assert session.run(step) == 5


@each_optimizer
def test_sparse_updates_add_repeated_rows_first(make, formula):
    w = tf.Variable(START)
    rows = tf.nn.embedding_lookup(w, [1, 3, 1])
    train = make().minimize(tf.reduce_sum(rows * [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    gradient = np.array([[0, 0], [6, 8], [0, 0], [3, 4]], np.float64)
    expected, slots = START.copy(), {}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
            formula(expected, gradient, slots)
        np.testing.assert_allclose(session.run(w), expected, rtol=3e-5, atol=2e-6)


@each_optimizer
def test_slots_lie_beside_their_variable_and_are_not_trained(make, formula):
    with tf.device("/job:ps/task:1"):
        w = tf.get_variable("layer/w", [2])
    optimizer = make()
    with tf.device("/job:worker"):
        optimizer.minimize(tf.reduce_sum(w))
    for name in optimizer.get_slot_names():
        slot = optimizer.get_slot(w, name)
        assert slot.name.startswith("layer/w/")
        assert slot.device == "/job:ps/task:1"
        assert slot.op.colocation_groups() == [b"loc:@layer/w"]
    assert tf.trainable_variables() == [w]
    assert set(optimizer.variables()) == set(tf.global_variables()) - {w}


def test_slots_are_named_in_the_current_variable_scope():
    with tf.Graph().as_default():
        with tf.variable_scope("deepq"):
            w = tf.get_variable("w", [2])
            tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(w * w))
        with tf.variable_scope("average"):
            tf.train.ExponentialMovingAverage(0.9).apply([w])
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(w * w))
        assert [each.op.name for each in tf.global_variables()] == [
            "deepq/w",
            "deepq/beta1_power",
            "deepq/beta2_power",
            "deepq/deepq/w/Adam",
            "deepq/deepq/w/Adam_1",
            "average/deepq/w/ExponentialMovingAverage",
            "deepq/w/Momentum",
        ]


def test_slots_are_made_once():
    w = tf.Variable([1.0])
    optimizer = tf.train.AdamOptimizer()
    optimizer.minimize(tf.reduce_sum(w))
    count = len(tf.global_variables())
    optimizer.minimize(tf.reduce_sum(w * w))
    assert len(tf.global_variables()) == count


def test_big_slots_are_not_stored_in_the_graph():
    w = tf.get_variable("w", [100_000, 8])
    tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(w))
    tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(w))
    assert tf.get_default_graph().as_graph_def().ByteSize() < 100_000


def test_computed_gradients_can_be_changed_before_they_are_applied():
    w, unused = tf.Variable([3.0, 4.0]), tf.Variable(1.0)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    pairs = optimizer.compute_gradients(tf.reduce_sum(tf.square(w)))
    assert [variable for _, variable in pairs] == [w, unused]
    assert pairs[1][0] is None
    clipped, norm = tf.clip_by_global_norm([grad for grad, _ in pairs], 1.0)
    train = optimizer.apply_gradients(zip(clipped, [w, unused], strict=True))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        _, length = session.run([train, norm])
        assert length == pytest.approx(10.0)
        np.testing.assert_allclose(session.run(w), [2.4, 3.2], rtol=1e-6)


def test_the_learning_rate_may_be_a_tensor_or_a_function():
    w = tf.Variable(1.0)
    rate = tf.placeholder(tf.float32, [])
    by_tensor = tf.train.GradientDescentOptimizer(rate).minimize(w * 1.0)
    by_function = tf.train.GradientDescentOptimizer(lambda: 0.25).minimize(w * 1.0)
    with tf.Session() as session:
        session.run(w.initializer)
        session.run(by_tensor, {rate: 0.5})
        assert session.run(w) == 0.5
        session.run(by_function)
        assert session.run(w) == 0.25


def test_constraints_hold_after_each_step():
    w = tf.get_variable("w", [2], initializer=tf.zeros_initializer(), constraint=tf.nn.relu)
    train = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(w * [1.0, -1.0]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_array_equal(session.run(w), [0.0, 1.0])


def test_only_the_listed_variables_are_trained():
    v, w = tf.Variable(1.0), tf.Variable(1.0)
    train = tf.train.GradientDescentOptimizer(1.0).minimize(v + w, var_list=[w])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run([v, w]) == [1.0, 0.0]


@pytest.mark.parametrize("gate", [0, 1, 2])
def test_gates_do_not_change_values(gate):
    v, w = tf.Variable(2.0), tf.Variable(3.0)
    train = tf.train.GradientDescentOptimizer(1.0).minimize(v * w, gate_gradients=gate)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run([v, w]) == [-1.0, 1.0]


def test_wrong_uses_are_named():
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="No variables to optimize"):
        optimizer.minimize(tf.constant(1.0))
    w = tf.Variable(1.0, name="w")
    with pytest.raises(ValueError, match=r"No gradients provided for any variable.*'w:0'"):
        optimizer.minimize(tf.constant(1.0))
    read = w.value()
    with pytest.raises(NotImplementedError, match=r"update a Tensor"):
        optimizer.minimize(read * 2.0, var_list=[read])
    with pytest.raises(TypeError, match="Argument is not a variable or tensor: 7"):
        optimizer.minimize(w * 2.0, var_list=[7])
    with pytest.raises(TypeError, match="convertible to a Tensor or IndexedSlices, or None"):
        optimizer.apply_gradients([(object(), w)])
    with pytest.raises(ValueError, match=r"No gradients provided for any variable: .*'w:0'"):
        optimizer.apply_gradients([(None, w)])
    with pytest.raises(ValueError, match="gate_gradients must be one of"):
        optimizer.minimize(w * 2.0, gate_gradients=7)
    with pytest.raises(ValueError, match="optimizer name"):
        tf.train.GradientDescentOptimizer(0.1, name="")


def test_the_train_op_is_listed():
    w = tf.Variable(1.0)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(w * 1.0)
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == [train]
