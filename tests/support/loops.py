"""Loops run in every possible way, with results that must agree."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.compiler import specialise
from sparkflow_runtime.compiler.loops import binding, by_shapes, planner
from sparkflow_runtime.compiler.loops.plan import LoopPlan
from support.plans import without_machine_code

Feeds = dict[Any, Any]
Built = tuple[list[Any], Callable[[int], Feeds]]
"""What to fetch, and the feeds for a number of iterations."""


def spied_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that records the numbers of iterations of loops run in machine code."""
    runs: list[int] = []
    run = LoopPlan.run

    def spy(self: LoopPlan, step: Any, values: Any) -> Any:
        results = run(self, step, values)
        if results is not None:
            runs.append(len(results[-1]))
        return results

    monkeypatch.setattr(LoopPlan, "run", spy)
    return runs


def spied_plans(monkeypatch: pytest.MonkeyPatch) -> list[LoopPlan]:
    """Returns a list that records the loops planned in machine code."""
    made: list[LoopPlan] = []
    plan = planner.plan_loop

    def noted(*args: Any) -> LoopPlan:
        made.append(plan(*args))
        return made[-1]

    monkeypatch.setattr(binding, "plan_loop", noted)
    return made


NEVER = 10**9
"""So often shapes are never seen."""


def results(
    built: Built, turns: list[int], sightings: int, prepare: Any = None, loop_sightings: int = NEVER
) -> list[list[Any]]:
    """Returns what a session fetches, after checking that it never changes afterwards.

    Args:
        built: The loop.
        turns: The numbers of iterations.
        sightings: How often shapes of a partition are seen before it is planned for them.
        prepare: Sets the variables.
        loop_sightings: The same for a loop in a partition without a plan.
    """
    fetches, feed = built
    found = []
    with pytest.MonkeyPatch.context() as patch, tf.Session() as session:
        patch.setattr(specialise, "EARLY", 0)
        patch.setattr(specialise, "SIGHTINGS", sightings)
        patch.setattr(by_shapes, "SIGHTINGS", loop_sightings)
        session.run(tf.global_variables_initializer() if prepare is None else prepare)
        for count in turns:
            given = session.run(fetches, feed(count))
            before = [np.array(each) for each in given]
            session.run(fetches, feed(count))
            for now, then in zip(given, before, strict=True):
                np.testing.assert_array_equal(now, then)
            found.append(given)
    return found


def compare(built: Built, turns: list[int], rtol: float = 1e-4, prepare: Any = None) -> None:
    """Checks that all ways to run the loop give the same; `prepare` sets its variables."""
    expected = results(built, turns, NEVER, prepare)
    with without_machine_code():
        plain = results(built, turns, 1, prepare)
    planned = results(built, turns, 1, prepare)
    alone = results(built, turns, NEVER, prepare, loop_sightings=1)
    for found in (planned, alone, plain):
        for given, wanted in zip(found, expected, strict=True):
            for one, other in zip(given, wanted, strict=True):
                one, other = np.asarray(one), np.asarray(other)
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                scale = max(1.0, float(np.max(np.abs(other), initial=0)))
                np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * scale)


def with_gradients(y: Any, *xs: Any) -> list[Any]:
    """Returns a tensor and its gradients."""
    return [y, *tf.gradients(y, list(xs))]


def turns_and(*fed: tuple[Any, Any]) -> tuple[Any, Callable[[int], Feeds]]:
    """Returns the number of iterations, and a function that returns the feeds for it."""
    turns = tf.placeholder(tf.int32, [])
    return turns, lambda count: {turns: count, **dict(fed)}


def vector(*values: float) -> tuple[Any, Any]:
    """Returns a vector and its feed."""
    return tf.placeholder(tf.float32, [len(values)]), np.array(values, np.float32)
