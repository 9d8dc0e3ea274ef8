import logging

import numpy as np
import pytest

from sparkflow_runtime.codegen import threads
from sparkflow_runtime.compiler import branch_threads, trial
from sparkflow_runtime.compiler.forks import Limits
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.compiler.program import compile_partition
from sparkflow_runtime.compiler.trial import ForkedPlan, Trial, is_faster, measured_units
from sparkflow_runtime.compiler.waits import Waits
from support.graphs import const, node
from support.plans import arg, fetch, forked_plan_of, new_context, plan_of

pytestmark = pytest.mark.usefixtures("plans_at_once")
MS = 1e-3
STEPS = 2 * trial.SAMPLES + trial.SAMPLES + 2 + 1 + 2 * trial.TURNS
X = np.float32([1, 2, 3])


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch):
    monkeypatch.setattr(branch_threads, "count", lambda: 2)


class Clock:
    """Tells the time that kernels say they took."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Slow:
    """A plan whose steps take as long as is said."""

    def __init__(self, planned, clock, seconds):
        self.planned, self.clock, self.seconds = planned, clock, seconds
        self.runs = 0
        self.calls = planned.calls
        self.freed = 0

    def __call__(self, step, *args):
        self.runs += 1
        self.clock.now += self.seconds
        return self.planned(step, *args)

    def new_frame(self):
        frame = self.planned.new_frame()
        for register, called in self.calls.items():
            frame.__globals__[register] = self.slow(called.node.name, frame.__globals__[register])
        return frame

    def slow(self, name, kernel):
        def run(*arguments):
            if name in ("one", "other"):
                self.clock.now += self.seconds / 2
            return kernel(*arguments)

        return run

    def free_frames(self):
        self.freed += 1


def plans():
    nodes = [
        const("axis", np.int32(0)),
        arg("x", 0),
        node("one", "Cumsum", "x", "axis"),
        node("other", "Cumprod", "x", "axis"),
        *(fetch("one"), fetch("other", 1)),
    ]
    program = compile_partition(nodes, new_context())
    return plan_of(program, [X]).trial.serial, forked_plan_of(program, [X])


def settled(before_s, after_s, schedule=None, limits=None):
    """What a trial of plans that take so long ends with, and its plans."""
    clock = Clock()
    serial, forked = (
        Slow(plan, clock, seconds)
        for plan, seconds in zip(plans(), (before_s, after_s), strict=True)
    )
    measured = []

    def give(shared, alone, limits):
        measured.append((shared, alone))
        return forked

    made = Trial(serial, schedule or give, limits or Limits(), clock)
    chosen = []
    made.settled = chosen.append
    steps = 0
    while not chosen and steps < 2 * STEPS:
        steps += 1
        results = made.run(None, [X])
        assert sorted(each.tolist() for each in results) == [[1, 2, 6], [1, 3, 6]]
    assert len(chosen) == 1
    return chosen[0], steps, serial, forked, measured


def test_the_faster_plan_stays():
    chosen, steps, serial, forked, _ = settled(2 * MS, 1.2 * MS)
    assert chosen is forked
    assert forked.runs == trial.TURNS + 1
    assert steps == STEPS
    assert serial.freed == 1


def test_forks_that_save_little_go():
    chosen, _, serial, forked, _ = settled(2 * MS, 1.95 * MS)
    assert chosen is serial
    assert (serial.freed, forked.runs) == (0, trial.TURNS + 1)


def test_short_steps_are_left_alone():
    chosen, steps, serial, forked, measured = settled(0.1 * MS, 0.01 * MS)
    assert chosen is serial
    assert steps == trial.SAMPLES
    assert (measured, forked.runs) == ([], 0)


def test_nothing_to_save_ends_it():
    chosen, _, serial, forked, _ = settled(2 * MS, MS, lambda *_: None)
    assert chosen is serial
    assert forked.runs == 0


def test_what_kernels_take_is_measured_with_and_without_shared_threads(monkeypatch):
    held = []
    monkeypatch.setattr(threads, "hold_pool", lambda: held.append(True))
    monkeypatch.setattr(threads, "release_pool", lambda: held.append(False))
    measured = []
    settled(2 * MS, MS, lambda *given: measured.append(given))
    ((shared, alone, _),) = measured
    assert held == [True, False] * (trial.SAMPLES + 1)
    for seconds in (shared, alone):
        assert {name: seconds[name] for name in ("one", "other")} == (
            pytest.approx({"one": MS, "other": MS})
        )


def test_a_plan_that_cannot_be_made_leaves_the_other(caplog, monkeypatch):
    def fail(*_):
        raise ValueError("no such fork")

    log = logging.getLogger(trial.__name__)
    monkeypatch.setattr(log, "propagate", True)
    chosen, _, serial, *_ = settled(2 * MS, MS, fail)
    assert chosen is serial
    assert "no such fork" in caplog.text


def test_steps_that_fail_are_not_counted():
    serial, _ = plans()
    clock = Clock()
    made = Trial(Slow(serial, clock, 2 * MS), lambda *_: None, Limits(), clock)
    chosen = []
    made.settled = chosen.append
    for _ in range(2 * STEPS):
        with pytest.raises(TypeError):
            made.run(None, [])
    assert not chosen


def test_is_faster():
    assert is_faster([1.0] * 16, [2.0] * 16)
    assert is_faster([1.0] * 12 + [3.0] * 4, [2.0] * 16)
    assert not is_faster([1.0] * 11 + [3.0] * 5, [2.0] * 16)
    assert not is_faster([0.96] * 16, [1.0] * 16)


def test_what_the_scheduler_is_told():
    units = [Unit(arg("x", 0)), Unit(node("e", "Exp", "x"))]
    waits = Waits([set(), {0}], {0}, {1})
    first, second = measured_units(
        [unit.node.name for unit in units], waits, {"e": MS}, {"e": 2 * MS}
    )
    assert (first.shared_s, first.alone_s, first.is_pinned, first.is_barrier) == (0, 0, True, False)
    assert (second.shared_s, second.alone_s, second.is_barrier) == (MS, 2 * MS, True)
    assert second.waits == {0}


def test_a_program_ends_up_with_the_plan_that_stays(monkeypatch):
    """All of it, with a clock that ticks at each look and forks that are always worth it."""
    monkeypatch.setattr(trial, "is_faster", lambda one, other: True)
    nodes = [
        const("axis", np.int32(0)),
        arg("x", 0),
        node("one", "Cumsum", "x", "axis"),
        node("other", "Cumprod", "x", "axis"),
        *(fetch("one"), fetch("other", 1)),
    ]
    program = compile_partition(nodes, new_context())
    tried = plan_of(program, [X])
    tried.trial._limits = Limits(0, 0, 0, 0)
    for _ in range(STEPS + 2):
        one, other = program.run(None, [X])
        assert (one.tolist(), other.tolist()) == ([1, 3, 6], [1, 2, 6])
    assert isinstance(plan_of(program, [X]), ForkedPlan)
    assert program.statistics.forked == 1
    assert tried(None, X)[0].tolist() == [1, 3, 6]  # whoever still has it
