"""Residual networks: variables, sizes, features that are dense, training."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import slim
from sparkflow.contrib.slim.nets import resnet_utils, resnet_v1, resnet_v2

IMAGES = np.random.RandomState(0).rand(2, 33, 33, 3).astype(np.float32)
SMALL = {
    "v1": (resnet_v1.resnet_v1, resnet_v1.resnet_v1_block),
    "v2": (resnet_v2.resnet_v2, resnet_v2.resnet_v2_block),
}


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def small(version, images, *given, **more):
    resnet, block = SMALL[version]
    blocks = [block("block1", 1, 2, 2), block("block2", 2, 2, 2), block("block3", 4, 2, 1)]
    return resnet(images, blocks, *given, scope="resnet", **more)


# The numbers are those of torchvision (version 1) and of Keras (version 2).
@pytest.mark.parametrize(
    ("network", "weights"),
    [
        (resnet_v1.resnet_v1_50, 25_557_032),
        (resnet_v1.resnet_v1_101, 44_549_160),
        (resnet_v2.resnet_v2_50, 25_568_360),
    ],
)
def test_networks_have_as_many_weights_as_published(network, weights):
    images = tf.placeholder(tf.float32, [None, 224, 224, 3])
    with slim.arg_scope(resnet_utils.resnet_arg_scope()):
        logits, end_points = network(images, 1000, is_training=False)
    assert sum(v.shape.num_elements() for v in tf.trainable_variables()) == weights
    assert logits.shape.as_list() == [None, 1, 1, 1000]
    name = network.__name__
    shapes = {key: end_points[f"{name}/{key}"].shape.as_list()[1:] for key in ("conv1", "block4")}
    assert shapes == {"conv1": [112, 112, 64], "block4": [7, 7, 2048]}
    assert "predictions" in end_points
    assert network.default_image_size == 224


def test_variables_have_the_names_of_published_checkpoints():
    with slim.arg_scope(resnet_utils.resnet_arg_scope()):
        resnet_v2.resnet_v2_50(tf.placeholder(tf.float32, [None, 224, 224, 3]), 10)
    names = {v.op.name.removeprefix("resnet_v2_50/") for v in slim.get_model_variables()}
    unit = "block4/unit_1/bottleneck_v2"
    assert {
        "conv1/biases",
        "conv1/weights",
        "logits/biases",
        "postnorm/moving_variance",
        f"{unit}/conv1/BatchNorm/gamma",
        f"{unit}/conv2/weights",
        f"{unit}/conv3/biases",
        f"{unit}/preact/beta",
        f"{unit}/shortcut/weights",
    } <= names
    assert "block4/unit_2/bottleneck_v2/shortcut/weights" not in names


@pytest.mark.parametrize("version", SMALL)
@pytest.mark.parametrize("stride", [4, 8, 16])
def test_dense_features_contain_those_of_the_full_stride(version, stride):
    with slim.arg_scope(resnet_utils.resnet_arg_scope()):
        dense, _ = small(version, IMAGES, None, False, False, stride)
        dense = resnet_utils.subsample(dense, 16 // stride)
        tf.get_variable_scope().reuse_variables()
        usual, _ = small(version, IMAGES, None, False, False)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, expected = session.run([dense, usual])
    assert expected.shape[1:3] == (3, 3)
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("kernel", "rate"), [(3, 1), (3, 2), (4, 1)])
def test_a_convolution_with_a_stride_is_one_without_that_is_subsampled(kernel, rate):
    with slim.arg_scope([slim.conv2d], activation_fn=None):
        strided = resnet_utils.conv2d_same(IMAGES, 4, kernel, stride=2, rate=1, scope="c")
        tf.get_variable_scope().reuse_variables()
        whole = resnet_utils.conv2d_same(IMAGES, 4, kernel, stride=1, rate=1, scope="c")
        dilated = resnet_utils.conv2d_same(IMAGES, 4, kernel, stride=1, rate=rate, scope="c")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, expected = session.run([strided, whole[:, ::2, ::2]])
        assert session.run(dilated).shape == (2, 33, 33, 4)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("version", SMALL)
def test_a_network_learns(version):
    labels = np.array([0, 1])
    with slim.arg_scope(resnet_utils.resnet_arg_scope(batch_norm_decay=0.5)):
        logits, _ = small(version, IMAGES, 2, True)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.squeeze(logits, [1, 2]))
    train = slim.learning.create_train_op(loss, tf.train.AdamOptimizer(0.01))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run(train) for _ in range(20)]
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(("stride", "message"), [(6, "multiple of 4"), (64, "cannot be reached")])
def test_strides_that_cannot_be_are_refused(stride, message):
    with pytest.raises(ValueError, match=message):
        small("v1", IMAGES, output_stride=stride)
