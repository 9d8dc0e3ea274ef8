"""Variables of loops that only grow: updates in place give the same as iterations in Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.loops.accumulators import LEAST_KEPT_TURNS, MOST_KEPT_TURNS
from sparkflow_runtime.compiler.loops.plan import LoopPlan
from support.loops import compare, spied_plans, turns_and, with_gradients

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default():
        yield


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[LoopPlan]:
    """The loops that were planned in machine code."""
    return spied_plans(monkeypatch)


def matrix(*shape: int, seed: int = 0, dtype: type = np.float32) -> tuple[Any, Any]:
    array = np.random.default_rng(seed).uniform(-0.5, 0.5, shape).astype(dtype)
    return tf.placeholder(tf.as_dtype(dtype), list(shape)), array


Turn = Callable[[Any, Any, Any], Any]
"""Maps the iteration number, the state and what every iteration reads to the next state."""


def check(turn: Turn, h: tuple[Any, Any], w: tuple[Any, Any], turns: list[int]) -> None:
    limit, feed = turns_and(h, w)
    _, end = tf.while_loop(
        lambda i, a: i < limit, lambda i, a: (i + 1, tf.tanh(turn(i, a, w[0]))), [0, h[0]]
    )
    loss = tf.reduce_sum(tf.square(end))
    dw = tf.convert_to_tensor(tf.gradients(loss, w[0])[0])
    compare(([loss, tf.gradients(loss, h[0])[0], dw], feed), turns, rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "turn",
    [
        lambda i, a, w: a + tf.gather(w, i % 7),
        lambda i, a, w: a + tf.gather(w, [i % 7, 2, 2]),
        lambda i, a, w: a + tf.nn.embedding_lookup(w, tf.argmax(a, 1)),
        lambda i, a, w: a * w[i % 7],
        lambda i, a, w: a + tf.slice(w, [i % 5, 0], [3, 4]),
        lambda i, a, w: a + w[:3] * w[i % 7, :1],
        lambda i, a, w: a + tf.gather(w, i % 7) * tf.gather(w, 3),
        lambda i, a, w: a + tf.gather(w, i % 7) * tf.reduce_sum(tf.tanh(w)) * 0.01,
        lambda i, a, w: a + tf.gather(w, i % 7) + w[3] * tf.reduce_mean(w),
    ],
    ids=["row", "rows", "argmax", "index", "slice", "parts", "twice", "and_all", "three"],
)
def test_rows_of_a_table(turn: Turn, dtype: type, plans: list[LoopPlan]) -> None:
    check(turn, matrix(3, 4, dtype=dtype), matrix(7, 4, seed=1, dtype=dtype), [0, 1, 9])
    assert any(plan.growing for plan in plans)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "turn",
    [
        lambda i, a, w: tf.matmul(a, w),
        lambda i, a, w: tf.matmul(a, w, transpose_b=True),
        lambda i, a, w: tf.matmul(tf.matmul(a, w), w),
        lambda i, a, w: tf.matmul(a, w) + tf.gather(w, i % 6),
        lambda i, a, w: tf.matmul(a, w) + tf.reduce_mean(tf.tanh(w)),
    ],
    ids=["product", "transposed", "twice", "and_row", "and_more"],
)
def test_weights(turn: Turn, dtype: type, plans: list[LoopPlan]) -> None:
    turns = [0, 1, LEAST_KEPT_TURNS, 2 * MOST_KEPT_TURNS + 3]
    check(turn, matrix(2, 6, dtype=dtype), matrix(6, 6, seed=1, dtype=dtype), turns)
    assert any(plan.kept or plan.growing for plan in plans)


def test_weights_in_one_row_or_column(plans: list[LoopPlan]) -> None:
    h, w = matrix(1, 40), matrix(40, 40, seed=1)
    v = matrix(40, 1, seed=2)
    limit, feed = turns_and(h, w, v)
    _, end = tf.while_loop(
        lambda i, a: i < limit,
        lambda i, a: (i + 1, tf.tanh(tf.matmul(a, w[0]) + tf.matmul(a, v[0]))),
        [0, h[0]],
    )
    compare((with_gradients(tf.reduce_sum(end * end), h[0], w[0], v[0]), feed), [1, 12], rtol=1e-3)
    assert any(plan.kept for plan in plans)


def test_large_products_are_added_in_place(plans: list[LoopPlan]) -> None:
    check(lambda i, a, w: tf.matmul(a, w), matrix(90, 80), matrix(80, 80, seed=1), [0, 1, 5])
    assert any(plan.growing and not plan.kept for plan in plans)


def test_results_are_the_same_whenever_the_loop_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How many products are added at once does not depend on how long iterations take."""
    from sparkflow_runtime.compiler.loops import plan

    h, w = matrix(2, 16), matrix(16, 16, seed=1)
    _, end = tf.while_loop(
        lambda i, a: i < 700, lambda i, a: (i + 1, tf.tanh(tf.matmul(a, w[0]))), [0, h[0]]
    )
    gradient = tf.gradients(tf.reduce_sum(end), w[0])
    with tf.Session() as session:
        feeds = {h[0]: h[1] * 9, w[0]: w[1] * 3}
        first = session.run(gradient, feeds)[0]
        for most in (1, 7, 100):
            monkeypatch.setattr(plan, "MOST_TURNS", most)
            np.testing.assert_array_equal(session.run(gradient, feeds)[0], first)


