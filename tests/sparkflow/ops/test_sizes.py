"""Arguments that are computed, or partly omitted, where most programs have numbers."""

import numpy as np
import pytest

import sparkflow as tf

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def run(tensor, feeds=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(tensor, feeds)


@pytest.mark.parametrize("make", [tf.zeros, tf.ones])
def test_a_scalar_tensor_is_a_shape_of_one_dimension(make):
    count = tf.placeholder(tf.int32, [])
    assert make(tf.constant(3)).shape == [3]
    assert make(count).shape.as_list() == [None]
    assert run(make(count), {count: 2}).shape == (2,)


def test_lists_of_sizes_are_cast_where_an_op_asks_for_int32():
    x = tf.placeholder(tf.float32, [None, 3, 4])
    wide = tf.shape(x, out_type=tf.int64)[2]
    assert tf.reshape(x, [-1, wide]).shape.as_list() == [None, 4]
    assert tf.reshape(x, [-1, tf.sqrt(tf.to_float(tf.shape(x)[2]))]).shape.as_list() == [None, 2]
    assert tf.slice(tf.zeros([4, 9]), [1, 1], [-1, wide]).shape == [3, 4]
    with pytest.raises(TypeError, match=r"have types \[int32, int64\] that don't all match"):
        tf.convert_to_tensor([tf.shape(x)[1], wide])


def test_layers_after_a_computed_reshape():
    x = tf.placeholder(tf.float32, [None, 6, 4])
    flat = tf.reshape(x, [-1, tf.shape(x)[1] * tf.shape(x)[2]])
    assert tf.layers.dense(flat, 3).shape.as_list() == [None, 3]
    image = tf.reshape(x, [tf.shape(x)[0], 3, tf.shape(x)[1] // 3, tf.shape(x)[2]])
    assert tf.layers.conv2d(image, 5, 2).shape.as_list() == [None, 2, 1, 5]
    assert tf.layers.flatten(image).shape.as_list() == [None, 24]


def test_a_shape_set_later_is_seen():
    x = tf.placeholder(tf.float32, [None, None])
    size = tf.shape(x)[1] * 2
    assert tf.zeros([size]).shape.as_list() == [None]
    x.set_shape([None, 5])
    assert tf.zeros([size]).shape.as_list() == [10]
    assert tf.contrib.util.constant_value(size) == 10


def test_what_can_be_fed_or_assigned_is_not_known():
    x = tf.placeholder_with_default(np.zeros([2, 3], np.float32), [None, 3])
    assert tf.zeros(tf.shape(x)).shape.as_list() == [None, 3]
    assert tf.zeros([tf.Variable(3)]).shape.as_list() == [None]
    assert tf.zeros([tf.placeholder_with_default(3, [])]).shape.as_list() == [None]


def test_branches_and_loops_see_the_sizes_around_them():
    x = tf.placeholder(tf.float32, [None, 3, 4])
    size = tf.shape(x)[1] * 2
    chosen = tf.cond(tf.placeholder(tf.bool, []), lambda: tf.zeros([size]), lambda: tf.ones([6]))
    assert chosen.shape == [6]
    _, total = tf.while_loop(
        lambda i, t: i < 3, lambda i, t: (i + 1, t + tf.ones([size])), [0, tf.zeros([6])]
    )
    assert total.shape == [6]
    counted, _ = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t), [0, x])
    assert tf.zeros([counted]).shape.as_list() == [None]


def test_a_large_constant_is_not_computed_while_the_graph_is_built():
    large = tf.reduce_sum(tf.ones([1 << 30], tf.int32))
    assert tf.contrib.util.constant_value(large) is None
    assert tf.zeros([tf.size(tf.ones([1 << 30]))]).shape == [1 << 30]


def test_a_long_chain_of_sizes_is_followed():
    size = tf.shape(tf.placeholder(tf.float32, [None, 1]))[1]
    for _ in range(5000):
        size = size + 1
    assert tf.zeros([size]).shape == [5001]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axis", [(0, 1), (-1, 0), (2, 1)])
def test_spectral_norm_of_unknown_rank(axis, keep):
    x = tf.placeholder(tf.float64, None)
    fed = np.arange(24.0).reshape(2, 3, 4)
    found = run(tf.norm(x, ord=2, axis=axis, keepdims=keep), {x: fed})
    np.testing.assert_allclose(found, np.linalg.norm(fed, 2, axis, keep), rtol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.constant([[2], [0]]),
        lambda: tf.constant(1),
        lambda: [tf.constant([2]), tf.constant([0])],
        lambda: [tf.constant(-1), 0],
        lambda: tf.placeholder_with_default([[2], [0]], [2, 1]),
        lambda: tf.placeholder_with_default([[2], [0]], None),
        lambda: tf.placeholder_with_default(1, []),
        lambda: tf.Variable([[2], [0]]),
    ],
)
@pytest.mark.parametrize("shape", [[2, 3, 4], [None, 3, 4], None])
def test_tensordot_over_axes_that_are_tensors(make, shape):
    a, b = np.arange(24.0).reshape(2, 3, 4), np.arange(20.0).reshape(4, 5)
    x = tf.placeholder(tf.float64, shape)
    found = tf.tensordot(x, tf.constant(b), make())
    np.testing.assert_allclose(run(found, {x: a}), np.tensordot(a, b, [[2], [0]]))


