"""Elementwise functions of SparseTensors and IndexedSlices, and of the bits of integers."""

import sys

import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def run(tensors):
    with tf.Session() as session:
        return session.run(tensors)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (tf.abs, [2.5, 0.25]),
        (tf.negative, [2.5, -0.25]),
        (tf.sign, [-1, 1]),
        (tf.square, [6.25, 0.0625]),
        (tf.round, [-2, 0]),
        (tf.tanh, np.tanh([-2.5, 0.25])),
    ],
)
def test_functions_that_keep_0_take_sparse_tensors(function, expected):
    sparse = tf.SparseTensor([[0, 1], [1, 0]], [-2.5, 0.25], [2, 2])
    result = function(sparse)
    assert isinstance(result, tf.SparseTensor)
    values, indices = run([result.values, result.indices])
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert indices.tolist() == [[0, 1], [1, 0]]


def test_casts_and_products_keep_slices_sparse():
    slices = tf.IndexedSlices(tf.constant([[1.5]]), tf.constant([3]))
    for result, expected in ((tf.cast(slices, tf.int32), [[1]]), (tf.scalar_mul(2, slices), [[3]])):
        assert isinstance(result, tf.IndexedSlices)
        assert run(result.values).tolist() == expected
    sparse = tf.cast(tf.SparseTensor([[0]], [1.5], [2]), tf.int64)
    assert sparse.dtype is tf.int64


def test_logical_operators_of_integers_work_on_bits():
    n = tf.constant([6, 3])
    found = run([n & 3, n | 8, n ^ 1, ~n, 1 & n])
    assert [each.tolist() for each in found] == [[2, 3], [14, 11], [7, 2], [-7, -4], [0, 1]]


def test_a_sparse_tensor_is_printed_by_its_parts(capfd):
    with tf.Graph().as_default(), tf.Session() as session:
        sparse = tf.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3])
        session.run(tf.print("a", sparse, {"k": sparse}, output_stream=sys.stdout))
    parts = "'SparseTensor(indices=[[0 1]\n [1 2]], values=[1 2], shape=[2 3])'"
    assert capfd.readouterr().out == f"a {parts} {{'k': {parts}}}\n"