@pytest.mark.parametrize(
    ("condition", "turn"),
    [
        (lambda i, a, s: i < 6, lambda i, a, s: (i + 1, a + s[0], s + tf.matmul(a, a))),
        (
            lambda i, a, s: tf.reduce_sum(s) < 1e9,
            lambda i, a, s: (i + 1, a, s + tf.matmul(a, 1e9 * a)),
        ),
        (lambda i, a, s: i < 6, lambda i, a, s: (i + 1, s, s + tf.matmul(a, a))),
        (lambda i, a, s: i < 6, lambda i, a, s: (i + 1, a, s + s + tf.matmul(a, a))),
        (lambda i, a, s: i < 6, lambda i, a, s: (i + 1, s + tf.matmul(a, a), a)),
    ],
    ids=["turn", "condition", "another", "twice", "crossed"],
)
def test_what_somebody_reads_is_no_accumulator(
    condition: Any, turn: Any, plans: list[LoopPlan]
) -> None:
    a, s = matrix(5, 5), matrix(5, 5, seed=1)
    ends = tf.while_loop(condition, turn, [0, tf.abs(a[0]), s[0]])[1:]
    compare(([*ends], lambda _: {a[0]: a[1], s[0]: s[1]}), [0], rtol=1e-3)
    assert plans
    assert not any(plan.growing for plan in plans)


def test_a_sum_of_the_users_own(plans: list[LoopPlan]) -> None:
    """Not only gradients: a histogram and a matrix of second moments."""
    x = matrix(2, 6)
    limit, feed = turns_and(x)

    def turn(i: Any, a: Any, counts: Any, moments: Any) -> Any:
        counts = counts + tf.unsorted_segment_sum(tf.ones([2, 6]), tf.argmax(a, 1), 6)
        return i + 1, a * -1.1, counts, moments + tf.matmul(a, a, True)

    start = [0, x[0], tf.ones([6, 6]), tf.zeros([6, 6])]
    ends = tf.while_loop(lambda i, *_: i < limit, turn, start)[1:]
    compare(([*ends], feed), [0, 1, 20], rtol=1e-3)
    assert any(len(plan.growing) == 2 and plan.kept for plan in plans)


def test_two_sums_of_one_term(plans: list[LoopPlan]) -> None:
    x = matrix(2, 6)
    limit, feed = turns_and(x)

    def turn(i: Any, a: Any, one: Any, other: Any) -> Any:
        product, term = tf.matmul(a, a, True), tf.tanh(tf.reduce_sum(a)) * tf.ones([6, 6])
        counts = tf.unsorted_segment_sum(tf.ones([2, 6]), tf.argmax(a, 1), 6)
        return i + 1, a * -0.9, one + product + term, other + (counts + term)

    start = [0, x[0], tf.ones([6, 6]), tf.zeros([6, 6])]
    ends = tf.while_loop(lambda i, *_: i < limit, turn, start)[1:]
    compare(([*ends], feed), [0, 1, 20], rtol=1e-3)
    assert any(len(plan.growing) == 2 and plan.kept for plan in plans)


def test_second_gradients_read_the_sum(plans: list[LoopPlan]) -> None:
    h, w = matrix(2, 5), matrix(5, 5, seed=1)
    limit, feed = turns_and(h, w)
    _, end = tf.while_loop(
        lambda i, a: i < limit, lambda i, a: (i + 1, tf.tanh(tf.matmul(a, w[0]))), [0, h[0]]
    )
    first = tf.gradients(tf.reduce_sum(end * end), w[0])[0]
    compare((with_gradients(tf.reduce_sum(first * first), h[0], w[0]), feed), [1, 4], rtol=1e-3)


def test_a_refused_row_leaves_the_error_to_python() -> None:
    table = tf.placeholder(tf.float32, [4, 2])
    limit = tf.placeholder(tf.int32, [])
    _, end = tf.while_loop(
        lambda i, a: i < limit,
        lambda i, s: (i + 1, s + tf.unsorted_segment_sum(table, [0, 1, 1, i], 4)),
        [0, tf.zeros([4, 2])],
    )
    with tf.Session() as session:
        feeds = {table: np.ones([4, 2])}
        np.testing.assert_array_equal(
            session.run(end, {**feeds, limit: 2}), [[3, 3], [5, 5], [0, 0], [0, 0]]
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match="segment"):
            session.run(end, {**feeds, limit: 6})
