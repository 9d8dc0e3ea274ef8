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
    np.testing.assert_allclose(value, data @ session.run("d/kernel:0"), rtol=1e-5, atol=1e-5)


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
        with pytest.raises(ValueError, match="min_ndim=2"):
            tf.layers.dense(tf.zeros([3]), 2)


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
    assert tf.layers.dropout(x).op.type == "Identity"
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


def test_batch_normalization_moves_its_averages_by_operations_that_are_listed(session):
    x = tf.constant(np.random.RandomState(0).randn(6, 3) * 2 + 1, tf.float32)
    training = tf.placeholder(tf.bool)
    y = tf.layers.batch_normalization(x, momentum=0.75, training=training)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    session.run(tf.global_variables_initializer())
    data = session.run(x)
    normal = (data - data.mean(0)) / np.sqrt(data.var(0) + 1e-3)
    np.testing.assert_allclose(session.run(y, {training: True}), normal, rtol=1e-4, atol=1e-5)
    session.run(updates, {training: True})
    mean, variance = session.run(
        ["batch_normalization/moving_mean:0", "batch_normalization/moving_variance:0"]
    )
    np.testing.assert_allclose(mean, 0.25 * data.mean(0), rtol=1e-5)
    np.testing.assert_allclose(variance, 0.75 + 0.25 * data.var(0), rtol=1e-5)
    fixed = (data - mean) / np.sqrt(variance + 1e-3)
    np.testing.assert_allclose(session.run(y, {training: False}), fixed, rtol=1e-4, atol=1e-5)


def test_fused_and_composed_batch_normalization_agree(session):
    x = tf.constant(np.random.RandomState(0).randn(2, 3, 4, 5), tf.float32)
    outputs = [tf.layers.batch_normalization(x, fused=f, training=True) for f in (True, False)]
    types = {op.type for op in tf.get_default_graph().get_operations()}
    assert "FusedBatchNormV3" in types
    first, second = run(session, outputs)
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)


def test_batch_renormalization_moves_five_averages_by_two_listed_operations(session):
    x = tf.constant(np.random.RandomState(0).randn(8, 3), tf.float32)
    y = tf.layers.batch_normalization(
        x, renorm=True, renorm_clipping={"rmax": 1.5, "rmin": 0.5, "dmax": 0.5}, training=True
    )
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    names = ["moving_mean", "moving_variance", "moving_stddev", "renorm_mean", "renorm_stddev"]
    averages = [v for v in tf.global_variables() if v not in tf.trainable_variables()]
    assert [v.op.name for v in averages] == [f"batch_normalization/{name}" for name in names]
    before = run(session, averages)
    assert run(session, y).shape == (8, 3)
    np.testing.assert_array_equal(session.run(averages), before)
    session.run(updates)
    assert all((now != was).all() for now, was in zip(session.run(averages), before, strict=True))


def test_averages_of_batch_normalization_are_not_partitioned(session):
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
        y = tf.layers.batch_normalization(tf.constant(np.eye(4), tf.float32), training=True)
    run(session, y)
    session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    names = [v.op.name.removeprefix("s/batch_normalization/") for v in tf.global_variables()]
    assert names[-2:] == ["moving_mean", "moving_variance"]


def test_layers_as_objects_keep_their_variables(session):
    layer = tf.layers.Dense(2, kernel_regularizer=tf.nn.l2_loss, name="d")
    first, second = layer(tf.ones([1, 3])), layer(tf.ones([4, 3]))
    assert (first.name, second.name) == ("d/BiasAdd:0", "d/BiasAdd_1:0")
    assert [v.name for v in layer.trainable_weights] == ["d/kernel:0", "d/bias:0"]
    assert layer.count_params() == 8
    assert len(layer.losses) == len(tf.losses.get_regularization_losses()) == 1
    assert layer.scope_name == "d"
    layer.trainable = False
    assert layer.trainable_variables == []
    assert len(layer.non_trainable_variables) == 2


def test_own_layers(session):
    class Scale(tf.layers.Layer):
        def build(self, input_shape):
            self.factor = self.add_variable("factor", [], initializer=tf.ones_initializer())
            super().build(input_shape)

        def call(self, inputs, power=1):
            return inputs * self.factor**power

    layer = Scale()
    y = layer.apply(tf.constant([2.0]), power=2)
    assert layer.factor.name == "scale/factor:0"
    assert run(session, y) == [2.0]
    assert tf.layers.InputSpec(ndim=2).ndim == 2


def test_an_activity_regularizer_gives_a_loss_per_example(session):
    x = tf.ones([4, 2])
    layer = tf.layers.Dense(
        3, kernel_initializer=tf.ones_initializer(), activity_regularizer=tf.reduce_sum
    )
    layer(x)
    (loss,) = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert layer.get_losses_for(layer.input) == [loss]
    assert run(session, loss) == 6.0


