import threading
from types import SimpleNamespace

import numpy as np
import pytest

from sparkflow_runtime.device.gpu_graph import RUNS_BEFORE, SteadyPlan
from sparkflow_runtime.device.pinned import PinnedStaging
from support.fake_cupy import FakeCupy


class Card:
    """A plan `w += x; return w * 2` on the stand-in for cupy."""

    def __init__(self, **options):
        self.cupy = FakeCupy()
        self.staging = PinnedStaging(self.cupy)
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self.weights = SimpleNamespace(array=self.cupy.asarray(np.zeros(3)))
        self.calls = 0
        self.before_launch = lambda: None
        self.plan = SteadyPlan(self.cupy, self.step, lambda: [self.weights], **options)

    def step(self, step, x):
        self.calls += 1
        self.before_launch()
        result = self.cupy.empty(3, np.float64)
        weights, added, doubled = self.weights.array.memory, x.memory, result.memory

        def kernel():
            weights[...] += added
            np.multiply(weights, 2, out=doubled)

        self.stream.put(kernel)
        return [result]

    def run(self, value):
        with self.stream:
            (result,) = self.plan.run(self.stream, self.staging, [np.full(3, float(value))])
        return result


def test_a_steady_plan_is_recorded_once_and_replayed():
    card = Card()
    total = 0
    for value in range(1, 10):
        total += value
        np.testing.assert_array_equal(card.run(value), np.full(3, 2 * total))
    assert card.calls == RUNS_BEFORE + 1
    assert card.cupy.graph_launches == 9 - RUNS_BEFORE
    assert card.plan.replays == 9 - RUNS_BEFORE - 1
    np.testing.assert_array_equal(card.weights.array.memory, np.full(3, total))


def test_results_are_the_callers():
    card = Card(runs_before=0)
    first = card.run(1)
    card.run(5)
    np.testing.assert_array_equal(first, np.full(3, 2))
    assert type(first) is np.ndarray


def test_a_recording_has_a_pool_of_its_own():
    card = Card(runs_before=1)
    card.run(1)
    card.run(2)
    eager, _, recorded = card.cupy.allocations[1], *card.cupy.allocations[2:4]
    assert recorded is not eager
    before = len(card.cupy.allocations)
    card.run(3)
    assert len(card.cupy.allocations) == before  # a replay allocates nothing


def test_a_plan_that_may_not_be_recorded_never_is():
    card = Card(may_record=False, runs_before=0)
    for value in (1, 2, 3):
        card.run(value)
    assert (card.calls, card.cupy.graph_launches) == (3, 0)


def test_what_cannot_be_recorded_runs_as_before():
    """A kernel that waits for the GPU; a variable that is assigned a different array."""
    card = Card(runs_before=1)

    def wait():
        if card.stream._recorded is not None:
            card.weights.array = card.cupy.asarray(np.full(3, np.nan))
        card.stream.synchronize()

    card.before_launch = wait
    for value, total in ((1, 1), (2, 3), (3, 6)):
        np.testing.assert_array_equal(card.run(value), np.full(3, 2 * total))
    assert card.cupy.graph_launches == 0
    assert "not permitted when stream is capturing" in card.plan.refusal
    assert card.calls == 1 + 2 + 1  # the second run was tried and repeated


def test_errors_are_those_of_the_run_as_before():
    card = Card(runs_before=0)

    def fail():
        raise ValueError("no such row")

    card.before_launch = fail
    with pytest.raises(ValueError, match="no such row"):
        card.run(1)
    card.before_launch = lambda: None
    np.testing.assert_array_equal(card.run(1), np.full(3, 2))


def test_a_plan_that_gives_variables_other_arrays_runs_right_and_is_not_replayed():
    card = Card(runs_before=1)

    def replace():
        old, new = card.weights.array.memory, card.cupy.empty(3, np.float64)
        card.stream.put(lambda: np.copyto(new.memory, old))
        card.weights.array = new

    card.before_launch = replace
    for value, total in ((1, 1), (2, 3), (3, 6), (4, 10)):
        np.testing.assert_array_equal(card.run(value), np.full(3, 2 * total))
    assert card.plan.refusal == "it gives variables other arrays"
    assert card.plan.replays == 0


def test_a_variable_that_got_another_array_between_runs_is_recorded_anew():
    card = Card(runs_before=1)
    for value in (1, 2, 3):
        card.run(value)
    assert card.plan.replays == 1
    card.weights.array = card.cupy.asarray(np.zeros(3))  # as when a checkpoint is restored
    for value, total in ((1, 1), (2, 3), (3, 6)):
        np.testing.assert_array_equal(card.run(value), np.full(3, 2 * total))
    assert card.plan.replays == 2


def test_a_run_beside_a_replay_is_none():
    card = Card(runs_before=0)
    card.run(1)
    inside, go_on = threading.Event(), threading.Event()
    copy = card.staging.copy

    def slow_copy(*args):
        if threading.current_thread() is other:
            inside.set()
            assert go_on.wait(30)
        return copy(*args)

    card.staging.copy = slow_copy
    other = threading.Thread(target=card.run, args=(2,))
    other.start()
    assert inside.wait(30)
    card.run(3)
    go_on.set()
    other.join(30)
    assert (card.calls, card.plan.replays) == (2, 1)
    card.stream.synchronize()
    np.testing.assert_array_equal(card.weights.array.memory, np.full(3, 6))


def test_a_closed_plan_keeps_nothing():
    card = Card(runs_before=0)
    card.run(1)
    card.plan.close()
    card.plan.close()
    card.run(1)
    assert card.plan.replays == 0
