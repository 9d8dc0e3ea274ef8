import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def run(session, tensor, feeds=None):
    session.run(tf.global_variables_initializer())
    return session.run(tensor, feeds)


def test_dense_is_a_product_a_bias_and_an_activation(session):
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.layers.dense(x, 2, tf.nn.relu, bias_initializer=tf.constant_initializer(0.5))
    assert [v.name for v in tf.trainable_variables()] == ["dense/kernel:0", "dense/bias:0"]
    assert y.shape.as_list() == [None, 2]
    data = np.array([[1.0, -2.0, 3.0]])
    value = run(session, y, {x: data})
    kernel = session.run("dense/kernel:0")
    np.testing.assert_allclose(value, np.maximum(data @ kernel + 0.5, 0), rtol=1e-5)
    assert tf.layers.dense(x, 2).name == "dense_1/BiasAdd:0"


def test_dense_over_the_last_of_several_dimensions(session):
    x = tf.placeholder(tf.float32, [None, 4, 3])
    y = tf.layers.dense(x, 2, use_bias=False, name="d")
    assert y.shape.as_list() == [None, 4, 2]
    data = np.arange(24.0).reshape(2, 4, 3)
    value = run(session, y, {x: data})
    np.testing.assert_allclose(value, data @ session.run("d/kernel:0"), rtol=1e-5)


def test_layers_share_their_variables_when_asked():
    with tf.Graph().as_default():
        x = tf.zeros([1, 3])
        tf.layers.dense(x, 2, name="d")
        tf.layers.dense(x, 2, name="d", reuse=True)
        assert len(tf.global_variables()) == 2
        with pytest.raises(ValueError, match="already exists"):
            tf.layers.dense(x, 2, name="d")


def test_dense_needs_to_know_the_number_of_features():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="should be defined"):
            tf.layers.dense(tf.placeholder(tf.float32, [3, None]), 2)
        with pytest.raises(ValueError, match="activity_regularizer"):
            tf.layers.dense(tf.zeros([1, 2]), 2, activity_regularizer=tf.nn.l2_loss)


def test_convolution_and_pooling(session):
    x = tf.constant(np.random.RandomState(0).randn(2, 6, 6, 3).astype("f"))
    y = tf.layers.conv2d(x, 4, 3, strides=2, padding="same", activation=tf.nn.relu)
    pooled = tf.layers.max_pooling2d(y, 2, 1)
    mean = tf.layers.average_pooling2d(y, (3, 3), 1)
    flat = tf.layers.flatten(pooled)
    assert [t.shape.as_list() for t in (y, pooled, flat)] == [[2, 3, 3, 4], [2, 2, 2, 4], [2, 16]]
    conv, average = run(session, [y, mean])
    kernel = session.run("conv2d/kernel:0")
    middle = session.run(x)[0, 1:4, 1:4]
    assert conv.min() == 0.0
    expected = np.maximum(np.einsum("ijk,ijkl->l", middle, kernel), 0)
    # SAME with stride 2 pads one row and column at the end: output [0, 0] starts at input [0, 0].
    shifted = np.maximum(np.einsum("ijk,ijkl->l", session.run(x)[0, :3, :3], kernel), 0)
    assert expected.shape == (4,)
    np.testing.assert_allclose(conv[0, 0, 0], shifted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(average[:, 0, 0], conv.mean((1, 2)), rtol=1e-5)
    with pytest.raises(ValueError, match="data_format"):
        tf.layers.max_pooling2d(y, 2, 1, data_format="NHWC")


def test_dropout_acts_in_training_only(session):
    x = tf.ones([1000])
    assert tf.layers.dropout(x) is x
    training = tf.placeholder(tf.bool, [])
    y = tf.layers.dropout(x, 0.25, training=training, seed=1)
    np.testing.assert_array_equal(session.run(y, {training: False}), np.ones(1000))
    value = session.run(y, {training: True})
    assert sorted(np.unique(value)) == pytest.approx([0.0, 4 / 3])
    assert 180 < np.count_nonzero(value == 0) < 320
    always = session.run(tf.layers.dropout(x, 0.5, training=True))
    assert 400 < np.count_nonzero(always) < 600


def test_flatten_keeps_what_is_known():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 2, 3])
        assert tf.layers.flatten(x).shape.as_list() == [None, 6]
        y = tf.placeholder(tf.float32, [5, None, 3])
        assert tf.layers.flatten(y).shape.as_list() == [5, None]
