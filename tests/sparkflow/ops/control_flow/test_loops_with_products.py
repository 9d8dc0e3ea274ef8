"""Loops whose iterations multiply matrices, completely in machine code."""

import itertools
import random
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.loops.plan import _Run
from support.loops import Built, compare, turns_and, with_gradients

SEEDS = [*range(4), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(4, 40))]
pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


def matrix(*shape: int, dtype: type = np.float32, seed: int = 0) -> tuple[Any, Any]:
    """A placeholder and its feed."""
    array = np.random.default_rng(seed).uniform(-0.5, 0.5, shape).astype(dtype)
    return tf.placeholder(tf.as_dtype(dtype), list(shape)), array


def recurrent(rows: int, units: int, dtype: type = np.float32, turned: bool = False) -> Built:
    """`h = tanh(h w + x)` and its gradients."""
    h, x = matrix(rows, units, dtype=dtype), matrix(rows, units, dtype=dtype, seed=1)
    w = matrix(units, units, dtype=dtype, seed=2)
    limit, feed = turns_and(h, x, w)
    _, end = tf.while_loop(
        lambda i, a: i < limit,
        lambda i, a: (i + 1, tf.tanh(tf.matmul(a, w[0], transpose_b=turned) + x[0])),
        [0, h[0]],
    )
    return with_gradients(tf.reduce_sum(tf.square(end)), h[0], x[0], w[0]), feed


@pytest.mark.parametrize(
    ("rows", "units", "dtype"),
    [
        *[(rows, units, np.float32) for rows, units in ((1, 1), (8, 16), (3, 17), (1, 100))],
        *[(rows, units, np.float64) for rows, units in ((1, 3), (64, 64), (65, 7), (5, 130))],
    ],
)
def test_sizes(rows: int, units: int, dtype: type, native_runs: list[int]) -> None:
    compare(recurrent(rows, units, dtype), [0, 1, 7])
    assert len(native_runs) >= 6  # forward and backward, three times


@pytest.mark.parametrize("units", [3, 40, 70])
def test_a_factor_that_is_transposed(units: int, native_runs: list[int]) -> None:
    compare(recurrent(4, units, turned=True), [1, 5])
    assert native_runs


def test_products_that_several_threads_share(native_runs: list[int]) -> None:
    compare(recurrent(130, 200), [3], rtol=1e-3)
    assert native_runs


