import numpy as np
import pytest

import sparkflow as tf
from sparkflow.graph.constant_value import constant_value, constant_value_as_shape


@pytest.fixture(autouse=True)
def x():
    with tf.Graph().as_default():
        yield tf.placeholder(tf.float32, [None, 3, 4])


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x: tf.constant([1, 2]), [1, 2]),
        (lambda x: tf.identity(tf.constant(3)), 3),
        (lambda x: x.graph.apply("Rank", (x,), {}), 3),
        (lambda x: tf.shape(x)[1], 3),
        (lambda x: tf.shape(x)[-2:], [3, 4]),
        (lambda x: tf.shape(x)[1:][::-1], [4, 3]),
        (lambda x: tf.stack([tf.shape(x)[2], 7]), [4, 7]),
        (lambda x: tf.concat([tf.shape(x)[1:], [5]], 0), [3, 4, 5]),
        (lambda x: tf.cast(tf.shape(x)[1], tf.int64), 3),
        (lambda x: tf.range(1, tf.shape(x)[2]), [1, 2, 3]),
        (lambda x: tf.constant([-5, 6])[0], -5),
        (lambda x: tf.shape(x)[0], None),
        (lambda x: tf.shape(x), None),
        (lambda x: tf.stack([tf.shape(x)[0], 7]), None),
        (lambda x: tf.cast(tf.constant(1), tf.float32), 1.0),
        (lambda x: tf.placeholder_with_default(3, []), None),
        (lambda x: x, None),
    ],
)
def test_values_that_the_graph_tells(x, make, expected):
    found = constant_value(make(x))
    if expected is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x: tf.shape(x), (None, 3, 4)),
        (lambda x: tf.stack([tf.shape(x)[0], 7]), (None, 7)),
        (lambda x: tf.concat([tf.shape(x)[:2], [-1]], 0), (None, 3, None)),
        (lambda x: tf.placeholder(tf.int32, [2]), (None, None)),
        (lambda x: tf.placeholder(tf.int32), None),
        (lambda x: tf.constant([2, -1]), (2, None)),
    ],
)
def test_shapes_known_in_part(x, make, expected):
    assert constant_value_as_shape(make(x)) == expected


def test_what_programs_ask():
    with tf.Graph().as_default():
        part = tf.stack([1, tf.placeholder(tf.int32, [])])
        for ask in (tf.contrib.util.constant_value, tf.get_static_value):
            assert ask(tf.constant(3)) == 3
            assert ask(tf.Variable(3)) is None
            assert ask(tf.get_variable(f"r_{ask.__name__}", [1], use_resource=True)) is None
            tf.get_variable_scope().reuse_variables()
            assert ask(part) is None
            assert ask(part, partial=True).tolist() == [1, None]
            assert ask(tf.placeholder(tf.int32, []), partial=True) is None
