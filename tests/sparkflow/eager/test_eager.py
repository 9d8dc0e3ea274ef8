"""Eager execution: the functions of graphs compute immediately."""

import gc
import threading
import weakref

import numpy as np
import pytest

import sparkflow as tf

pytestmark = pytest.mark.usefixtures("eager")


def test_functions_return_values():
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert tf.matmul(x, x).numpy().tolist() == [[7, 10], [15, 22]]
    assert float(tf.reduce_sum(x)) == 10
    assert bool(x[0, 1] > 1.0)
    assert len(x) == 2
    assert [row.numpy().tolist() for row in x] == [[1, 2], [3, 4]]
    assert np.asarray(x).dtype == np.float32
    assert f"{x[1, 1]:.1f}" == "4.0"


def test_tensors_print_as_tensorflow_prints_them():
    x = tf.constant([1, 2])
    assert str(x) == "tf.Tensor([1 2], shape=(2,), dtype=int32)"
    assert str(tf.constant([[1], [2]])).startswith("tf.Tensor(\n[[1]\n [2]], shape=(2, 1)")
    assert repr(x).endswith("shape=(2,), dtype=int32, numpy=array([1, 2], dtype=int32)>")


def test_shapes_that_tensors_give_are_known():
    x = tf.ones([2, 6])
    assert tf.reshape(x, [tf.shape(x)[0] * 3, -1]).shape.as_list() == [6, 2]
    assert tf.reduce_sum(x, axis=tf.constant(1)).shape.as_list() == [2]


def test_variables_hold_their_value():
    v = tf.Variable(2.0, name="v")
    before = v.read_value()
    v.assign_add(1.0)
    assert (v.numpy(), before.numpy(), (v * 2).numpy()) == (3.0, 2.0, 6.0)
    assert v.name == "v:0"
    with tf.variable_scope("scope"):
        first = tf.get_variable("w", [2], initializer=tf.ones_initializer())
        second = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    first.assign([5.0, 5.0])
    assert second.numpy().tolist() == [1, 1]


def test_variables_are_freed():
    v = tf.Variable(tf.zeros([10]))
    watcher = weakref.ref(v)
    del v
    gc.collect()
    assert watcher() is None


def test_tensors_do_not_keep_what_they_came_from():
    x = tf.constant(1.0)
    watcher = weakref.ref(x)
    y = x
    for _ in range(3):
        y = y + 1.0
    del x
    gc.collect()
    assert watcher() is None
    assert y.numpy() == 4.0


def test_tape_differentiates_variables_and_what_is_watched():
    v, x = tf.Variable(3.0), tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = v * v * x
    assert tape.gradient(y, v).numpy() == 12
    assert [each.numpy() for each in tape.gradient(y, [v, x])] == [12, 9]
    assert tape.gradient(y, {"x": x})["x"].numpy() == 9
    assert tape.watched_variables() == (v,)
    other = tf.constant(1.0)
    assert tape.gradient(y, other) is None
    zero = tape.gradient(y, other, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert zero.numpy() == 0


def test_a_tape_is_used_once_unless_persistent():
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = v * v
    tape.gradient(y, v)
    with pytest.raises(RuntimeError, match="non-persistent GradientTape can only be used"):
        tape.gradient(y, v)


def test_tapes_nest():
    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
        first = inner.gradient(y, x)
    assert (first.numpy(), outer.gradient(first, x).numpy()) == (27, 18)


def test_recording_can_be_paused_and_variables_left_out():
    v = tf.Variable(3.0)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        y = v * v
    assert tape.gradient(y, v) is None
    with tf.GradientTape() as tape:
        with tape.stop_recording():
            z = v * v
        w = z * v
    assert tape.gradient(w, v).numpy() == 9


def test_jacobian_has_a_row_per_element():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert tape.jacobian(y, x).numpy().tolist() == [[2, 0], [0, 4]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.train.GradientDescentOptimizer(0.1),
        lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        lambda: tf.train.AdamOptimizer(0.1),
        lambda: tf.train.AdagradOptimizer(0.1),
        lambda: tf.train.RMSPropOptimizer(0.1),
    ],
)
def test_optimizers_do_what_they_do_in_graphs(make):
    target = np.float32([1, -2, 3])
    v, optimizer = tf.Variable([0.5, 0.5, 0.5]), make()
    step = tf.train.get_or_create_global_step()
    before = step.numpy()
    for _ in range(4):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(v - target))
        optimizer.apply_gradients([(tape.gradient(loss, v), v)], step)
    assert step.numpy() == before + 4
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable([0.5, 0.5, 0.5])
        train = make().minimize(tf.reduce_sum(tf.square(w - target)))
        session.run(tf.global_variables_initializer())
        for _ in range(4):
            session.run(train)
        np.testing.assert_allclose(v.numpy(), session.run(w), rtol=1e-6)


