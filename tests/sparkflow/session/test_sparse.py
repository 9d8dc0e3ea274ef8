"""Sparse tensors as feeds and fetches."""

import numpy as np
import pytest

import sparkflow as tf

VALUE = tf.SparseTensorValue(np.array([[0, 1], [2, 3]]), np.array([1.5, -2.0]), np.array([3, 4]))


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def same(found, expected):
    assert isinstance(found, tf.SparseTensorValue)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [None, [None, 4], [3, 4]])
@pytest.mark.parametrize("form", [tf.SparseTensorValue, tuple, list])
def test_what_is_fed_for_a_placeholder_is_what_is_fetched(session, shape, form):
    sparse = tf.sparse_placeholder(tf.float64, shape)
    fed = VALUE if form is tf.SparseTensorValue else form(VALUE)
    same(session.run(sparse, {sparse: fed}), VALUE)


def test_any_sparse_tensor_can_be_fed_and_nested(session):
    sparse = tf.SparseTensor(
        tf.placeholder_with_default(np.zeros((1, 2), np.int64), [None, 2]),
        tf.placeholder_with_default([0.0], [None]),
        np.array([3, 4]),
    )
    fed = (VALUE.indices, VALUE.values.astype(np.float32), VALUE.dense_shape)
    found = session.run({"a": [sparse, sparse.values]}, {sparse: fed})
    same(found["a"][0], fed)
    np.testing.assert_array_equal(found["a"][1], fed[1])


def test_eval_takes_the_default_session(session):
    sparse = tf.SparseTensor.from_value(VALUE)
    with session.as_default():
        same(sparse.eval(), VALUE)


def test_something_else_than_three_parts_is_refused(session):
    sparse = tf.sparse_placeholder(tf.float64)
    with pytest.raises(ValueError, match="got 2 parts"):
        session.run(sparse, {sparse: VALUE[:2]})


def test_the_parts_are_as_they_were_given(session):
    sparse = tf.sparse_placeholder(tf.float32, [None, 4], name="s")
    assert sparse.shape.as_list() == [None, 4]
    assert sparse.values.name == "s/values:0"
    assert sparse.indices.shape.as_list() == [None, 2]
    assert sparse.graph is session.graph
    assert sparse.dtype is tf.float32
    total = tf.reduce_sum(sparse.values)
    assert total.op.inputs[0].op in [each.inputs[0].op for each in sparse.consumers()]


def test_variables_take_sparse_gradients_of_a_product(session):
    weights = tf.Variable(np.ones((4, 1)))
    product = tf.sparse_tensor_dense_matmul(tf.SparseTensor.from_value(VALUE), weights)
    (slope,) = tf.gradients(product, weights)
    session.run(weights.initializer)
    np.testing.assert_array_equal(session.run(slope).ravel(), [0, 1.5, 0, -2])


@pytest.mark.parametrize("shape", [[2, None], tf.TensorShape([2, None]), (2, -1)])
def test_placeholders_take_shapes_known_in_part(shape):
    rows = tf.sparse_placeholder(tf.float32, shape)
    assert rows.shape.as_list() == [2, None]
    fed = tf.SparseTensorValue([[0, 1]], [2.0], [2, 4])
    with tf.Session() as session:
        assert session.run(tf.sparse_reduce_sum(rows, 0), {rows: fed}).tolist() == [0, 2, 0, 0]