@pytest.mark.parametrize("noise", [[None, 1, None], tf.TensorShape([None, 1, 4]), (None, 1, 4)])
@pytest.mark.parametrize("shape", [[2, 30, 4], [None, 30, 4], None])
@pytest.mark.parametrize("drop", [tf.nn.dropout, tf.layers.dropout, tf.contrib.nn.alpha_dropout])
def test_dropout_of_sizes_left_out(drop, noise, shape):
    x = tf.placeholder(tf.float32, shape)
    how = {"keep_prob": 0.5}
    if drop is tf.layers.dropout:
        how = {"rate": 0.5, "training": True}
    kept = drop(x, noise_shape=noise, **how)
    found = run(kept, {x: np.ones([2, 30, 4], np.float32)})
    assert kept.shape.is_compatible_with(shape)
    assert (found == found[:, :1]).all()


def test_batches_of_sparse_tensors_know_their_rank():
    x = tf.sparse_placeholder(tf.float32, [None, 4])
    assert tf.train.batch([x], 3).shape.as_list() == [None, None, None]
    assert tf.train.batch([x], 3, enqueue_many=True).shape.as_list() == [None, None]
    batched = tf.train.batch_join([[x], [tf.sparse_placeholder(tf.float32)]], 3)
    assert batched.shape.ndims is None


def test_sums_of_sparse_tensors_know_their_shape():
    x = tf.SparseTensor([[0, 0]], [1.0], [3, 4])
    assert tf.sparse_reduce_sum(x, 1).shape == [3]
    assert tf.sparse_reduce_sum(x, [0], keepdims=True).shape == [1, 4]
    assert run(tf.sparse_reduce_sum(x, [0], keepdims=True)).shape == (1, 4)


def test_noise_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="leaves out sizes"):
        tf.nn.dropout(tf.zeros([2, 3, 4]), 0.5, noise_shape=[None, 1])


def test_specs_are_shape_invariants():
    specs = [tf.TensorSpec([], tf.int32), tf.TensorSpec([None, 2])]
    _, grown = tf.while_loop(
        lambda i, v: i < 2,
        lambda i, v: (i + 1, tf.concat([v, v], 0)),
        [0, tf.zeros([1, 2])],
        shape_invariants=specs,
    )
    assert grown.shape.as_list() == [None, 2]
    assert run(grown).shape == (4, 2)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_lengths_of_static_rnn(dtype):
    inputs = [tf.ones([2, 3]) for _ in range(4)]
    lengths = tf.constant([1, 3], dtype)
    cell = tf.nn.rnn_cell.BasicRNNCell(5)
    outputs, _ = tf.nn.static_rnn(cell, inputs, dtype=tf.float32, sequence_length=lengths)
    assert [bool(np.any(each)) for each in run(tf.stack(outputs))[:, 0]] == [True, *[False] * 3]


@pytest.mark.parametrize("taken", [True, False])
def test_gradients_of_branches_that_are_variables_of_other_shapes(taken):
    v, w, chosen = tf.Variable(tf.ones([2, 3])), tf.Variable(tf.ones([4])), tf.constant(taken)
    found = run(tf.gradients(tf.cond(chosen, lambda: v, lambda: w), [v, w]))
    np.testing.assert_array_equal(found[0], np.full([2, 3], float(taken)))
    np.testing.assert_array_equal(found[1], np.full([4], float(not taken)))


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_gradients_of_branches_that_take_rows(taken):
    v = tf.Variable(ROWS)
    rows = tf.nn.embedding_lookup(v, [0, 1])
    branches = [lambda: rows, lambda: tf.gather(rows, [0]), lambda: tf.reduce_sum(rows)]
    y = tf.switch_case(tf.placeholder_with_default(taken, []), branches)
    found = run(tf.convert_to_tensor(tf.gradients(y, v)[0]))
    expected = np.zeros([3, 4])
    expected[: 1 if taken == 1 else 2] = 1
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("taken", [True, False])
def test_gradients_of_branches_with_other_shapes(taken):
    x, chosen = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.bool, [])
    y = tf.cond(chosen, lambda: x * 2.0, lambda: tf.reduce_sum(x * x, 0))
    expected = np.full([3, 4], 2.0) if taken else 2 * ROWS
    np.testing.assert_allclose(
        run(tf.gradients(tf.reduce_sum(y), x)[0], {x: ROWS, chosen: taken}), expected
    )
