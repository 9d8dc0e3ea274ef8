"""What prevents a loop from running completely in machine code."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.loops import binding, inner_loops
from sparkflow_runtime.compiler.loops.pointers import NotNativeError
from support.loops import spied_plans

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


def reason(monkeypatch: pytest.MonkeyPatch, turn: Callable[[Any], Any], start: Any) -> str:
    """Returns why the loop is left to Python; "" if it is not."""
    found: list[str] = []
    plan = binding.plan_loop

    def spy(*args: Any) -> Any:
        try:
            made = plan(*args)
        except NotNativeError as error:
            found.append(str(error))
            raise
        found.append("")
        return made

    monkeypatch.setattr(binding, "plan_loop", spy)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(start.dtype, start.shape)
        loop = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, turn(a)), [0, fed])
        session.run(loop, {fed: start})
    return found[-1]


SQUARE = np.ones([3, 3], np.float32)


@pytest.mark.parametrize(
    "turn",
    [lambda a: a * 2.0, lambda a: tf.tanh(tf.matmul(a, a) + 1.0), lambda a: a],
    ids=["kernels", "products", "nothing"],
)
def test_native(turn: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason(monkeypatch, turn, SQUARE) == ""


@pytest.mark.parametrize(
    ("turn", "start", "why"),
    [
        (lambda a: a * tf.linalg.det(a + tf.eye(3)), SQUARE, "MatrixDeterminant is Python's"),
        (lambda a: tf.matmul(a, a), SQUARE.astype(np.int32), "numbers of another kind"),
        (lambda a: tf.matmul(a, a) + 0.0, np.ones([0, 0], np.float32), "no elements"),
    ],
)
def test_left_to_python(
    turn: Callable[[Any], Any], start: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert why in reason(monkeypatch, turn, start)


def steps_of(monkeypatch: pytest.MonkeyPatch, turn: Callable[[Any], Any], start: Any) -> int:
    """Returns the number of steps of an iteration, besides that of its number."""
    made = spied_plans(monkeypatch)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(start.dtype, start.shape)
        loop = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, turn(a)), [0, fed])
        found = session.run(loop, {fed: start})[1]
        state = tf.convert_to_tensor(start)
        for _ in range(3):
            state = turn(state)
        np.testing.assert_allclose(found, session.run(state), rtol=1e-5)
    return len(made[-1].steps.turn) - 1


@pytest.mark.parametrize(
    ("turn", "steps"),
    [
        (lambda a: tf.reshape(tf.matmul(tf.reshape(a, [3, 2]), np.eye(2, dtype="f")), [2, 3]), 2),
        (lambda a: tf.tanh(tf.expand_dims(a, 2))[:, :, 0], 2),
        (lambda a: tf.reshape(a, [2, 3]), 0),
    ],
    ids=["product", "kernel", "nothing"],
)
def test_another_shape_is_no_step(
    turn: Callable[[Any], Any], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = np.arange(6, dtype=np.float32).reshape(2, 3) / 10
    assert steps_of(monkeypatch, turn, start) == steps


def inner(turn: Callable[[Any, Any], Any], turns: Any) -> Callable[[Any], Any]:
    """An iteration that is a loop over two variables, which are swapped, next to one that stays."""

    def outer(a: Any) -> Any:
        def step(i: Any, x: Any, y: Any, same: Any) -> Any:
            return i + 1, y, turn(x, same), same

        _, x, y, _ = tf.while_loop(lambda i, *_: i < turns, step, (0, a, a * 0.5, a))
        return x - 0.25 * y

    return outer


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_loops_in_turns_are_native(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps_of(monkeypatch, inner(lambda x, same: tf.tanh(tf.matmul(x, same)), turns), SQUARE)


def test_a_loop_in_a_turn_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    once = inner(lambda x, same: x * 0.5 + same, 2)
    steps_of(monkeypatch, inner(lambda x, _: once(x), 3), SQUARE)


def test_a_long_loop_in_a_turn_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inner_loops, "_MOST_TURNS", 64)
    made = spied_plans(monkeypatch)
    with tf.Graph().as_default(), tf.Session() as session:
        turns = tf.placeholder(tf.int32, ())

        def outer(i: Any, a: Any) -> Any:
            end = tf.while_loop(lambda j, _: j < turns, lambda j, b: (j + 1, b + 1.0), (0, a))
            return i + 1, end[1]

        loop = tf.while_loop(lambda i, _: i < 3, outer, (0, 0.0))
        for given in (10, 64, 65, 100, 10):
            assert session.run(loop, {turns: given})[1] == 3 * given
    assert any(each.is_given_up for each in made)


def test_turns_that_python_runs_do_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    def turn(a: Any) -> Any:
        return tf.math.log(a - a) * tf.linalg.det(a + tf.eye(3))

    assert "Python's" in reason(monkeypatch, turn, SQUARE)
