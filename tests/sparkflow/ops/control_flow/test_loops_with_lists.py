"""Loops whose iterations read and write tensor arrays, completely in machine code."""

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from support.loops import Built, compare, turns_and, with_gradients

SEEDS = [*range(4), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(4, 40))]
pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


def rows(count: int, *shape: int, dtype: type = np.float32) -> tuple[Any, Any]:
    """A placeholder for this many rows, and its feed."""
    array = np.random.default_rng(count).uniform(-1, 1, (count, *shape)).astype(dtype)
    return tf.placeholder(tf.as_dtype(dtype), array.shape), array


def array_of(size: int, like: Any, **settings: Any) -> Any:
    return tf.TensorArray(like.dtype, size, **settings)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_read_and_write(shape: tuple[int, ...], dtype: type, native_runs: list[int]) -> None:
    x = rows(6, *shape, dtype=dtype)
    limit, feed = turns_and(x)
    source = array_of(6, x[0]).unstack(x[0])
    _, written = tf.while_loop(
        lambda i, _: i < limit,
        lambda i, out: (i + 1, out.write(i, tf.tanh(source.read(i)) * 2.0)),
        [0, array_of(6, x[0], element_shape=shape)],
    )
    compare((with_gradients(written.stack(), x[0]), feed), [0, 1, 5, 6])
    assert native_runs


def test_a_sum_of_rows_read_backwards_and_twice(native_runs: list[int]) -> None:
    x = rows(5, 4)
    limit, feed = turns_and(x)
    source = array_of(5, x[0], clear_after_read=False).unstack(x[0])
    _, total = tf.while_loop(
        lambda i, _: i < limit,
        lambda i, s: (i + 1, s * 0.5 + source.read(4 - i) * source.read(tf.minimum(i, 2))),
        [0, tf.zeros([4])],
    )
    compare((with_gradients(tf.reduce_sum(total * total), x[0]), feed), [0, 1, 2, 5])
    assert native_runs


def test_what_was_written_is_read_by_later_turns(native_runs: list[int]) -> None:
    x = rows(8, 3)
    limit, feed = turns_and(x)
    first = array_of(8, x[0], clear_after_read=False).unstack(x[0] * 0.0)
    begun = array_of(8, x[0], clear_after_read=False, element_shape=[3]).write(0, x[0][0])

    def turn(i: Any, out: Any) -> Any:
        return i + 1, out.write(i, tf.sigmoid(out.read(i - 1) + first.read(i) + x[0][1]))

    _, written = tf.while_loop(lambda i, _: i < limit, turn, [1, begun])
    compare(([written.stack()], feed), [1, 2, 8])
    assert native_runs
    compare((with_gradients(written.stack(), x[0]), feed), [1, 2, 8])


def test_an_array_that_grows(native_runs: list[int]) -> None:
    x = rows(1, 2)
    limit, feed = turns_and(x)
    _, written, _ = tf.while_loop(
        lambda i, *_: i < limit,
        lambda i, out, a: (i + 1, out.write(i, a), tf.tanh(a * 1.5)),
        [0, array_of(0, x[0], dynamic_size=True, element_shape=[2]), x[0][0]],
    )
    compare((with_gradients(written.stack(), x[0]), feed), [1, 2, 100, 256, 300, 600])
    assert 600 in native_runs


def test_rows_that_differ_in_dimensions_of_size_one(native_runs: list[int]) -> None:
    x, w = rows(4, 5), rows(5, 5)
    limit, feed = turns_and(x, w)
    source = array_of(4, x[0], clear_after_read=False).unstack(x[0])

    def turn(i: Any, out: Any, h: Any) -> Any:
        h = tf.tanh(tf.matmul(h, w[0]) + source.read(i))
        return i + 1, out.write(i, tf.exp(h)[0]), h

    _, written, h = tf.while_loop(
        lambda i, *_: i < limit,
        turn,
        [0, array_of(4, x[0], element_shape=[5]), tf.zeros([1, 5])],
    )
    compare(([*with_gradients(written.stack(), x[0], w[0]), h], feed), [0, 1, 4])
    assert native_runs