def test_control_flow_runs_as_python():
    assert tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(2)).numpy() == 1
    _, total = tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + i), [0, 0])
    assert total.numpy() == 6
    assert tf.map_fn(lambda r: r * r, tf.constant([1, 2, 3])).numpy().tolist() == [1, 4, 9]


def test_graphs_can_still_be_built():
    with tf.Graph().as_default():
        assert not tf.executing_eagerly()
        x = tf.placeholder(tf.float32)
        with tf.Session() as session:
            assert session.run(x * 2, {x: 3}) == 6
    assert tf.executing_eagerly()


def test_every_thread_is_eager():
    found = []
    thread = threading.Thread(target=lambda: found.append(tf.executing_eagerly()))
    thread.start()
    thread.join()
    assert found == [True]


def test_what_needs_a_graph_says_so():
    with pytest.raises(RuntimeError, match=r"placeholder.. is not compatible with eager"):
        tf.placeholder(tf.float32)
    with pytest.raises(RuntimeError, match=r"Use tf.GradientTape"):
        tf.gradients(tf.constant(1.0), tf.constant(1.0))
    with tf.Graph().as_default():
        symbol = tf.constant(1.0)
    with pytest.raises(ValueError, match=r"same graph"):
        tf.add(symbol.op.outputs[0], tf.constant(1.0)).numpy()


def test_checks_fail_at_once():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"assert_equal|x == y|Condition"):
        tf.assert_equal(tf.constant(1), tf.constant(2))


def test_errors_are_those_of_kernels_at_once():
    with pytest.raises(tf.errors.InvalidArgumentError, match="MatMul"):
        tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))


def test_layers_losses_and_optimizers_train():
    rng = np.random.RandomState(0)
    x = rng.randn(60, 5).astype(np.float32)
    labels = (x.sum(1) > 0).astype(np.int64)
    hidden, top = tf.layers.Dense(8, activation=tf.nn.tanh), tf.layers.Dense(2)
    optimizer = tf.train.AdamOptimizer(0.05)
    for _ in range(60):
        with tf.GradientTape() as tape:
            loss = tf.losses.sparse_softmax_cross_entropy(labels, top(hidden(x)))
        variables = [*hidden.variables, *top.variables]
        assert len(variables) == 4
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
    assert loss.numpy() < 0.1


def test_networks_run_over_time():
    cell = tf.nn.rnn_cell.GRUCell(4)
    x = tf.constant(np.random.RandomState(0).randn(3, 5, 2), tf.float32)
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    assert outputs.shape.as_list() == [3, 5, 4]
    np.testing.assert_array_equal(outputs[:, -1].numpy(), state.numpy())


def test_updates_of_batch_normalisation_happen():
    layer = tf.layers.BatchNormalization(momentum=0.5)
    layer(tf.constant([[2.0], [4.0]]), training=True)
    np.testing.assert_allclose(layer.moving_mean.numpy(), [1.5])