@pytest.fixture
def packed_runs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Records for runs in machine code whether factors were packed before the first iteration."""
    runs: list[bool] = []
    begin = _Run.begin

    def noted(run: _Run) -> bool | None:
        is_done = begin(run)
        runs.append(bool(run._layout.beginnings.packed))
        return is_done

    monkeypatch.setattr(_Run, "begin", noted)
    return runs


@pytest.mark.parametrize("turned", [False, True])
def test_factors_that_stay_are_packed_once(turned: bool, packed_runs: list[bool]) -> None:
    compare(recurrent(20, 70, turned=turned), [0, 1, 5], rtol=1e-3)
    assert packed_runs
    assert all(packed_runs)  # including those of gradients, which have the factor from a tape


def test_factors_that_change_are_not_packed(packed_runs: list[bool]) -> None:
    h, w = matrix(20, 70), matrix(70, 70, seed=2)
    limit, feed = turns_and(h, w)
    _, end, last = tf.while_loop(
        lambda i, a, b: i < limit,
        lambda i, a, b: (i + 1, tf.tanh(tf.matmul(a, b)), b * 0.9),
        [0, h[0], w[0]],
    )
    compare((with_gradients(tf.reduce_sum(end) + tf.reduce_sum(last), h[0], w[0]), feed), [1, 5])
    assert packed_runs
    assert not any(packed_runs)


def test_factors_that_are_known_are_packed(packed_runs: list[bool]) -> None:
    h = matrix(20, 70)
    w = tf.constant(np.random.default_rng(3).uniform(-0.5, 0.5, (70, 70)).astype(np.float32))
    limit, feed = turns_and(h)
    _, end = tf.while_loop(
        lambda i, a: i < limit, lambda i, a: (i + 1, tf.tanh(tf.matmul(a, w))), [0, h[0]]
    )
    compare((with_gradients(tf.reduce_sum(end), h[0]), feed), [1, 5])
    assert packed_runs
    assert all(packed_runs)


def test_a_factor_has_its_new_value_in_the_next_run(packed_runs: list[bool]) -> None:
    w = tf.Variable(tf.random_uniform([70, 70], -0.5, 0.5, seed=1))
    h, x = matrix(20, 70)
    _, end = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.matmul(a, w)), [0, h])
    grown = w.assign(w * 1.5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            matrix_now, found = session.run([w, end], {h: x})
            wanted = x @ matrix_now @ matrix_now @ matrix_now
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
            session.run(grown)
    assert packed_runs
    assert all(packed_runs)


@pytest.mark.parametrize("turned", [False, True])
def test_stacks_of_matrices(turned: bool, native_runs: list[int]) -> None:
    a, b = matrix(3, 4, 4), matrix(3, 4, 4, seed=1)
    limit, feed = turns_and(a, b)
    _, end = tf.while_loop(
        lambda i, c: i < limit,
        lambda i, c: (i + 1, tf.nn.softmax(tf.matmul(c, b[0], transpose_b=turned)) + c * 0.5),
        [0, a[0]],
    )
    compare((with_gradients(tf.reduce_sum(end * end), a[0], b[0]), feed), [0, 1, 6])
    assert native_runs


def test_a_slice_and_its_gradient(native_runs: list[int]) -> None:
    a = matrix(4, 6)
    limit, feed = turns_and(a)
    _, end = tf.while_loop(
        lambda i, c: i < limit,
        lambda i, c: (i + 1, tf.tanh(c) + tf.concat([c[::2, 1:3], c[1::2, 4:]], 0)[:, :1]),
        [0, a[0]],
    )
    compare((with_gradients(tf.reduce_sum(end * end), a[0]), feed), [0, 1, 6])
    assert len(native_runs) >= 6


def test_both_factors_change_from_turn_to_turn(native_runs: list[int]) -> None:
    a, b = matrix(6, 6), matrix(6, 6, seed=1)
    limit, feed = turns_and(a, b)
    _, c, d = tf.while_loop(
        lambda i, c, d: i < limit,
        lambda i, c, d: (
            i + 1,
            tf.tanh(tf.matmul(c, d, transpose_a=True)),
            tf.sigmoid(tf.matmul(d, c, transpose_a=True, transpose_b=True)),
        ),
        [0, a[0], b[0]],
    )
    compare((with_gradients(tf.reduce_sum(c * d), a[0], b[0]), feed), [0, 1, 2, 9, 300])
    assert native_runs


def test_what_is_no_number_goes_through(native_runs: list[int]) -> None:
    built = recurrent(4, 16)
    fetches, feed = built
    limits = [float("nan"), float("inf")]

    def spoilt(count: int) -> dict[Any, Any]:
        fed = feed(count)
        for each, value in fed.items():
            if np.ndim(value) == 2:
                fed[each] = value.copy()
                fed[each][0, 0] = limits[count % 2]
                break
        return fed

    compare((fetches, spoilt), [1, 2, 3])
    assert native_runs


def test_integers_are_left_to_numpy(native_runs: list[int]) -> None:
    a = (tf.placeholder(tf.int32, [2, 2]), np.int32([[1, 1], [1, 0]]))
    limit, feed = turns_and(a)
    _, power = tf.while_loop(
        lambda i, p: i < limit, lambda i, p: (i + 1, tf.matmul(p, a[0])), [0, a[0]]
    )
    compare(([power], feed), [0, 1, 10])
    assert not native_runs


def test_a_product_of_nothing(native_runs: list[int]) -> None:
    a, w = matrix(0, 4), matrix(4, 4)
    limit, feed = turns_and(a, w)
    _, end = tf.while_loop(
        lambda i, p: i < limit, lambda i, p: (i + 1, tf.matmul(p, w[0])), [0, a[0]]
    )
    compare(([end], feed), [0, 2])
    assert not native_runs


def test_sizes_that_do_not_fit_are_told(plans_at_once: None) -> None:
    a, w = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None, None])
    _, end = tf.while_loop(
        lambda i, p: i < 3,
        lambda i, p: (i + 1, tf.matmul(p, w, name="multiply")),
        [0, a],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None])],
    )
    with tf.Session() as session:
        for _ in range(2):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"In\[0\]: \[2,3\]"):
                session.run(end, {a: np.ones([2, 3]), w: np.ones([2, 2])})


def test_a_loop_of_products_that_never_ends_is_cancelled(plans_at_once: None) -> None:
    a, w = tf.placeholder(tf.float32, [200, 200]), tf.placeholder(tf.float32, [200, 200])
    _, end = tf.while_loop(
        lambda i, p: i >= 0, lambda i, p: (i * 1, tf.tanh(tf.matmul(p, w))), [0, a]
    )
    ones = np.ones([200, 200], np.float32)
    with tf.Session() as session, pytest.raises(tf.errors.DeadlineExceededError):
        session.run(end, {a: ones, w: ones}, options=tf.RunOptions(timeout_in_ms=300))


@pytest.mark.parametrize(
    "turn",
    [
        lambda a: tf.concat([a[:, 1:], a[:, :1]], 1) * 0.9,
        lambda a: tf.add_n([each * 0.5 for each in tf.split(a, 2, 1)] * 2),
        lambda a: tf.matmul(tf.transpose(a), a) * 0.1,
        lambda a: tf.reverse(tf.tanh(a), [1]),
        lambda a: tf.pad(a[1:], [[0, 1], [0, 0]]) + a * 0.5,
        lambda a: tf.reshape(tf.reshape(a * 0.9, [2, 8]), [4, 4]),
        lambda a: tf.tile(a[:2], [2, 1]) * 0.7,
        lambda a: tf.gather(a, [3, 3, 0, 1]) * 0.6,
        lambda a: tf.stack(tf.unstack(a * 0.9)[::-1]),
        lambda a: tf.where([True, False, True, True], a * 0.5, tf.tanh(a)),
        lambda a: tf.where(a[:, 0] > 0.0, a * 0.5, tf.tanh(a)),
    ],
    ids=["turn", "split", "T", "reverse", "pad", "shape", "tile", "pick", "stack", "rows", "where"],
)
def test_elements_that_move(turn: Any, native_runs: list[int]) -> None:
    a = matrix(4, 4)
    limit, feed = turns_and(a)
    _, end = tf.while_loop(
        lambda i, b: i < limit,
        lambda i, b: (i + 1, tf.reshape(tf.concat([turn(b)] * 2, 1)[:, :4], [4, 4])),
        [0, a[0]],
    )
    compare((with_gradients(tf.reduce_sum(end * end), a[0]), feed), [0, 1, 2, 9])
    assert native_runs


def test_variables_that_become_one_another(native_runs: list[int]) -> None:
    a, b = matrix(3, 3), matrix(3, 3, seed=1)
    limit, feed = turns_and(a, b)
    _, c, d, e, f = tf.while_loop(
        lambda i, *_: i < limit,
        lambda i, c, d, e, f: (i + 1, d, c, tf.matmul(e, d), tf.constant([1.0, 2.0])),
        [0, a[0], b[0], a[0], tf.zeros([2])],
    )
    gradients = tf.gradients(tf.reduce_sum(c * d + e), [a[0], b[0]])
    compare(([c, d, e, f, *gradients], feed), [0, 1, 2, 5])
    assert native_runs


def random_products(choose: random.Random) -> Built:
    """A loop over three matrices, which are multiplied, added and squashed; with gradients."""
    sizes = [choose.choice([1, 2, 5, 16, 33, 70]) for _ in range(2)]
    shapes = [(sizes[0], sizes[1]), (sizes[1], sizes[1]), (sizes[0], sizes[0])]
    fed = [matrix(*shape, seed=choose.randrange(99)) for shape in shapes]
    limit, feed = turns_and(*fed)

    def body(i: Any, *variables: Any) -> list[Any]:
        pool = [*variables]

        def product(rows: int, columns: int) -> Any:
            ways = []
            flags = (False, True)
            for a, b, turn_a, turn_b in itertools.product(pool, pool, flags, flags):
                m, k = a.shape.as_list()[:: -1 if turn_a else 1]
                depth, n = b.shape.as_list()[:: -1 if turn_b else 1]
                if (m, k, n) == (rows, depth, columns):
                    ways.append((a, b, turn_a, turn_b))
            a, b, turn_a, turn_b = choose.choice(ways)
            return tf.matmul(a, b, transpose_a=turn_a, transpose_b=turn_b) / (a.shape[0].value + 1)

        for shape in choose.choices(shapes, k=choose.randint(0, 3)):
            pool += [product(*shape)]
        return [
            i + 1,
            *(
                tf.tanh(each + product(*shape)) if choose.random() < 0.8 else each * 0.9
                for each, shape in zip(variables, shapes, strict=True)
            ),
        ]

    _, *ends = tf.while_loop(lambda i, *_: i < limit, body, [0, *(each for each, _ in fed)])
    loss = tf.add_n([tf.reduce_sum(tf.square(each)) for each in ends])
    gradients = tf.gradients(loss, [each for each, _ in fed])
    return [*ends, loss, *(each for each in gradients if each is not None)], feed


@pytest.mark.parametrize("seed", SEEDS)
def test_random_loops(seed: int, native_runs: list[int]) -> None:
    choose = random.Random(seed)
    compare(random_products(choose), choose.sample([0, 1, 2, 5, 30, 256, 300], 3), rtol=2e-3)
    assert native_runs