def test_two_arrays_change_places() -> None:
    x = rows(4, 2)
    limit, feed = turns_and(x)
    one, other = (array_of(4, x[0]).unstack(x[0] * factor) for factor in (1.0, -1.0))
    _, a, b, c = tf.while_loop(
        lambda i, *_: i < limit,
        lambda i, a, b, c: (i + 1, b, a, c + 1.0),
        [0, one, other, tf.zeros([2])],
    )
    compare(([a.stack(), b.stack(), c], feed), [0, 1, 2])


def test_an_older_array_is_read() -> None:
    x = rows(4, 2)
    limit, feed = turns_and(x)
    start = array_of(4, x[0], clear_after_read=False, element_shape=[2])

    def turn(i: Any, out: Any, total: Any) -> Any:
        item = x[0][0] * tf.cast(i + 1, tf.float32)
        return i + 1, out.write(i, item), total + item

    _, written, total = tf.while_loop(lambda i, *_: i < limit, turn, [0, start, tf.zeros([2])])
    compare(([written.stack(), total, *tf.gradients(total, x[0])], feed), [0, 1, 4])


def test_the_length_is_asked_for(native_runs: list[int]) -> None:
    x = rows(4, 2)
    limit, feed = turns_and(x)
    source = array_of(4, x[0]).unstack(x[0])
    _, end = tf.while_loop(
        lambda i, _: tf.logical_and(i < limit, i < source.size()),
        lambda i, s: (i + 1, s + source.read(source.size() - 1 - i)),
        [0, tf.zeros([2])],
    )
    compare((with_gradients(end, x[0]), feed), [0, 1, 4, 9])
    assert native_runs


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (lambda out, i, a: out.write(i + 2, a), "Tried to write to index 3"),
        (lambda out, i, a: out.write(0, a), "already been written to"),
        (lambda out, i, a: out.write(i - 1, a), "Tried to write to index -1"),
    ],
)
def test_what_cannot_be_written_is_told(
    turn: Callable[[Any, Any, Any], Any], message: str, plans_at_once: None
) -> None:
    x = tf.placeholder(tf.float32, [2])
    _, written = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, out: (i + 1, turn(out, i, x * 2.0)),
        [0, tf.TensorArray(tf.float32, 3, element_shape=[2])],
    )
    stacked = written.stack()
    with tf.Session() as session:
        for _ in range(2):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                session.run(stacked, {x: [1, 2]})


@pytest.mark.parametrize(("first", "index"), [(0, 4), (-1, -1), (2, 4)])
def test_what_cannot_be_read_is_told(first: int, index: int, plans_at_once: None) -> None:
    x = tf.placeholder(tf.float32, [4, 2])
    source = tf.TensorArray(tf.float32, 4, clear_after_read=False).unstack(x)
    _, total = tf.while_loop(
        lambda i, _: i < first + 6, lambda i, s: (i + 1, s + source.read(i)), [first, tf.zeros([2])]
    )
    with tf.Session() as session:
        for _ in range(2):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"read from index {index} "):
                session.run(total, {x: np.ones([4, 2])})


def test_results_of_one_run_stay_when_the_next_one_comes(plans_at_once: None) -> None:
    x = tf.placeholder(tf.float32, [3, 2])
    source = tf.TensorArray(tf.float32, 3).unstack(x)
    _, written = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, out: (i + 1, out.write(i, source.read(i) * 2.0)),
        [0, tf.TensorArray(tf.float32, 3, element_shape=[2])],
    )
    element, stacked = written.read(1), written.stack()
    with tf.Session() as session:
        kept = [session.run([element, stacked], {x: np.full([3, 2], n)}) for n in range(5)]
    for n, (one, all_of_them) in enumerate(kept):
        assert one.tolist() == [2 * n] * 2
        assert all_of_them.tolist() == [[2 * n] * 2] * 3


