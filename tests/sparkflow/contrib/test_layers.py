import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import layers

X = np.random.RandomState(0).randn(4, 6, 6, 3).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(*fetches):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches))


def names():
    return [variable.op.name for variable in tf.global_variables()]


def test_variables_have_the_names_of_tensorflow():
    net = layers.conv2d(X, 4, 3, normalizer_fn=layers.batch_norm)
    net = layers.separable_conv2d(net, 5, 3)
    net = layers.conv2d_transpose(net, 3, 3, stride=2)
    net = layers.conv2d_in_plane(net, 3)
    net = layers.bias_add(layers.flatten(net))
    net = layers.fully_connected(net, 2, scope="top")
    net = layers.layer_norm(net)
    assert net.shape.as_list() == [4, 2]
    assert names() == [
        "Conv/weights",
        "Conv/BatchNorm/beta",
        "Conv/BatchNorm/moving_mean",
        "Conv/BatchNorm/moving_variance",
        "SeparableConv2d/depthwise_weights",
        "SeparableConv2d/pointwise_weights",
        "SeparableConv2d/biases",
        "Conv2d_transpose/weights",
        "Conv2d_transpose/biases",
        "ConvInPlane/weights",
        "ConvInPlane/biases",
        "BiasAdd/biases",
        "top/weights",
        "top/biases",
        "LayerNorm/beta",
        "LayerNorm/gamma",
    ]
    assert names() == [variable.op.name for variable in tf.model_variables()]


