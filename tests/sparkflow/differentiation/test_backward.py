import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_paths_that_meet_add_up(session):
    x = tf.constant(3.0)
    (gradient,) = tf.gradients(x * x + 2.0 * x, x)
    assert gradient.op.type == "AddN"
    assert session.run(gradient) == 8.0


def test_several_ys_are_summed_and_several_xs_kept_apart(session):
    x, y = tf.constant(3.0), tf.constant(5.0)
    assert session.run(tf.gradients([x * y, x], [x, y])) == [6.0, 3.0]


def test_what_does_not_depend_is_none(session):
    x, y = tf.constant(1.0), tf.constant(2.0)
    assert tf.gradients(x + 1.0, [y]) == [None]
    assert tf.gradients(tf.stop_gradient(x), x) == [None]
    assert tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32), x) == [None]


def test_y_itself_and_tensors_in_between(session):
    x = tf.constant(3.0)
    y = x * x
    z = y * 2.0
    assert session.run(tf.gradients(z, [x, y, z])) == [12.0, 2.0, 1.0]


def test_one_y_may_lie_on_the_way_to_another(session):
    x = tf.constant(3.0)
    y = x * x
    z = y * y
    assert session.run(tf.gradients([z, y], x)) == [4 * 27.0 + 6.0]


def test_second_derivatives(session):
    x = tf.constant(3.0)
    (first,) = tf.gradients(x**3.0, x)
    (second,) = tf.gradients(first, x)
    assert session.run([first, second]) == pytest.approx([27.0, 18.0])


