"""What a loop's runs receive and return, and what the plan has for all runs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.loops import layout, plan
from sparkflow_runtime.compiler.loops.plan import LoopPlan
from support.loops import compare, spied_plans, spied_runs, turns_and, vector

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[LoopPlan]:
    """The loops that were planned in machine code."""
    return spied_plans(monkeypatch)


@pytest.fixture
def native_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of iterations of loops in machine code."""
    return spied_runs(monkeypatch)


def given(made: LoopPlan) -> list[int]:
    """Returns the positions of the variables that runs receive."""
    assert made._layout is not None
    return [each.position for each in made._layout.given]


@pytest.mark.parametrize(
    "start",
    [np.zeros([2, 3], np.float32), np.full([2, 3], -0.0), np.full([2, 3], 7, np.int64), True],
    ids=["zeros", "negative_zeros", "others", "truth"],
)
def test_what_variables_begin_with_is_the_same_in_every_run(
    start: Any, plans: list[LoopPlan]
) -> None:
    limit, feed = turns_and()
    known = tf.constant(start)
    _, end, stays = tf.while_loop(
        lambda i, *_: i < limit,
        lambda i, a, b: (i + 1, tf.where(a == a, a, b), b),
        [0, known, known],
    )
    kept = tf.math.reciprocal(end) if known.dtype == tf.float64 else end
    compare(([kept, stays, end], feed), [0, 1, 4])
    # Planned with the partition, which knows what variables begin with, and by itself.
    assert [len(given(made)) for made in plans] == [1, 4]


def test_values_that_are_not_known_are_given(plans: list[LoopPlan]) -> None:
    x = vector(1, 2, 3)
    limit, feed = turns_and(x)
    _, a, b = tf.while_loop(
        lambda i, *_: i < limit, lambda i, a, b: (i + 1, a + b, b), [0, tf.zeros(3), x[0]]
    )
    compare(([a, b], feed), [0, 3])
    assert [len(given(made)) for made in plans] == [2, 4]  # and the count


def test_only_what_is_read_is_given_back(plans: list[LoopPlan]) -> None:
    x = vector(1, 2, 3)
    limit, feed = turns_and(x)
    ends = tf.while_loop(
        lambda i, *_: i < limit,
        lambda i, a, b, c: (i + 1, a * 2.0, b + a[0], c.write(i, a)),
        [0, x[0], x[0], tf.TensorArray(tf.float32, 0, dynamic_size=True)],
    )
    for fetched in ([ends[2]], [ends[1], ends[3].stack()]):
        plans.clear()
        compare((fetched, feed), [1, 5])
        changed = [position for made in plans for position, _ in made._layout.results]  # type: ignore[union-attr]
        assert set(changed) == ({2} if len(fetched) == 1 else {1})


def test_arrays_that_do_not_lie_in_order_are_taken(native_runs: list[int]) -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    loop = tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * a + x), [0, x])
    value = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    with tf.Session() as session:
        for fed in (value, np.ascontiguousarray(value), value[::-1, ::-1]):
            once = fed * fed + fed
            np.testing.assert_array_equal(session.run(loop, {x: fed})[1], once * once + fed)
    assert len(native_runs) == 3


def test_tables_of_pointers_are_for_the_stacks_and_turns_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tape of more iterations than a stack first has room for, one of few, one that was kept."""
    monkeypatch.setattr(layout, "_MOST_TABLES", 3)
    monkeypatch.setattr(plan, "FIRST_CAPACITY", 4)
    x = vector(0.5, -0.25)
    limit, feed = turns_and(x)
    _, end = tf.while_loop(lambda i, a: i < limit, lambda i, a: (i + 1, a * a - x[0]), [0, x[0]])
    compare(([end, *tf.gradients(end, x[0])], feed), [3, 9, 1, 3, 4, 5, 0, 9])


def test_the_first_variable_may_stay(native_runs: list[int]) -> None:
    """Its pointer has the number 0."""
    weights, values = vector(0.5, 0.25)
    limit, feed = turns_and((weights, values))
    _, _, end = tf.while_loop(
        lambda w, i, _: i < limit,
        lambda w, i, x: (w, i + 1, tf.tanh(x * w) + 1.0),
        [weights, 0, tf.ones(2)],
    )
    compare(([end], feed), [0, 1, 4])
    assert native_runs
