"""Functions that check whether an argument is a tensor also accept a variable."""

import numpy as np
import pytest

import sparkflow as tf

MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
HALF = (MATRIX / 12).astype(np.float16)
IMAGES = np.arange(50, dtype=np.float32).reshape(2, 5, 5, 1)
SIGNAL = np.arange(9, dtype=np.float32)


def int32(*values):
    return np.array(values if len(values) > 1 else values[0], np.int32)


def dataset(made):
    return tf.compat.v1.data.make_initializable_iterator(made).initializer


FUNCTIONS = {
    "labels": (
        HALF,
        lambda given: tf.nn.softmax_cross_entropy_with_logits_v2(labels=given, logits=HALF),
    ),
    "labels without a gradient": (
        HALF,
        lambda given: tf.nn.softmax_cross_entropy_with_logits(labels=given, logits=HALF),
    ),
    "integer labels": (
        np.eye(3, 4, dtype=np.int32),
        lambda given: tf.nn.softmax_cross_entropy_with_logits_v2(labels=given, logits=MATRIX),
    ),
    "zeros": (np.array([2, 3]), tf.zeros),
    "range": (int32(3), lambda given: tf.range(given, dtype=tf.float32)),
    "axes": (int32([0]), lambda given: tf.nn.moments(MATRIX, given)[1]),
    "turns": (int32(1), lambda given: tf.image.rot90(IMAGES, given)),
    "height": (int32(3), lambda given: tf.image.resize_image_with_crop_or_pad(IMAGES, given, 7)),
    "frames": (int32(2), lambda given: tf.signal.frame(SIGNAL, given, given)),
    "stft": (int32(4), lambda given: tf.abs(tf.signal.stft(SIGNAL, given, 2))),
    "lengths": (
        int32(1, 2),
        lambda given: tf.TensorArray(tf.float32, 2, infer_shape=False).split(MATRIX, given).read(1),
    ),
    "mask": (
        int32(1),
        lambda given: tf.boolean_mask(MATRIX, [True, False, True, True], axis=given),
    ),
    "mask of two": (
        int32(0),
        lambda given: tf.boolean_mask(MATRIX[None], MATRIX[None] > 3, axis=given),
    ),
    "state": (int32(3), lambda given: tf.nn.rnn_cell.GRUCell(4).zero_state(given, tf.float32)),
    "sparse": (
        np.array([2, 3]),
        lambda given: tf.sparse_placeholder(tf.float32, given).dense_shape,
    ),
    "scale": (
        np.array([1.0, 2.0]),
        lambda given: tf.distributions.Normal(0.5, given).log_prob(np.array([0.0, 1.0])),
    ),
    "padded": (
        np.array([6]),
        lambda given: dataset(
            tf.data.Dataset.from_tensor_slices(MATRIX).padded_batch(2, padded_shapes=given)
        ),
    ),
    "seed": (np.array(3), lambda given: dataset(tf.data.Dataset.range(4).shuffle(3, given))),
}


def test_variables_are_taken_as_tensors_are():
    with tf.Graph().as_default():
        found = {}
        for name, (value, function) in FUNCTIONS.items():
            held = [
                tf.Variable(value, use_resource=behind_handle) for behind_handle in (False, True)
            ]
            found[name] = [function(given) for given in (tf.constant(value), *held)]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            results = session.run(found)
    for name, (expected, *others) in results.items():
        for other in others:
            assert np.shape(other) == np.shape(expected), name
            if expected is not None:
                np.testing.assert_allclose(other, expected, 1e-6, err_msg=name)
                assert other.dtype == expected.dtype


WRONG = {
    "sigmoid": lambda given: tf.nn.sigmoid_cross_entropy_with_logits(labels=given, logits=MATRIX),
    "weighted": lambda given: tf.nn.weighted_cross_entropy_with_logits(given, MATRIX, 2.0),
    "write": lambda given: tf.TensorArray(tf.float32, 3).unstack(given),
    "matmul": lambda given: tf.matmul(MATRIX, given, transpose_b=True),
    "case": lambda given: tf.case([(given, lambda: tf.constant(1))], lambda: tf.constant(2)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_variable_of_another_dtype_is_refused_as_a_tensor_is(name):
    with tf.Graph().as_default():
        for given in (tf.constant(HALF), tf.Variable(HALF), tf.Variable(HALF, use_resource=True)):
            with pytest.raises(TypeError, match=r"type|dtype"):
                WRONG[name](given)
