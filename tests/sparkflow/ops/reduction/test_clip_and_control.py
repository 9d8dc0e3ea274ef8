import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def sparse():
    return tf.IndexedSlices(tf.constant([[3.0], [-4.0]]), tf.constant([0, 2]), tf.constant([5, 1]))


def test_sparse_gradients_stay_sparse_when_clipped(session):
    by_value = tf.clip_by_value(sparse(), -1.0, 1.0)
    by_norm = tf.clip_by_norm(sparse(), 1.0)
    (by_global, nothing), norm = tf.clip_by_global_norm([sparse(), None], 2.5)
    assert nothing is None
    for clipped in (by_value, by_norm, by_global):
        assert isinstance(clipped, tf.IndexedSlices)
    values = session.run([by_value.values, by_norm.values, by_global.values, norm])
    np.testing.assert_allclose(values[0], [[1.0], [-1.0]])
    np.testing.assert_allclose(values[1], [[0.6], [-0.8]], rtol=1e-6)
    np.testing.assert_allclose(values[2], [[1.5], [-2.0]], rtol=1e-6)
    assert values[3] == 5.0


def test_a_norm_that_is_not_finite_shows(session):
    (clipped,), _ = tf.clip_by_global_norm([tf.constant([1.0, np.inf])], 1.0)
    assert np.isnan(session.run(clipped)).all()


def test_a_known_norm_is_used(session):
    (clipped,), norm = tf.clip_by_global_norm([tf.constant([4.0])], 1.0, use_norm=tf.constant(2.0))
    assert session.run([clipped, norm]) == [2.0, 2.0]
    assert tf.clip_by_global_norm([None], 1.0) == ([None], None)
    with pytest.raises(TypeError, match="should be a sequence"):
        tf.clip_by_global_norm(tf.constant([1.0]), 1.0)


def test_clipping_zero_has_a_gradient(session):
    x = tf.constant([0.0, 0.0])
    (gradient,) = tf.gradients(tf.clip_by_norm(x, 1.0), x)
    assert np.isfinite(session.run(gradient)).all()


def test_group_waits_for_everything_and_bridges_devices():
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        with tf.device("/job:ps/task:1"):
            w = tf.Variable(1.0)
        alone = tf.group(w.initializer, [w.op])
        assert alone.device == "/job:ps/task:1"
        assert set(alone.control_inputs) == {w.initializer, w.op}
        both = tf.group(w.initializer, x, name="both")
        assert both.device == ""
        assert [gate.device for gate in both.control_inputs] == ["", "/job:ps/task:1"]
        with pytest.raises(TypeError, match="not 3"):
            tf.group(3)


def test_group_orders_side_effects(session):
    first, second = tf.Variable(1.0), tf.Variable(1.0)
    session.run(tf.global_variables_initializer())
    both = tf.group(tf.assign(first, 5.0), tf.assign(second, 6.0))
    with tf.control_dependencies([both]):
        total = first.read_value() + second.read_value()
    assert session.run(total) == 11.0


def test_a_tuple_is_available_at_once(session):
    w = tf.Variable(1.0)
    session.run(w.initializer)
    changed = tf.assign(w, 3.0)
    x, nothing, rows = tf.tuple([tf.constant(2.0), None, sparse()], control_inputs=[changed])
    assert nothing is None
    assert isinstance(rows, tf.IndexedSlices)
    assert session.run(x) == 2.0
    assert session.run(w) == 3.0
    with pytest.raises(ValueError, match="at least one Tensor"):
        tf.tuple([None])


def test_old_and_new_names_of_arguments_exclude_each_other():
    with tf.Graph().as_default():
        x = tf.zeros([2, 3])
        assert tf.reduce_sum(x, reduction_indices=1, keep_dims=True).shape == [2, 1]
        assert tf.expand_dims(x, dim=0).shape == [1, 2, 3]
        assert tf.argmax(x, dimension=1).shape == [2]
        with pytest.raises(ValueError, match="both 'reduction_indices' and 'axis'"):
            tf.reduce_sum(x, axis=1, reduction_indices=1)


def test_dropout_takes_the_rate_in_both_ways(session):
    x = tf.ones([10_000])
    for y in (tf.nn.dropout(x, keep_prob=0.75, seed=1), tf.nn.dropout(x, rate=0.25, seed=1)):
        value = session.run(y)
        assert sorted(np.unique(value)) == pytest.approx([0.0, 4 / 3])
        assert abs(value.mean() - 1.0) < 0.05
    rate = tf.placeholder(tf.float32, [])
    assert session.run(tf.nn.dropout(x, rate=rate), {rate: 0.0}).tolist() == [1.0] * 10_000
    with pytest.raises(ValueError, match="floating point"):
        tf.nn.dropout(tf.ones([2], tf.int32), rate=0.5)
    with pytest.raises(ValueError, match="provide a rate"):
        tf.nn.dropout(x)


def test_noise_may_be_shared_along_dimensions(session):
    value = session.run(tf.nn.dropout(tf.ones([50, 4]), rate=0.5, noise_shape=[50, 1], seed=3))
    assert (value == value[:, :1]).all()


def test_a_table_has_at_least_one_piece():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="at least one param"):
        tf.nn.embedding_lookup([], [0])


def test_only_the_rows_leave_the_device_of_the_table():
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:1"):
            table = tf.get_variable("table", [10, 2])
        with tf.device("/job:worker"):
            rows = tf.nn.embedding_lookup(table, [1])
        assert rows.device == "/job:worker"
        assert rows.op.inputs[0].device == "/job:ps/task:1"