def test_fully_connected_is_a_product_and_shares_by_scope():
    x = X.reshape(4, -1)
    first = layers.fully_connected(
        x, 5, scope="fc", weights_regularizer=layers.l2_regularizer(0.5),
        variables_collections={"weights": ["kernels"]}, outputs_collections="outs",
    )  # fmt: skip
    again = layers.fully_connected(x, 5, scope="fc", reuse=True)
    assert first.op.type == "Relu"
    [weights], biases = tf.get_collection("kernels"), tf.global_variables()[1]
    [loss] = tf.losses.get_regularization_losses()
    out, same, w, b, penalty = run(first, again, weights, biases, loss)
    np.testing.assert_allclose(out, np.maximum(x @ w + b, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(out, same)
    assert penalty == pytest.approx(0.5 * (w**2).sum() / 2, rel=1e-5)
    assert len(tf.global_variables()) == 2
    assert layers.utils.convert_collection_to_dict("outs") == {"fc": first}
    with pytest.raises(ValueError, match="num_outputs type should be one of"):
        layers.fully_connected(x, 5.5)


@pytest.mark.parametrize("shape", [(4, 6, 6, 3), (4, 108)])
def test_batch_norm_takes_the_batch_in_training_and_moves_the_averages(shape):
    x = X.reshape(shape)
    axes = tuple(range(x.ndim - 1))
    out = layers.batch_norm(x, decay=0.9, updates_collections=None, scale=True, scope="bn")
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []
    mean, variance = (tf.global_variables()[index] for index in (2, 3))
    assert mean.op.name == "bn/moving_mean"
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value = session.run(out)
        moved = session.run([mean, variance])
    wanted = (x - x.mean(axes)) / np.sqrt(x.var(axes) + 0.001)
    np.testing.assert_allclose(value, wanted, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(moved[0], 0.1 * x.mean(axes), rtol=1e-3, atol=1e-5)
    # The moved variance is the unbiased one, also for matrices, as in TensorFlow.
    np.testing.assert_allclose(moved[1], 0.9 + 0.1 * x.var(axes, ddof=1), rtol=1e-3)


def test_batch_norm_lists_its_updates_and_uses_the_averages_in_inference():
    out = layers.batch_norm(X, is_training=False)
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []
    layers.batch_norm(X, updates_collections="mine")
    assert len(tf.get_collection("mine")) == 2
    layers.batch_norm(X)
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2
    np.testing.assert_allclose(run(out)[0], X / np.sqrt(1.001), rtol=1e-5)


def test_normalisations_by_example_and_group():
    layer, instance, group, unit = run(
        layers.layer_norm(X),
        layers.instance_norm(X),
        layers.group_norm(np.tile(X, (1, 1, 1, 2)), groups=2),
        layers.unit_norm(X, 3),
    )

    def normal(x, axes):
        return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-6)

    np.testing.assert_allclose(layer, normal(X, (1, 2, 3)), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(instance, normal(X, (1, 2)), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(group[..., :3], normal(X, (1, 2, 3)), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=3), 1, rtol=1e-5)
    with pytest.raises(ValueError, match="not commensurate"):
        layers.group_norm(X, groups=2)


def test_repeat_and_stack_number_their_scopes():
    net = layers.repeat(X, 2, layers.conv2d, 3, [3, 3], scope="c")
    layers.stack(layers.flatten(net), layers.fully_connected, [4, 2], scope="fc")
    assert [name for name in names() if name.endswith("weights")] == [
        "c/c_1/weights",
        "c/c_2/weights",
        "fc/fc_1/weights",
        "fc/fc_2/weights",
    ]


def test_small_layers():
    ids = np.array([[1, 2], [0, 1]])
    embedded = layers.embed_sequence(ids, 3, 4)
    bag = layers.bow_encoder(ids, 3, 4, sparse_lookup=False)
    hot, most, dense, table = run(
        layers.one_hot_encoding([0, 2], 3),
        layers.maxout(np.arange(6.0).reshape(1, 6), 2),
        embedded,
        tf.global_variables()[0],
    )
    assert hot.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert most.tolist() == [[2, 5]]
    np.testing.assert_array_equal(dense, table[ids])
    assert bag.shape.as_list() == [2, 4]


def test_regularizers():
    w = tf.constant([1.0, -2.0])
    assert run(layers.l1_regularizer(0.5)(w)) == [1.5]
    assert run(layers.l2_regularizer(0.5)(w)) == [1.25]
    assert run(layers.l1_l2_regularizer(0.5, 0.5)(w)) == [2.75]
    assert layers.l2_regularizer(0.0)(w) is None
    assert run(layers.apply_regularization(layers.l2_regularizer(0.5), [w, w])) == [2.5]
    assert len(tf.losses.get_regularization_losses()) == 1
    with pytest.raises(ValueError, match="cannot be an integer"):
        layers.l1_regularizer(1)
    with pytest.raises(ValueError, match="less than 0"):
        layers.l2_regularizer(-0.1)


@pytest.mark.parametrize("mode", ["FAN_IN", "FAN_OUT", "FAN_AVG"])
@pytest.mark.parametrize("uniform", [True, False])
def test_variance_scaling(mode, uniform):
    make = layers.variance_scaling_initializer(2.0, mode, uniform, seed=1)
    fan = {"FAN_IN": 100.0, "FAN_OUT": 40.0, "FAN_AVG": 70.0}[mode] * 9
    value = run(make([3, 3, 100, 40]))[0]
    assert value.var() == pytest.approx(2.0 / fan, rel=0.05)


def test_optimize_loss_trains_counts_and_checks():
    step = tf.train.get_or_create_global_step()
    v = tf.get_variable("v", initializer=10.0)
    train = layers.optimize_loss(v * 3.0, step, 0.1, "SGD", clip_gradients=1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(train) == 30.0
        assert session.run([v, step]) == [pytest.approx(9.9), 1]
    assert "OptimizeLoss/learning_rate" in names()
    tags = [each.op.name for each in tf.get_collection(tf.GraphKeys.SUMMARIES)]
    assert "OptimizeLoss/loss" in tags
    for arguments, message in (
        ({"optimizer": "Unknown"}, "Optimizer name should be one of"),
        ({"optimizer": tf.train.AdamOptimizer, "learning_rate": None}, "should be specified"),
        ({"learning_rate": -1.0}, "Invalid learning_rate"),
        ({"summaries": ["nothing"]}, "Summaries should be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            layers.optimize_loss(
                v * 3.0,
                **{"global_step": step, "learning_rate": 0.1, "optimizer": "SGD", **arguments},
            )