def test_several_threads_run_a_loop_at_once(plans_at_once: None) -> None:
    x = tf.placeholder(tf.float32, [3, 2])
    source = tf.TensorArray(tf.float32, 3).unstack(x)
    _, written = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, out: (i + 1, out.write(i, tf.tanh(source.read(i)) * 2.0)),
        [0, tf.TensorArray(tf.float32, 3, element_shape=[2])],
    )
    fetches = with_gradients(written.stack(), x)
    given = [np.full([3, 2], n / 4, np.float32) for n in range(4)]
    wrong: list[int] = []
    with tf.Session() as session:
        wanted = [session.run(fetches, {x: each}) for each in given]

        def work(first: int) -> None:
            for turn in range(first, first + 20):
                found = session.run(fetches, {x: given[turn % 4]})
                for one, other in zip(found, wanted[turn % 4], strict=True):
                    if one.shape != other.shape or not np.allclose(one, other, rtol=1e-4):
                        wrong.append(turn)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert not wrong


CELLS: dict[str, Callable[[], Any]] = {
    "rnn": lambda: tf.nn.rnn_cell.BasicRNNCell(5),
    "basic": lambda: tf.nn.rnn_cell.BasicLSTMCell(5),
    "lstm": lambda: tf.nn.rnn_cell.LSTMCell(5, use_peepholes=True, num_proj=3),
    "gru": lambda: tf.nn.rnn_cell.GRUCell(5),
    "two": lambda: tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(4) for _ in range(2)]),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_networks(cell: str, masked: bool, native_runs: list[int]) -> None:
    x = rows(3, 7, 4)
    lengths = tf.placeholder(tf.int32, [3])
    tf.set_random_seed(7)
    outputs, state = tf.nn.dynamic_rnn(
        CELLS[cell](), x[0], lengths if masked else None, dtype=tf.float32
    )
    weights = tf.trainable_variables()
    fills = [
        tf.assign(each, np.random.default_rng(n).normal(size=each.shape.as_list()) * 0.5)
        for n, each in enumerate(weights)
    ]
    loss = tf.reduce_sum(tf.square(outputs)) + tf.add_n(
        [tf.reduce_sum(each) for each in tf.nest.flatten(state)]
    )
    fetches = [loss, outputs, *tf.gradients(loss, [x[0], *weights])]

    def feed(count: int) -> dict[Any, Any]:
        return {x[0]: x[1], lengths: [count % 8, 7, 3]}

    compare((fetches, feed), [0, 2, 7], prepare=fills)
    assert native_runs


def random_lists(choose: random.Random) -> Built:
    """A loop that reads, writes and computes with two arrays, and its gradients."""
    size, shape = choose.randint(2, 6), choose.choice([(), (3,), (2, 2)])
    x, y = rows(size, *shape), rows(size + 7, *shape)
    limit, feed = turns_and(x, y)
    sources = [array_of(size, x[0], clear_after_read=False).unstack(x[0])]
    sources.append(array_of(size + 7, y[0], clear_after_read=False).unstack(y[0]))
    out = array_of(size, x[0], element_shape=shape, clear_after_read=False)

    def turn(i: Any, out: Any, a: Any) -> Any:
        pool = [a]
        for _ in range(choose.randint(0, 3)):
            index = choose.choice([i, size - 1 - i, tf.minimum(i, 1)])
            pool.append(choose.choice(sources).read(index))
        if choose.random() < 0.3:
            pool.append(out.read(choose.choice([i, tf.minimum(i, 1)])))
        total = tf.tanh(tf.add_n([each * choose.uniform(-1, 1) for each in pool]))
        out = out.write(i, choose.choice([total, a * total, pool[-1] * 0.5]))
        if choose.random() < 0.3:
            total = total + out.read(i) * 0.1
        return i + 1, out, total

    start = tf.zeros(shape) if choose.random() < 0.5 else x[0][0]
    _, out, end = tf.while_loop(
        lambda i, *_: tf.logical_and(i < limit, i < size), turn, [0, out, start]
    )
    loss = tf.reduce_sum(out.stack()) + tf.reduce_sum(end * end)
    gradients = tf.gradients(loss, [x[0], y[0]])
    return [loss, end, out.stack(), *(each for each in gradients if each is not None)], feed


@pytest.mark.parametrize("seed", SEEDS)
def test_random_loops(seed: int) -> None:
    choose = random.Random(seed)
    compare(random_lists(choose), choose.sample([0, 1, 2, 5, 30], 3), rtol=1e-3)
