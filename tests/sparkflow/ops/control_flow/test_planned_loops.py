"""Loops as users write them, planned and in machine code, compared with programs without shapes."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from support.loops import Built, compare, turns_and, vector, with_gradients

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


@pytest.mark.parametrize("turns", [[0, 1, 2], [255, 256, 257], [512, 513], [4095, 4096, 4097]])
def test_turns(turns: list[int], native_runs: list[int]) -> None:
    x, w = vector(0.1, -0.2, 0.3), vector(0.5, 0.7, -0.9)
    limit, feed = turns_and(x, w)
    _, y = tf.while_loop(
        lambda i, a: i < limit, lambda i, a: (i + 1, tf.tanh(a * w[0] + x[0])), [0, x[0]]
    )
    compare((with_gradients(tf.reduce_sum(y), x[0], w[0]), feed), turns)
    assert native_runs


def test_variables_that_change_over() -> None:
    x, y = vector(1, 2), vector(3, 4)
    limit, feed = turns_and(x, y)
    _, a, b, c = tf.while_loop(
        lambda i, a, b, c: i < limit,
        lambda i, a, b, c: (i + 1, b, a * 0.5, c + a),
        [0, x[0], y[0], x[0]],
    )
    fetches = [a, b, c, *tf.gradients(tf.reduce_sum(a * b + c), [x[0], y[0]])]
    compare((fetches, feed), [0, 1, 2, 3])


def test_what_stays_the_same_under_two_names(native_runs: list[int]) -> None:
    x = vector(0.1, 0.2, 0.3, 0.4)
    limit, feed = turns_and(x)
    doubled = x[0] * 2.0
    _, total, _, _ = tf.while_loop(
        lambda i, s, a, b: i < limit,
        lambda i, s, a, b: (i + 1, s * 0.5 + tf.reduce_sum(a * a) + tf.reduce_sum(b * b * b), a, b),
        [0, tf.constant(0.0), doubled, tf.reshape(doubled, [2, 2])],
    )
    compare((with_gradients(total, x[0]), feed), [0, 1, 5])
    assert native_runs


def test_a_shape_that_changes_from_turn_to_turn() -> None:
    x = vector(1, 2)
    limit, feed = turns_and(x)
    _, y = tf.while_loop(
        lambda i, a: i < limit,
        lambda i, a: (i + 1, tf.concat([a, a[:1] * 2.0], 0)),
        [0, x[0]],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )
    compare(([*with_gradients(tf.reduce_sum(tf.square(y)), x[0]), y], feed), [0, 1, 4])


def test_loops_in_loops_and_branches_in_loops() -> None:
    x = vector(0.3, -0.4)
    limit, feed = turns_and(x)

    def inner(a: Any, count: Any) -> Any:
        return tf.while_loop(lambda j, b: j < count, lambda j, b: (j + 1, tf.sin(b) + a), [0, a])[1]

    def outer(i: Any, a: Any) -> Any:
        b = inner(a, i)
        return i + 1, tf.cond(tf.reduce_sum(b) > 0, lambda: b * 0.5, lambda: a - b * 0.1)

    _, y = tf.while_loop(lambda i, a: i < limit, outer, [0, x[0]])
    compare((with_gradients(tf.reduce_sum(y), x[0]), feed), [0, 1, 4])


def test_what_is_recorded_under_names_that_differ_in_dimensions_of_size_one() -> None:
    x = vector(0.3, -0.4)
    limit, feed = turns_and(x)

    def turn(i: Any, a: Any) -> Any:
        row = tf.tanh(a * 1.5)[None]
        column = tf.reshape(row, [2, 1])
        return i + 1, a + tf.squeeze(tf.exp(row) * row, 0) + tf.squeeze(column * column, 1)

    _, y = tf.while_loop(lambda i, a: i < limit, turn, [0, x[0]])
    compare((with_gradients(y, x[0]), feed), [0, 1, 3])


def test_a_tape_is_read_twice_and_gradients_have_gradients() -> None:
    x = vector(0.3, -0.4)
    limit, feed = turns_and(x)
    _, y = tf.while_loop(
        lambda i, a: i < limit, lambda i, a: (i + 1, tf.tanh(a * 1.5) + x[0]), [0, x[0]]
    )
    first, other = tf.gradients(y, x[0])[0], tf.gradients(tf.reduce_sum(y * y), x[0])[0]
    second = tf.gradients(first * other, x[0])[0]
    compare(([y, first, other, second], feed), [0, 1, 3, 20])


def test_a_variable_that_is_read_and_updated_around_a_loop() -> None:
    x = vector(0.5, 0.25)
    limit, feed = turns_and(x)
    w = tf.Variable([1.0, -1.0])
    _, y = tf.while_loop(lambda i, a: i < limit, lambda i, a: (i + 1, tf.sigmoid(a * w)), [0, x[0]])
    loss = tf.reduce_sum(y)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.control_dependencies([step]):
        after = tf.identity(w) * 1.0
    compare(([loss, after], feed), [1, 2, 300, 0])


def test_a_loop_that_never_ends_is_cancelled(plans_at_once: None, native_runs: list[int]) -> None:
    x = tf.placeholder(tf.float32, [2])
    _, y = tf.while_loop(lambda i, a: i >= 0, lambda i, a: (i * 1, a * 0.5), [0, x])
    with tf.Session() as session:
        for _ in range(2):
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(y, {x: [1, 2]}, options=tf.RunOptions(timeout_in_ms=300))
    assert not native_runs  # none completed


def test_a_failing_turn_names_its_node(plans_at_once: None) -> None:
    rows = tf.placeholder(tf.int32, [2])
    _, y = tf.while_loop(
        lambda i, a: i < 5,
        lambda i, a: (i + 1, tf.gather(a, rows + i, name="pick") * 1.0),
        [0, tf.constant([1.0, 2.0])],
    )
    with tf.Session() as session:
        for _ in range(2):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"pick.*test_planned_loops"):
                session.run(y, {rows: [0, 1]})


def random_loop(choose: random.Random) -> Built:
    """A loop over up to three variables, with gradients."""
    shapes: list[tuple[int, ...]] = [(), (3,), (2, 3), (2, 1)]
    numbers = np.random.default_rng(choose.randrange(10**6))
    fed = []
    for _ in range(choose.randint(1, 3)):
        array = numbers.uniform(-1, 1, choose.choice(shapes)).astype(np.float32)
        fed.append((tf.placeholder(tf.float32, array.shape), array))
    captured = tf.Variable(numbers.uniform(-1, 1, 3).astype(np.float32))
    limit, feed = turns_and(*fed)

    def apply(pool: list[Any]) -> Any:
        a, b = choose.choice(pool), choose.choice(pool)
        ops: list[Callable[[], Any]] = [
            lambda: a + b,
            lambda: a * b,
            lambda: tf.tanh(a) - b,
            lambda: tf.reduce_mean(a),
            lambda: tf.reduce_sum(a, axis=-1, keepdims=True) if a.shape.ndims else a,
            lambda: tf.where(a > 0.0, a, tf.zeros_like(a)),
            lambda: tf.nn.softmax(a) if a.shape.ndims else tf.exp(-a * a),
            lambda: (
                tf.cond(tf.reduce_sum(a) > 0.0, lambda: tf.reduce_sum(a), lambda: a[0] * 0.5)
                if a.shape.ndims == 1
                else tf.sigmoid(a)
            ),
        ]
        return choose.choice(ops)()

    def body(i: Any, *variables: Any) -> list[Any]:
        pool = [*variables, tf.cast(i, tf.float32) * 0.01, captured]
        for _ in range(choose.randint(1, 6)):
            pool.append(apply(pool))
        following = []
        for each in variables:
            same = [other for other in variables if other.shape == each.shape]
            mixed = tf.tanh(each * 0.9 + tf.reduce_mean(choose.choice(pool)) * 0.1)
            following.append(choose.choice([mixed, mixed, mixed, choose.choice(same)]))
        return [i + 1, *following]

    _, *ends = tf.while_loop(lambda i, *_: i < limit, body, [0, *(each for each, _ in fed)])
    loss = tf.add_n([tf.reduce_sum(tf.square(each)) for each in ends])
    gradients = tf.gradients(loss, [*(each for each, _ in fed), captured])
    return [*ends, loss, *(each for each in gradients if each is not None)], feed


@pytest.mark.parametrize("seed", range(12))
def test_random_loops(seed: int) -> None:
    choose = random.Random(seed)
    built = random_loop(choose)
    compare(built, choose.sample([0, 1, 2, 5, 30, 256, 300], 3), rtol=2e-3)
