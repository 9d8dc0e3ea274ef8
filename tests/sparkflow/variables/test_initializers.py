import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(7)
        yield session


def test_constants(session):
    assert session.run(tf.zeros_initializer()([2], tf.int32)).tolist() == [0, 0]
    assert session.run(tf.ones_initializer(tf.float64)([1])).dtype == np.float64
    assert session.run(tf.constant_initializer(3)([2])).tolist() == [3.0, 3.0]
    assert session.run(tf.constant_initializer([1, 2])([2, 2])).tolist() == [[1, 2], [2, 2]]
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        tf.constant_initializer([1, 2], verify_shape=True)([3])


@pytest.mark.parametrize(
    ("initializer", "mean", "stddev", "bound"),
    [
        (lambda: tf.random_normal_initializer(1.0, 2.0), 1.0, 2.0, None),
        (lambda: tf.truncated_normal_initializer(0.0, 1.0), 0.0, 0.8796, 2.0),
        (lambda: tf.random_uniform_initializer(-1.0, 1.0), 0.0, 3**-0.5, 1.0),
        (lambda: tf.glorot_uniform_initializer(), 0.0, 300**-0.5, 100**-0.5),
        (lambda: tf.glorot_normal_initializer(), 0.0, 300**-0.5, 2 * 300**-0.5 / 0.8796),
        (lambda: tf.initializers.he_normal(), 0.0, 200**-0.5, None),
        (lambda: tf.initializers.he_uniform(), 0.0, 200**-0.5, (6 / 400) ** 0.5),
        (lambda: tf.variance_scaling_initializer(2.0, "fan_out"), 0.0, 100**-0.5, None),
        (
            lambda: tf.variance_scaling_initializer(distribution="untruncated_normal"),
            0.0,
            0.05,
            None,
        ),
    ],
)
def test_random_numbers_have_their_moments(session, initializer, mean, stddev, bound):
    values = session.run(initializer()([400, 200]))
    assert values.dtype == np.float32
    assert abs(values.mean() - mean) < 0.02 * stddev
    assert abs(values.std() / stddev - 1) < 0.02
    if bound is not None:
        assert np.abs(values).max() <= bound * 1.0001


def test_convolution_kernels_count_their_field(session):
    values = session.run(tf.glorot_uniform_initializer()([5, 5, 40, 60]))
    assert np.abs(values).max() <= (6 / (25 * 100)) ** 0.5 * 1.0001
    assert np.abs(values).max() > (6 / (25 * 100)) ** 0.5 * 0.99


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="positive"):
        tf.variance_scaling_initializer(0.0)
    with pytest.raises(ValueError, match="mode"):
        tf.variance_scaling_initializer(mode="fan")
    with pytest.raises(ValueError, match="distribution"):
        tf.variance_scaling_initializer(distribution="cauchy")


def test_seeds_make_numbers_repeat():
    def draw(graph_seed, op_seed):
        with tf.Graph().as_default(), tf.Session() as session:
            if graph_seed is not None:
                tf.set_random_seed(graph_seed)
            tensor = tf.random_normal([3], seed=op_seed)
            return session.run(tensor).tolist(), session.run(tensor).tolist()

    assert draw(1, None) == draw(1, None)
    assert draw(None, 1) == draw(None, 1)
    assert draw(1, 2) == draw(1, 2)
    assert draw(1, 2) != draw(1, 3)
    assert draw(1, None) != draw(2, None)
    assert draw(None, None) != draw(None, None)
    first, second = draw(1, 1)
    assert first != second


def test_ops_of_one_graph_draw_differently(session):
    first, second = session.run([tf.random_uniform([4]), tf.random_uniform([4])])
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("name", ["random_normal", "truncated_normal", "orthogonal"])
@pytest.mark.parametrize("dtype", [tf.int32, tf.bool, tf.string])
def test_numbers_with_a_deviation_are_floating_point(name, dtype):
    with pytest.raises(ValueError, match="Expected floating point type"):
        getattr(tf.initializers, name)(dtype=dtype)
