"""Names of functions in layers; the numbers are those of TensorFlow 2.15."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.layers import named

X = [[-4.0, -1.0, 2.0, 0.5]]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def ran(tensors):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(tensors)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu", [0, 0, 2, 0.5]),
        ("relu6", [0, 0, 2, 0.5]),
        ("elu", [-0.98168, -0.63212, 2, 0.5]),
        ("selu", [-1.7259, -1.11133, 2.1014, 0.52535]),
        ("sigmoid", [0.01799, 0.26894, 0.8808, 0.62246]),
        ("hard_sigmoid", [0, 0.3, 0.9, 0.6]),
        ("tanh", [-0.99933, -0.76159, 0.96403, 0.46212]),
        ("softmax", [0.00194, 0.03904, 0.78407, 0.17495]),
        ("softplus", [0.01815, 0.31326, 2.12693, 0.97408]),
        ("softsign", [-0.8, -0.5, 0.66667, 0.33333]),
        ("linear", [-4, -1, 2, 0.5]),
        ("exponential", [0.01832, 0.36788, 7.38906, 1.64872]),
        ("swish", [-0.07194, -0.26894, 1.76159, 0.31123]),
        ("silu", [-0.07194, -0.26894, 1.76159, 0.31123]),
        ("gelu", [-0.00013, -0.15866, 1.9545, 0.34573]),
        ("leaky_relu", [-0.8, -0.2, 2, 0.5]),
        ("mish", [-0.07259, -0.3034, 1.94396, 0.37525]),
        ("log_softmax", [-6.24326, -3.24326, -0.24326, -1.74326]),
    ],
)
def test_activations(name, expected):
    found = ran(named.activation(name)(tf.constant(X)))
    np.testing.assert_allclose(found, [expected], atol=2e-5)


@pytest.mark.parametrize("given", [None, tf.nn.relu])
def test_other_activations_stay(given):
    assert named.activation(given) is given


@pytest.mark.parametrize(
    ("name", "deviation", "largest"),
    [
        ("random_uniform", 0.0289, 0.05),
        ("uniform", 0.0289, 0.05),
        ("random_normal", 0.05, 0.25),
        ("normal", 0.05, 0.25),
        ("truncated_normal", 0.044, 0.1),
        ("glorot_uniform", 0.1, 0.1733),
        ("GlorotNormal", 0.1, 0.23),
        ("he_normal", 0.1414, 0.33),
        ("HeUniform", 0.1414, 0.245),
        ("lecun_normal", 0.1, 0.23),
        ("lecun_uniform", 0.1, 0.1733),
        ("variance_scaling", 0.1, 0.23),
        ("orthogonal", 0.1, 0.6),
    ],
)
def test_initializers_of_random_numbers(name, deviation, largest):
    tf.set_random_seed(1)
    found = ran(named.initializer(name)([100, 100], tf.float32))
    assert abs(found.mean()) < 0.01
    np.testing.assert_allclose(found.std(), deviation, rtol=0.05)
    assert largest * 0.6 < np.abs(found).max() <= largest


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("zeros", np.zeros([2, 2])),
        ("Zeros", np.zeros([2, 2])),
        ("zero", np.zeros([2, 2])),
        ("constant", np.zeros([2, 2])),
        ("ones", np.ones([2, 2])),
        ("one", np.ones([2, 2])),
        ("Identity", np.eye(2)),
        ({"class_name": "Constant", "config": {"value": 3.0}}, np.full([2, 2], 3.0)),
    ],
)
def test_initializers(given, expected):
    assert ran(named.initializer(given)([2, 2], tf.float32)).tolist() == expected.tolist()


def test_other_initializers_stay():
    assert named.initializer(tf.zeros_initializer) is tf.zeros_initializer
    assert named.initializer(None) is None
    assert named.initializer(0.5) == 0.5


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("l1", 0.06),
        ("L1", 0.06),
        ("l2", 0.14),
        ("L2", 0.14),
        ("l1_l2", 0.2),
        ("L1L2", 0.0),
        ({"class_name": "L1L2", "config": {"l1": 0.5}}, 3.0),
    ],
)
def test_regularizers(given, expected):
    loss = named.regularizer(given)(tf.constant([[1.0, -2.0], [3.0, 0.0]]))
    np.testing.assert_allclose(ran(loss), expected, rtol=1e-6)


NORM = [[-1.60357, 1.74574], [0.53452, -0.43644], [1.06904, 0.87287]]
UNIT = [[-0.80178, 0.87287], [0.26726, -0.21822], [0.53452, 0.43644]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("max_norm", NORM),
        ("MaxNorm", NORM),
        ("non_neg", [[0, 4], [1, 0], [2, 2]]),
        ("nonneg", [[0, 4], [1, 0], [2, 2]]),
        ("unit_norm", UNIT),
        ("MinMaxNorm", UNIT),
    ],
)
def test_constraints(name, expected):
    found = ran(named.constraint(name)(tf.constant([[-3.0, 4.0], [1.0, -1.0], [2.0, 2.0]])))
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("kind", ["activation", "initializer", "regularizer", "constraint"])
def test_unknown_names_are_refused(kind):
    known = {"activation": "relu", "initializer": "ones", "regularizer": "l2"}
    text = f"Unknown {kind}.*: 'foo'; known are .*{known.get(kind, 'max_norm')}"
    with pytest.raises(ValueError, match=text):
        getattr(named, kind)("foo")


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="Could not interpret activation function identifier: 1"):
        named.activation(1)


def test_layers_take_names():
    image = tf.ones([1, 4, 4, 2])
    dense = tf.layers.dense(
        tf.constant([[-1.0, 3.0]]), 2, "relu", kernel_initializer="ones", bias_initializer="ones",
        kernel_regularizer="l2", activity_regularizer="l1",
    )  # fmt: skip
    convolved = tf.layers.conv2d(image - 2.0, 1, 2, activation="relu", kernel_initializer="ones")
    separated = tf.layers.separable_conv2d(
        image, 1, 2, depthwise_initializer="ones", pointwise_initializer="ones"
    )
    transposed = tf.layers.conv2d_transpose(
        image, 1, 2, kernel_initializer="ones", bias_initializer="ones"
    )
    scaled = tf.layers.batch_normalization(
        image, beta_initializer="ones", gamma_initializer="ones", renorm=True,
        moving_mean_initializer="ones", moving_variance_initializer="ones",
    )  # fmt: skip
    found = ran(
        [dense, convolved, separated, transposed, scaled, *tf.losses.get_regularization_losses()]
    )
    assert found[0].tolist() == [[3.0, 3.0]]
    assert [each.max() for each in found[1:5]] == [0.0, 8.0, 9.0, 1.0]
    np.testing.assert_allclose(found[5:], [0.04, 0.06], rtol=1e-6)


def test_layers_of_users_take_names():
    class Scale(tf.layers.Layer):
        def build(self, shape):
            self.factor = self.add_weight("factor", [], initializer="ones", constraint="non_neg")
            super().build(shape)

        def call(self, inputs):
            return inputs * self.factor

    assert ran(Scale()(tf.constant([2.0]))).tolist() == [2.0]


def test_names_are_checked_before_a_layer_is_called():
    for given in ({"activation": "foo"}, {"kernel_initializer": "foo"}, {"bias_constraint": "foo"}):
        with pytest.raises(ValueError, match=r"Unknown .*'foo'"):
            tf.layers.Dense(2, **given)


def test_cells_take_names():
    ones = tf.nn.rnn_cell.GRUCell(
        2, activation="relu", kernel_initializer="ones", bias_initializer="zeros"
    )
    output, _ = ones(tf.constant([[1.0]]), tf.zeros([1, 2]))
    np.testing.assert_allclose(ran(output), [[0.26894, 0.26894]], atol=1e-5)
    with pytest.raises(ValueError, match="Unknown activation function: 'foo'"):
        tf.nn.rnn_cell.LSTMCell(2, activation="foo")
    with pytest.raises(ValueError, match="Unknown initializer: 'foo'"):
        tf.nn.rnn_cell.LSTMCell(2, initializer="foo")
