"""Variables of loops that change in place."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import sparkflow as tf
from sparkflow_runtime.codegen.cpu.repeat import Call, Check
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.loops.overwriting import numbers, overwrite
from sparkflow_runtime.compiler.loops.steps import Branch, InnerLoop, WithFactor
from support.loops import compare, spied_plans, turns_and, vector

VARIABLES = 3


def run(steps: Sequence[Any], inputs: dict[int, int], memory: dict[int, int]) -> dict[int, object]:
    """Runs calls on memory: a call replaces its outputs by a record of what it read.

    Args:
        steps: The calls.
        inputs: The number of inputs of each call, by its last output.
        memory: The memory of each pointer.
    """
    held: dict[int, object] = {number: ("before", number) for number in range(VARIABLES)}
    for step in steps:
        count = inputs[step.arrays[-1]]
        read = tuple(held[memory[each]] for each in step.arrays[:count])
        for slot, each in enumerate(step.arrays[count:]):
            held[memory[each]] = (slot, read)
    return {number: held.get(place) for number, place in memory.items()}


@st.composite
def iterations(draw: st.DrawFn) -> tuple[list[Call], dict[int, int], list[int]]:
    """Steps of an iteration, the numbers of inputs by last output, and the variables' results."""
    steps, inputs, known = [], {}, list(range(VARIABLES))
    for _ in range(draw(st.integers(VARIABLES, 7))):
        read = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
        outputs = [len(known) + slot for slot in range(draw(st.integers(1, 2)))]
        inputs[outputs[-1]] = len(read)
        known += outputs
        steps.append(Call(bool, (*read, *outputs)))  # any kernel
    results = st.permutations(known[VARIABLES:])
    return steps, inputs, draw(results)[:VARIABLES]


EXCHANGED = [Call(bool, (0, 1, 3)), Call(bool, (0, 1, 4)), Call(bool, (2, 5))]
"""Both of two variables are read for the next value of each: one of them needs two buffers."""


@example((EXCHANGED, {3: 2, 4: 2, 5: 1}, [4, 3, 5]))
@given(iterations())
def test_the_next_values_are_the_same(
    made: tuple[list[Call], dict[int, int], list[int]],
) -> None:
    steps, inputs, results = made
    count = max(each for step in steps for each in step.arrays) + 1
    may_replace: dict[int, set[int]] = {}
    for step in steps:
        read, outputs = np.split(step.arrays, [inputs[step.arrays[-1]]])
        whole = {int(each) for each in read if (read == each).sum() == 1}
        may_replace.update((int(output), whole) for output in outputs)
    ordered, found = overwrite(steps, enumerate(results), may_replace)
    assert sorted(map(id, ordered)) == sorted(map(id, steps))
    apart = {number: number for number in range(count)}
    shared = {**apart, **{result: number for number, result in found.items()}}
    expected, seen = run(steps, inputs, apart), run(ordered, inputs, shared)
    for number, result in enumerate(results):
        assert seen[result] == expected[result]
        if number not in found:
            assert seen[number] == expected[number]


def test_numbers_of_steps_within_steps() -> None:
    one, other = Call(bool, (1, 2)), Call(bool, (1, 3))
    branch = Branch(4, (one,), (WithFactor(one, 3, other),))
    loop = InnerLoop((Check(5),), (branch,), 6, ((7, 8),), 100)
    assert {*numbers(loop)} == {1, 2, 3, 4, 5, 6, 7, 8}


def inner(turn: Any, start: Any) -> Any:
    """Returns the variable of a loop of three iterations."""
    return tf.while_loop(lambda j, _: j < 3, lambda j, c: (j + 1, turn(c)), [0, start])[1]


@pytest.mark.skipif(not native.available(), reason="needs llvmlite")
@pytest.mark.parametrize(
    ("turn", "in_place"),
    [
        (lambda a, b: (a * 0.5 + b, b), 1),
        (lambda a, b: (b * 0.5 + 1.0, a * 0.9), 0),  # each is written when the other is still read
        (lambda a, b: (a * 0.5 + b, b * 0.9), 2),
        (lambda a, b: (a - tf.reduce_sum(a * b), b * 0.9), 2),
        (lambda a, b: (tf.reverse(a, [0]) + b, b + 1.0), 1),
        # Both kernels read both.
        (lambda a, b: (tf.where(b > 0.5, a * 2.0, a - b), tf.tanh(a) + b), 1),
        (lambda a, b: (tf.cond(a[0] > 1.0, lambda: a * 0.5, lambda: a + b), b), 0),
        (lambda a, b: (inner(lambda c: c * 0.5 + b, a), b), 2),  # the inner count, too
        (lambda a, b: (inner(lambda c: tf.reverse(c, [0]) * b, a), b * 0.5), 2),
    ],
    ids=["one", "exchanged", "two", "passes", "reversed", "both", "branch", "inner", "inner moves"],
)
def test_loops_in_place_are_those_of_python(
    turn: Any, in_place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = spied_plans(monkeypatch)
    with tf.Graph().as_default():
        (a, a_fed), (b, b_fed) = vector(0.5, -1.5, 2.0, 0.25), vector(1.0, 0.125, -0.5, 3.0)
        limit, feed = turns_and((a, a_fed), (b, b_fed))
        _, *ends = tf.while_loop(
            lambda i, *_: i < limit, lambda i, *e: (i + 1, *turn(*e)), [0, a, b]
        )
        compare((ends, feed), [0, 1, 2, 5])
        outer = [each for each in plans if each.has_loops] or list(plans)
        compare((tf.gradients(ends, [a, b]), feed), [1, 4])
    assert {len(each.overwriting.keys() - {each.arguments[0]}) for each in outer} == {in_place}


@pytest.mark.skipif(not native.available(), reason="needs llvmlite")
def test_what_runs_receive_and_return_stays() -> None:
    fed = np.arange(6, dtype=np.float32)
    before = fed.copy()
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [6])
        loop = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a * 2.0 + x), [0, x])[1]
        results = [session.run(loop, {x: fed}) for _ in range(3)]
        np.testing.assert_array_equal(fed, before)
        kept = [each.copy() for each in results]
        session.run(loop, {x: fed + 1})
    for result, copy in zip(results, kept, strict=True):
        np.testing.assert_array_equal(result, copy)
