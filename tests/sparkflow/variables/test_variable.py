import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_a_variable_is_a_ref_an_assignment_and_a_read(session):
    w = tf.Variable([1.0, 2.0], name="w")
    assert [w.name, w.op.type, w.dtype.name] == ["w:0", "VariableV2", "float32_ref"]
    assert w.initializer.name == "w/Assign"
    assert w.value().name == "w/read:0"
    assert w.value().dtype is tf.float32
    assert w.initializer.colocation_groups() == [b"loc:@w"]
    assert w.value().op.colocation_groups() == [b"loc:@w"]
    session.run(w.initializer)
    np.testing.assert_array_equal(session.run([w, w.initial_value]), [[1, 2], [1, 2]])


def test_operators_use_the_value(session):
    w = tf.Variable(3.0)
    session.run(w.initializer)
    results = session.run([w + 1.0, 1.0 - w, w * w, -w, w / 2.0, w > 1.0, abs(-w), w**2.0])
    assert results == [4.0, -2.0, 9.0, -3.0, 1.5, True, 3.0, 9.0]


def test_assigning(session):
    w = tf.Variable([1.0, 1.0])
    session.run(w.initializer)
    np.testing.assert_array_equal(session.run(w.assign([2.0, 3.0])), [2, 3])
    np.testing.assert_array_equal(session.run(tf.assign_add(w, [1.0, 1.0])), [3, 4])
    assert session.run(w.assign_sub([1.0, 1.0], read_value=False)) is None
    np.testing.assert_array_equal(session.run(w), [2, 3])
    with pytest.raises(ValueError, match=r"\[2\].*\[3\]"):
        w.assign([1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match="Expected float32"):
        w.assign(["a", "b"])
    with pytest.raises(AttributeError, match="assign"):
        tf.assign(tf.constant(1.0), 2.0)


def test_rows_are_changed_by_scattering(session):
    w = tf.Variable(tf.zeros([3, 2]))
    session.run(w.initializer)
    session.run(tf.scatter_add(w, [0, 2, 0], tf.ones([3, 2])))
    session.run(w.scatter_sub(tf.IndexedSlices(tf.ones([1, 2]), tf.constant([2]))))
    np.testing.assert_array_equal(session.run(w), [[2, 2], [0, 0], [0, 0]])


def test_a_shape_may_be_left_open(session):
    with pytest.raises(ValueError, match="must have a shape specified"):
        tf.Variable(tf.placeholder(tf.float32))
    w = tf.Variable([1.0], validate_shape=False)
    assert w.shape.ndims is None
    session.run(w.initializer)
    session.run(tf.assign(w, [1.0, 2.0, 3.0], validate_shape=False))
    assert session.run(w).shape == (3,)


def test_a_function_makes_the_initial_value_beside_the_variable():
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:1"):
            w = tf.Variable(lambda: tf.zeros([2]), name="w")
        assert w.initial_value.op.name == "w/Initializer/zeros"
        assert w.initial_value.device == ""
        assert w.initial_value.op.colocation_groups() == [b"loc:@w"]


def test_dtype_converts_the_initial_value():
    with tf.Graph().as_default():
        assert tf.Variable(1, dtype=tf.float64).dtype.base is tf.float64
        with pytest.raises(ValueError, match="initial_value must be specified"):
            tf.Variable()
        with pytest.raises(ValueError, match="incompatible"):
            tf.Variable([1.0], expected_shape=[2])


def test_initialized_value_orders_initialisation(session):
    first = tf.Variable(tf.random_uniform([3], seed=1))
    second = tf.Variable(first.initialized_value() * 2.0)
    session.run(tf.global_variables_initializer())
    values = session.run([first, second])
    np.testing.assert_allclose(values[1], values[0] * 2)


def test_collections_list_it():
    with tf.Graph().as_default():
        a = tf.Variable(1.0)
        b = tf.Variable(1.0, trainable=False)
        c = tf.Variable(1.0, collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
        assert tf.global_variables() == [a, b]
        assert tf.trainable_variables() == [a]
        assert tf.local_variables() == [c]


def test_messages_and_back(session):
    w = tf.Variable(2.0, name="w", trainable=False)
    again = tf.Variable.from_proto(w.to_proto())
    assert again.op is w.op
    assert not again.trainable
    session.run(again.initializer)
    assert session.run(again * 2.0) == 4.0


def test_counting_ends_with_out_of_range(session):
    n = tf.Variable(0)
    session.run(n.initializer)
    count = n.count_up_to(2)
    assert [session.run(count), session.run(count)] == [0, 1]
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(count)


def test_uninitialised_variables_are_reported_by_name(session):
    first, second = tf.Variable(1.0, name="first"), tf.Variable(1.0, name="second")
    report = tf.report_uninitialized_variables()
    assert session.run(report).tolist() == [b"first", b"second"]
    session.run(first.initializer)
    assert session.run(report).tolist() == [b"second"]
    session.run(tf.variables_initializer([second]))
    assert session.run(report).tolist() == []
    with tf.Graph().as_default(), tf.Session() as other:
        assert other.run(tf.report_uninitialized_variables()).tolist() == []


def test_a_copy_for_readers_lies_where_it_is_asked_for():
    with tf.Graph().as_default():
        with tf.device("/job:ps"):
            w = tf.Variable(1.0, caching_device="/job:worker/task:2")
        assert w.value().device == "/job:worker/task:2"
        assert w.device == "/job:ps"


def test_it_is_no_sequence():
    with tf.Graph().as_default(), pytest.raises(TypeError, match="not iterable"):
        list(tf.Variable([1.0]))


@pytest.mark.parametrize("size", [3, 3000])
def test_a_step_may_find_that_another_one_has_changed_a_shape(size):
    v = tf.Variable(tf.zeros([size]))
    x = tf.placeholder(tf.float32, [None])
    assign = tf.assign(v, x, validate_shape=False)
    changes = []

    def change():
        """Another step, while this one runs with the shape that the variable had."""
        if changes:
            session.run(assign.op, {x: changes.pop()})
        return np.float32(0)

    zero = tf.py_func(change, [], tf.float32, stateful=False)
    with tf.control_dependencies([zero]):
        now = v.read_value()
        found = [tf.reduce_sum(now * now) / 2.0, tf.concat([now, now + 1.0], 0)]
    with tf.Session() as session:
        session.run(v.initializer)
        for _ in range(3):
            session.run([zero, *found])
        changes.append([1.0, 2.0])
        _, halved, joined = session.run([zero, *found])
    assert halved == 2.5
    assert joined.tolist() == [1, 2, 2, 3]