@pytest.mark.parametrize(
    ("function", "shape", "expected", "variables"),
    [
        (lambda x: tf.layers.conv1d(x, 4, 3), [2, 7, 3], [2, 5, 4], [[3, 3, 4], [4]]),
        (
            lambda x: tf.layers.conv3d(x, 4, 2, strides=2, padding="same"),
            [1, 4, 5, 6, 2],
            [1, 2, 3, 3, 4],
            [[2, 2, 2, 2, 4], [4]],
        ),
        (
            lambda x: tf.layers.conv2d(x, 4, 3, data_format="channels_first"),
            [2, 3, 6, 5],
            [2, 4, 4, 3],
            [[3, 3, 3, 4], [4]],
        ),
        (
            lambda x: tf.layers.conv2d(x, 4, 3, dilation_rate=2, use_bias=False),
            [2, 7, 6, 3],
            [2, 3, 2, 4],
            [[3, 3, 3, 4]],
        ),
        (
            lambda x: tf.layers.conv2d_transpose(x, 4, 3, 2),
            [2, 5, 6, 3],
            [2, 11, 13, 4],
            [[3, 3, 4, 3], [4]],
        ),
        (
            lambda x: tf.layers.conv3d_transpose(x, 4, 3, 2, padding="same"),
            [2, 2, 3, 4, 3],
            [2, 4, 6, 8, 4],
            [[3, 3, 3, 4, 3], [4]],
        ),
        (
            lambda x: tf.layers.separable_conv1d(x, 5, 3, depth_multiplier=2),
            [2, 7, 3],
            [2, 5, 5],
            [[3, 3, 2], [1, 6, 5], [5]],
        ),
        (
            lambda x: tf.layers.separable_conv2d(x, 5, 3, strides=2, padding="same"),
            [2, 7, 6, 3],
            [2, 4, 3, 5],
            [[3, 3, 3, 1], [1, 1, 3, 5], [5]],
        ),
        (lambda x: tf.layers.max_pooling1d(x, 2, 2), [2, 7, 3], [2, 3, 3], []),
        (lambda x: tf.layers.average_pooling1d(x, 2, 2, "same"), [2, 7, 3], [2, 4, 3], []),
        (lambda x: tf.layers.max_pooling3d(x, 2, 2), [1, 4, 5, 6, 2], [1, 2, 2, 3, 2], []),
        (
            lambda x: tf.layers.average_pooling3d(x, 2, 1, data_format="channels_first"),
            [1, 2, 4, 5, 6],
            [1, 2, 3, 4, 5],
            [],
        ),
        (lambda x: tf.layers.flatten(x), [2, 3, 4], [2, 12], []),
    ],
)
def test_shapes_of_results_and_variables(session, function, shape, expected, variables):
    y = function(tf.ones(shape))
    assert y.shape.as_list() == expected
    assert [v.shape.as_list() for v in tf.global_variables()] == variables
    assert list(run(session, y).shape) == expected


def test_layers_refuse_wrong_arguments():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="kernel_size"):
            tf.layers.conv2d(tf.ones([1, 4, 4, 1]), 2, (1, 2, 3))
        with pytest.raises(ValueError, match="data_format"):
            tf.layers.conv2d(tf.ones([1, 4, 4, 1]), 2, 3, data_format="invalid")
        with pytest.raises(ValueError, match="padding"):
            tf.layers.max_pooling2d(tf.ones([1, 4, 4, 1]), 2, 2, padding="full")
        with pytest.raises(ValueError, match="ndim=4, found ndim=3"):
            tf.layers.conv2d(tf.ones([4, 4, 1]), 2, 3)
        with pytest.raises(TypeError, match="non-floating point dtype"):
            tf.layers.dense(tf.ones([2, 2], tf.int32), 2)


def test_layers_leave_no_collections_that_programs_would_save():
    with tf.Graph().as_default() as graph:
        tf.layers.dense(tf.ones([1, 2]), 2)
        keys = graph.get_all_collection_keys()
        assert {"variables", "trainable_variables"} <= set(keys)
        assert not [key for key in keys if key.startswith("_")]


@pytest.mark.parametrize("shape", [(None, 4), [None, 4], tf.TensorShape([None, 4])])
@pytest.mark.parametrize("name", [None, "mine"])
def test_a_layer_that_is_built_by_hand_is_called_what_it_would_be(shape, name):
    layers = {"dense": tf.layers.Dense(3, name=name)}
    cells = {
        "basic_rnn_cell": tf.nn.rnn_cell.BasicRNNCell,
        "gru_cell": tf.nn.rnn_cell.GRUCell,
        "lstm_cell": tf.nn.rnn_cell.LSTMCell,
        "basic_lstm_cell": tf.nn.rnn_cell.BasicLSTMCell,
    }
    layers |= {own: make(3, name=name) for own, make in cells.items()}
    for own, layer in layers.items():
        with tf.Graph().as_default(), tf.variable_scope("s"):
            layer.build(shape)
            for variable in layer.weights:
                assert variable.name.startswith(f"s/{name or own}/")
            x, before = tf.zeros([2, 4]), len(tf.global_variables())
            if own == "dense":
                assert layer(x).name == f"s/{name or own}/BiasAdd:0"
            else:
                layer(x, layer.zero_state(2, tf.float32))
            assert len(tf.global_variables()) == before