def test_grad_ys_weigh_and_are_checked(session):
    x = tf.constant([1.0, 2.0])
    (gradient,) = tf.gradients(x * x, x, grad_ys=[[10.0, 100.0]])
    np.testing.assert_array_equal(session.run(gradient), [20.0, 400.0])
    with pytest.raises(ValueError, match="incompatible"):
        tf.gradients(x, x, grad_ys=[[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="2 grad_ys for 1 ys"):
        tf.gradients(x, x, grad_ys=[1.0, 2.0])


def test_stop_gradients_are_constants(session):
    x = tf.constant(3.0)
    y = 2.0 * x
    z = x * y
    assert session.run(tf.gradients(z, x, stop_gradients=[y])) == [6.0]
    assert session.run(tf.gradients(z, [x, y], stop_gradients=[x, y])) == [6.0, 3.0]


def test_an_op_without_gradient_is_named_with_its_line():
    with tf.Graph().as_default():
        x = tf.constant([3.0, 1.0])
        (slope,) = tf.gradients(tf.nn.softsign(x), x)
        text = r"'gradients/Softsign_grad/SoftsignGrad' .*test_backward.py:\d+"
        with pytest.raises(LookupError, match=text):
            tf.gradients(slope, x)


def test_rows_of_a_table_get_sparse_gradients_which_are_joined(session):
    table = tf.Variable(tf.zeros([5, 2]))
    rows = tf.nn.embedding_lookup(table, [1, 3])
    (once,) = tf.gradients(rows, table)
    assert isinstance(once, tf.IndexedSlices)
    (twice,) = tf.gradients([rows, tf.nn.embedding_lookup(table, [3])], table)
    assert isinstance(twice, tf.IndexedSlices)
    value = session.run(twice)
    assert isinstance(value, tf.IndexedSlicesValue)
    assert sorted(value.indices) == [1, 3, 3]
    np.testing.assert_array_equal(value.values, np.ones([3, 2]))
    np.testing.assert_array_equal(value.dense_shape, [5, 2])
    (mixed,) = tf.gradients([rows, tf.reduce_sum(table)], table)
    assert isinstance(mixed, tf.Tensor)
    np.testing.assert_array_equal(session.run(mixed)[:, 0], [1, 2, 1, 2, 1])


def test_gradients_lie_where_their_operations_are_when_asked():
    with tf.Graph().as_default():
        x = tf.constant([[1.0]])
        with tf.device("/job:worker/task:1"):
            y = tf.matmul(x, x, name="product")
        (free,) = tf.gradients(y, x)
        (beside,) = tf.gradients(y, x, colocate_gradients_with_ops=True)
        assert free.op.inputs[0].op.device == ""
        assert beside.op.inputs[0].op.device == "/job:worker/task:1"


def test_gated_gradients_wait_for_each_other(session):
    x, y = tf.constant(2.0), tf.constant(3.0)
    dx, dy = tf.gradients(x * y, [x, y], gate_gradients=True)
    assert dx.op.control_inputs == dy.op.control_inputs
    assert len(dx.op.control_inputs[0].control_inputs) == 2
    assert session.run([dx, dy]) == [3.0, 2.0]


def test_integers_have_no_gradient(session):
    n = tf.constant([1, 2])
    x = tf.constant([1.0, 2.0])
    assert tf.gradients(n, n) == [None]
    assert session.run(tf.gradients([tf.cast(x, tf.int32), x], x)[0]).tolist() == [1.0, 1.0]


def test_a_long_chain_needs_no_recursion(session):
    x = y = tf.constant(1.0)
    for _ in range(3000):
        y = y + 1.0
    assert session.run(tf.gradients(y, x)) == [1.0]


def test_what_is_stopped_is_taken_as_a_constant(session):
    x = tf.constant(3.0)
    y = x * x
    z = y * x
    assert session.run(tf.gradients(z, x)) == [27.0]
    assert session.run(tf.gradients(z, [x, y], stop_gradients=y)) == [9.0, 3.0]


def test_zeros_stand_for_no_path_where_that_is_asked(session):
    x, y = tf.constant([1.0, 2.0]), tf.constant(2.0)
    (gradient,) = tf.gradients(y, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    np.testing.assert_array_equal(session.run(gradient), [0.0, 0.0])


def test_complex_results_need_their_gradients(session):
    x = tf.constant(1.0)
    y = tf.complex(x, 2.0 * x)
    with pytest.raises(TypeError, match="must set grad_ys"):
        tf.gradients(y, x)
    seed = tf.constant(3.0 + 4.0j, tf.complex64)  # 3 for the real part, 4 for the imaginary part
    assert session.run(tf.gradients(y, x, grad_ys=seed)) == [1.0 * 3.0 + 2.0 * 4.0]


def test_rows_that_are_looked_up_get_gradients_of_their_own(session):
    table = tf.get_variable("table", initializer=np.eye(3, dtype=np.float32))
    rows = tf.gather(table, [0, 2]), tf.gather(table, np.array([2], np.int64))
    (gradient,) = tf.gradients([tf.reduce_sum(rows[0]), tf.reduce_sum(rows[1])], table)
    assert isinstance(gradient, tf.IndexedSlices)
    session.run(table.initializer)
    indices, dense = session.run([gradient.indices, tf.convert_to_tensor(gradient)])
    assert sorted(indices) == [0, 2, 2]
    np.testing.assert_array_equal(dense, [[1.0] * 3, [0.0] * 3, [2.0] * 3])


def test_gradients_go_where_their_operations_are_where_that_is_asked():
    with tf.Graph().as_default():
        x = tf.constant(2.0)
        with tf.device("/job:ps/task:3"):
            y = tf.exp(x)
        (near,) = tf.gradients(y, x, colocate_gradients_with_ops=True)
        (far,) = tf.gradients(y, x)
        assert near.op.device == "/job:ps/task:3"
        assert far.op.device == ""
        assert near.op.colocation_groups() == [b"loc:@" + y.op.name.encode()]


def test_gates_make_all_gradients_of_an_operation_at_once(session):
    x, y = tf.constant(3.0), tf.constant(5.0)
    dx, dy = tf.gradients(x * y, [x, y], gate_gradients=True)
    assert session.run([dx, dy]) == [5.0, 3.0]
    (gate,) = dx.op.control_inputs  # the group that waits for both
    assert gate in dy.op.control_inputs


def test_a_registered_gradient_of_the_wrong_length_or_shape_is_refused():
    @tf.RegisterGradient("TwoForOne")
    def two(op, dy):
        return dy, dy

    @tf.RegisterGradient("WrongShape")
    def wrong(op, dy):
        return tf.zeros([7])

    graph = tf.Graph()
    with graph.as_default():
        x = tf.constant([1.0, 2.0])
        with graph.gradient_override_map({"Identity": "TwoForOne"}):
            y = tf.identity(x, name="y")
        with graph.gradient_override_map({"Identity": "WrongShape"}):
            z = tf.identity(x, name="z")
        with pytest.raises(ValueError, match="gives 2 tensors for 1 inputs of 'y'"):
            tf.gradients(y, x)
        with pytest.raises(ValueError, match=r"Identity \(z\) has shape \(7,\) for an input of"):
            tf.gradients(z, x)


def test_a_deep_chain_needs_no_deep_stack(session):
    x = y = tf.constant(1.0)
    for _ in range(3000):
        y = y * 1.0
    assert session.run(tf.gradients(y, x)) == [1.0]
