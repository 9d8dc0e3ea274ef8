import logging
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.compiler import program as program_module, specialise
from sparkflow_runtime.compiler.planned import Planned
from sparkflow_runtime.compiler.program import Program, compile_partition
from sparkflow_runtime.compiler.specialise import Signature, Specialisations
from sparkflow_runtime.ir.phases import missing
from support.graphs import node
from support.plans import arg, fetch, new_context, without_machine_code


def program() -> Program:
    nodes = [arg("x", 0), node("y", "Neg", "x"), node("z", "Tanh", "y"), fetch("z")]
    return compile_partition(nodes, new_context())


class Plans:
    """Plans that are only identified, and the requests for them."""

    def __init__(self) -> None:
        self.asked: list[Signature] = []

    def make(self, signature: Signature) -> Any:
        self.asked.append(signature)
        return Planned(compile("0", "", "eval"), {}, (), (), len(self.asked), (), (), ())


def rows(count: int) -> list[Any]:
    return [np.zeros((count, 2), np.float32)]


def test_a_shape_is_planned_when_it_was_seen_often_enough() -> None:
    plans = Plans()
    found = Specialisations(plans.make, sightings=3)
    assert found.find(rows(1)) is None
    assert found.find(rows(2)) is None
    assert found.find(rows(1)) is None
    first = found.find(rows(1))
    assert first is not None
    assert found.find(rows(1)) is first
    assert plans.asked == [((1, 2),)]
    assert (found.statistics.general, found.statistics.planned) == (3, 2)
    assert (found.statistics.plans, found.statistics.block_bytes) == (1, 1)


def test_a_short_batch_per_epoch_is_planned_once() -> None:
    plans = Plans()
    found = Specialisations(plans.make, sightings=3)
    for _ in range(6):
        for count in (32, 32, 32, 7):
            found.find(rows(count))
    assert plans.asked == [((32, 2),), ((7, 2),)]


def test_shapes_that_change_in_every_step_cost_no_plan() -> None:
    plans = Plans()
    found = Specialisations(plans.make, sightings=2)
    for count in range(3000):
        assert found.find(rows(count)) is None
    assert not plans.asked
    assert found.statistics.general == 3000


def test_plans_make_room_for_others_which_then_take_longer_to_come() -> None:
    plans = Plans()
    found = Specialisations(plans.make, sightings=1, max_plans=2)
    for count in (1, 2, 1, 3):  # 2 was not used for longest
        assert found.find(rows(count)) is not None
    assert found.statistics.dropped == 1
    assert found.find(rows(1)) is not None
    assert len(plans.asked) == 3
    assert found.find(rows(2)) is None
    assert found.find(rows(2)) is not None
    assert len(plans.asked) == 4


def test_plans_that_functions_ask_for_have_the_same_bound() -> None:
    plans = Plans()
    found = Specialisations(plans.make, sightings=1, max_plans=2)
    made = [found.at_once(((count,),)) for count in range(5)]
    assert found.at_once(((4,),)) is made[4]
    assert len(plans.asked) == 5
    assert found.statistics.dropped == 3


def test_values_without_a_shape_are_told_apart_from_scalars() -> None:
    plans = Plans()
    found = Specialisations(plans.make, sightings=1)
    for value in (np.float32(1), np.zeros(()), [1.0], [2.0]):
        found.find([value])
    assert plans.asked == [((),), (None,)]


def test_where_no_plan_can_be_made_the_general_program_runs_and_the_log_says_so(
    no_plan_fails: list[logging.LogRecord],
) -> None:
    def fail(signature: Signature) -> Planned:
        raise RuntimeError("no plan today")

    found = Specialisations(fail, sightings=1)
    for _ in range(3):
        assert found.find(rows(1)) is None
    assert (found.statistics.failed, found.statistics.general) == (1, 3)
    (record,) = no_plan_fails
    assert record.exc_info is not None
    assert "((1, 2),)" in record.getMessage()
    no_plan_fails.clear()


def test_a_program_counts_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = program()
    for _ in range(5):
        (z,) = compiled.run(None, rows(3))
        assert z.tolist() == np.zeros((3, 2)).tolist()
    statistics = compiled.statistics
    assert statistics is not None
    assert statistics.plans == 1
    assert statistics.general + statistics.planned == 5
    assert statistics.planned >= 3


def test_without_a_code_generator_there_are_plans_too(plans_at_once: None) -> None:
    x = np.float32([[-1.0, 2.0]])
    with without_machine_code():
        compiled = program()
        (z,) = compiled.run(None, [x])
    np.testing.assert_allclose(z, np.tanh(-x), rtol=1e-6)
    assert compiled.statistics is not None
    assert compiled.statistics.planned == 1
    assert compiled.statistics.block_bytes > 0  # for the value between the two


def test_every_phase_needs_only_what_there_is_before_it() -> None:
    assert missing(specialise.PLANNING, specialise.GIVEN) == []
    assert missing(specialise.GENERAL, specialise.GENERAL_GIVEN) == []


def test_what_takes_any_shapes_is_written_when_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def make(*given: Any) -> Planned:
        written.append(1)
        return specialise.make_general(*given)

    monkeypatch.setattr(program_module, "make_general", make)
    compiled = program()
    for size in (1, 2, 3, 4, 1):
        compiled.run(None, [np.zeros(size, np.float32)])
    assert not written
    for size in (5, 6):
        (found,) = compiled.run(None, [np.full(size, 0.5, np.float32)])
        np.testing.assert_allclose(found, np.full(size, np.tanh(-0.5)), rtol=1e-6)
    assert written == [1]
    assert compiled.statistics is not None
    assert compiled.statistics.general == 2
