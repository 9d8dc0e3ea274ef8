"""Loops whose iterations look rows up, search, draw: ops that provide calls of machine code."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from support.loops import compare, turns_and, with_gradients

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")
TABLE = np.random.default_rng(0).uniform(-1, 1, (7, 3)).astype(np.float32)


def loop(turn: Callable[..., Any], turns: Any, start: Any) -> Any:
    return tf.while_loop(lambda i, _: i < turns, lambda i, h: (i + 1, turn(i, h)), [0, start])[1]


TURNS: dict[str, Callable[..., Any]] = {
    "a row": lambda i, h, t: h + tf.gather(t, i),
    "rows": lambda i, h, t: tf.tanh(h + tf.gather(t, tf.stack([i, 6 - i]))),
    "rows of int64": lambda i, h, t: h + tf.gather(t, [tf.cast(i, tf.int64)]),
    "what is largest": lambda i, h, t: h + tf.nn.embedding_lookup(t, tf.argmax(h, axis=1)),
    "what is least": lambda i, h, t: (
        h + tf.gather(t, tf.argmin(h, axis=0, output_type=tf.int32))[:2]
    ),
    "one hot": lambda i, h, t: h + tf.one_hot(tf.argmax(h, 1), 3),
    "one hot along rows": lambda i, h, t: h * tf.one_hot(tf.argmin(h, 0), 2, 2.0, 0.5, axis=0),
    "a mean of all": lambda i, h, t: h - tf.reduce_mean(h) + t[:2],
    "labels": lambda i, h, t: (
        h + tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 2], logits=h)[:, None] * t[:2]
    ),
    "sums by segment": lambda i, h, t: tf.unsorted_segment_sum(h + t[:2], tf.stack([i % 2, -1]), 2),
    "rests and quotients": lambda i, h, t: h + tf.cast(i % 3 + (i - 3) // 2, tf.float32) * t[:2],
    "rests of negative ones": lambda i, h, t: h + tf.cast((2 - i) % -3, tf.float32) * t[:2],
    "a row by index": lambda i, h, t: h + t[i],
    "an element": lambda i, h, t: h + t[6 - i, i % 3],
    "a column": lambda i, h, t: h * t[:, i % 3, None][:2],
    "from the end": lambda i, h, t: h + t[-i - 1, ...],
    "the last dimension": lambda i, h, t: h + t[..., 2 - i % 3][:3],
    "a slice": lambda i, h, t: h + tf.slice(t, [i % 5, 0], [2, 3]),
    "waves": lambda i, h, t: tf.sin(h * 3 + t[:2]) + tf.cos(h) * 0.5,
    "running sums": lambda i, h, t: h * 0.5 + tf.cumsum(t[:2] * h, 1, reverse=True),
    "the largest": lambda i, h, t: h + tf.nn.top_k(h * t[:2], 2)[0][:, :1],
    "an inverse": lambda i, h, t: (
        h + tf.matrix_inverse(tf.matmul(t, t, transpose_a=True) + tf.eye(3))[:2]
    ),
    "a solution": lambda i, h, t: tf.matrix_solve(t[:3] + 4 * tf.eye(3), h[:, :, None][0])[:2] + h,
    "classes": lambda i, h, t: h * t[:2] + tf.gather(t, tf.multinomial(h, 3, seed=5)[0, :2]),
    "uniform numbers": lambda i, h, t: h + t[:2] * tf.random_uniform([2, 3], seed=3),
    "dropout": lambda i, h, t: tf.nn.dropout(h + t[:2], rate=0.5, seed=4),
}


@pytest.mark.parametrize("name", TURNS)
def test_turns_and_their_gradients(name: str, native_runs: list[int]) -> None:
    table = tf.placeholder(tf.float32, TABLE.shape), TABLE
    start = tf.placeholder(tf.float32, [2, 3]), TABLE[2:4] * 0.5
    limit, feed = turns_and(table, start)
    end = loop(lambda i, h: TURNS[name](i, h, table[0]), limit, start[0])
    fetches = [each for each in with_gradients(end, table[0], start[0]) if each is not None]
    compare((fetches, feed), [0, 1, 2, 6])
    assert len(native_runs) >= 4 * len(fetches[:2])


def test_double_precision_draws_what_numpy_draws(native_runs: list[int]) -> None:
    limit, feed = turns_and()
    end = loop(
        lambda i, h: h + tf.random_uniform([2], seed=1, dtype=tf.float64),
        limit,
        tf.zeros([2], tf.float64),
    )
    compare(([end], feed), [1, 3])
    assert native_runs


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (lambda i, h: h + tf.gather(tf.constant(TABLE[:2]), i), r"indices = 2 is not in \[0, 2\)"),
        (lambda i, h: h + tf.constant(TABLE)[:2][i], "slice index 2 of dimension 0 out of bounds"),
        (
            lambda i, h: h + tf.slice(tf.constant(TABLE), [6, i], [1, 2])[0, 0],
            "begin|size",
        ),
        (
            lambda i, h: tf.unsorted_segment_sum(tf.reshape(h, [1, 3]), [i], 2)[0],
            r"segment_ids\[0\] = 2 is out of range",
        ),
    ],
)
def test_an_index_that_there_is_not_is_told_as_ever(
    turn: Callable[..., Any], message: str, native_runs: list[int]
) -> None:
    end = loop(turn, 5, tf.zeros([3]))
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(end)
    assert not native_runs


def test_what_was_drawn_by_a_loop_that_python_repeats_is_drawn_again() -> None:
    """The list has more elements than there was room for, so Python takes over once."""

    def drawn(count: int) -> Any:
        numbers = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[])

        def turn(i: Any, a: Any) -> Any:
            return i + 1, a.write(i, tf.random_uniform([], seed=9))

        return tf.while_loop(lambda i, _: i < count, turn, [0, numbers])[1].stack()

    with tf.Session() as session:
        few, many = session.run(drawn(10)), session.run(drawn(1000))
        assert len(set(many.tolist())) > 990
    with tf.Graph().as_default(), tf.Session() as session:
        again, lots = session.run(drawn(10)), session.run(drawn(1000))
    np.testing.assert_array_equal(few, again)
    np.testing.assert_array_equal(many, lots)
    plain = np.random.Generator(np.random.Philox(key=np.array([87654321, 9], np.uint64)))
    np.testing.assert_array_equal(few, plain.random(10, np.float32))
    plain = np.random.Generator(np.random.Philox(key=np.array([87654321, 9], np.uint64)))
    np.testing.assert_array_equal(many, plain.random(1000, np.float32))


def nested(i: Any, h: Any, t: Any) -> Any:
    def small() -> Any:
        return tf.cond(i % 2 > 0, lambda: tf.tanh(h * t[:2]), lambda: h)

    return tf.cond(tf.reduce_sum(h) > 0, small, lambda: h * h + t[2:4])


BRANCHES: dict[str, Callable[..., Any]] = {
    "by turns": lambda i, h, t: tf.cond(i % 2 > 0, lambda: tf.tanh(h * t[:2]), lambda: h + t[3:5]),
    "by what was computed": lambda i, h, t: tf.cond(
        tf.reduce_sum(h) > 0, lambda: tf.exp(h - 1.0), lambda: tf.matmul(h, t[:3]) + 0.5
    ),
    "with nothing done": lambda i, h, t: tf.cond(i > 2, lambda: h, lambda: h * t[:2] * h),
    "two results": lambda i, h, t: sum(
        tf.cond(i > 1, lambda: (h * h, t[0]), lambda: (t[4:6] * h, t[i] * t[0]))
    ),
    "that look up": lambda i, h, t: h + tf.cond(i < 3, lambda: t[i], lambda: tf.gather(t, 6 - i)),
    "that draw": lambda i, h, t: (
        h + tf.cond(i < 3, lambda: t[0], lambda: tf.random_uniform([3], seed=1) * h[0])
    ),
    "in branches": nested,
}


@pytest.mark.parametrize("name", BRANCHES)
def test_branches_in_turns_and_their_gradients(name: str, native_runs: list[int]) -> None:
    table = tf.placeholder(tf.float32, TABLE.shape), TABLE
    start = tf.placeholder(tf.float32, [2, 3]), TABLE[2:4] * 0.5
    limit, feed = turns_and(table, start)
    end = loop(lambda i, h: BRANCHES[name](i, h, table[0]), limit, start[0])
    compare((with_gradients(end, table[0], start[0]), feed), [0, 1, 2, 6])
    assert len(native_runs) >= 8


def test_a_gradient_that_is_pythons_reads_what_branches_recorded(native_runs: list[int]) -> None:
    """The gradient of one part has a determinant, which Python computes."""
    table = tf.placeholder(tf.float32, TABLE.shape), TABLE
    start = tf.placeholder(tf.float32, [2, 3]), TABLE[2:4] * 0.5

    @tf.custom_gradient
    def halved(x: Any) -> Any:
        return x * 0.5, lambda dy: dy * tf.linalg.det(tf.matmul(x, x, transpose_b=True))

    def turn(i: Any, h: Any) -> Any:
        part = halved(tf.slice(table[0], [i % 5, 0], [2, 3]))
        return tf.cond(i % 2 > 0, lambda: tf.tanh(h * part), lambda: h * h + part)

    limit, feed = turns_and(table, start)
    fetches = with_gradients(loop(turn, limit, start[0]), table[0], start[0])
    compare((fetches, feed), [0, 1, 2, 5])
    assert len(native_runs) == 16  # of 32, in two ways: the forward ones
