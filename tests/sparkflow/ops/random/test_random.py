"""Random tensors: seeds, shapes, ranges, and gradients through samples."""

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


def test_sessions_repeat_the_numbers_of_a_seeded_graph():
    tf.set_random_seed(3)
    made = [tf.random_uniform([4]), tf.random_normal([4]), tf.random_gamma([4], 2.0)]
    first, second = run(made), run(made)
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)


def test_steps_of_one_session_differ():
    drawn = tf.random_uniform([4], seed=1)
    with tf.Session() as session:
        assert not np.array_equal(session.run(drawn), session.run(drawn))


@pytest.mark.parametrize(
    ("graph_seed", "op_seed", "expected"),
    [(None, None, (None, None)), (None, 5, (87654321, 5)), (7, 5, (7, 5)), (0, 0, (0, 2**31 - 1))],
)
def test_get_seed(graph_seed, op_seed, expected):
    tf.set_random_seed(graph_seed)
    assert tf.get_seed(op_seed) == tf.random.get_seed(op_seed) == expected


def test_gamma_has_a_sample_per_pair_of_parameters():
    drawn = tf.random_gamma([5000], [[1.0], [4.0]], beta=[1.0, 2.0], seed=1)
    assert drawn.shape.as_list() == [5000, 2, 2]
    np.testing.assert_allclose(run(drawn).mean(axis=0), [[1, 0.5], [4, 2]], rtol=0.1)


def test_poisson_puts_the_shape_first():
    drawn = tf.random_poisson([1.0, 9.0], [5000], seed=1)
    assert drawn.dtype is tf.float32
    np.testing.assert_allclose(run(drawn).mean(axis=0), [1, 9], rtol=0.1)
    assert tf.random.poisson(2.0, [3], dtype=tf.int32).dtype is tf.int32


def test_crops_are_parts():
    value = tf.reshape(tf.range(20), [4, 5])
    with tf.Session() as session:
        crop = tf.random_crop(value, [2, 3], seed=1)
        parts = {tuple(session.run(crop).ravel()) for _ in range(40)}
    starts = {part[0] for part in parts}
    assert starts == {0, 1, 2, 5, 6, 7, 10, 11, 12}
    assert all(part == tuple(part[0] + np.array([0, 1, 2, 5, 6, 7])) for part in parts)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Need value\.shape >= size"):
        run(tf.random_crop(value, [5, 1]))


def test_integers_stay_in_their_range():
    drawn = run(tf.random_uniform([1000], -2, 3, tf.int64, seed=1))
    assert sorted(set(drawn.tolist())) == [-2, -1, 0, 1, 2]
    with pytest.raises(ValueError, match="Must specify maxval"):
        tf.random_uniform([1], dtype=tf.int32)


def test_stateless_numbers_repeat():
    one = tf.random.stateless_normal([3], [1, 2], mean=5.0)
    two = tf.random.stateless_normal([3], [1, 2], mean=5.0)
    integers = tf.random.stateless_uniform([50], [1, 2], 0, 10, tf.int32)
    first, second, drawn = run([one, two, integers])
    np.testing.assert_array_equal(first, second)
    assert ((drawn >= 0) & (drawn < 10)).all()
    with pytest.raises(ValueError, match="must be non-None"):
        tf.random.stateless_uniform([2], [1, 2], dtype=tf.int32)


def test_categorical_and_multinomial_are_one():
    logits = tf.constant([[0.0, 30.0]])
    found = run([tf.random.categorical(logits, 3), tf.multinomial(logits, 3, output_dtype="int32")])
    assert [each.tolist() for each in found] == [[[1, 1, 1]]] * 2
    assert [each.dtype for each in found] == [np.int64, np.int32]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_floating_type_is_drawn(dtype):
    kind = tf.as_dtype(dtype)
    made = [tf.random_uniform([99], dtype=kind), tf.random_normal([99], dtype=kind)]
    uniform, normal = run([*made])
    assert tf.as_dtype(uniform.dtype) is tf.as_dtype(normal.dtype) is kind
    assert 0 <= float(uniform.min()) <= float(uniform.max()) < 1
