import numpy as np
import pytest

from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.passes.prune import prune
from support.random_graphs import (
    Outcome,
    assert_same,
    outcome,
    random_program,
)


def test_the_same_seed_makes_the_same_program() -> None:
    first, second = random_program(7), random_program(7)
    assert [(n.name, n.op, n.inputs, n.control_inputs) for n in first.graph] == [
        (n.name, n.op, n.inputs, n.control_inputs) for n in second.graph
    ]
    assert [n.name for n in random_program(8).graph] != [n.name for n in first.graph]


@pytest.mark.parametrize("seed", range(20))
def test_a_program_is_typed_and_its_outcome_does_not_depend_on_the_order(seed: int) -> None:
    program = random_program(seed)
    graph = prune(program.graph, list(program.feeds), program.fetches, program.targets)
    infer_types(graph)
    place = {name: -i for i, name in enumerate(graph.nodes)}
    last_first = graph.sorted(priority=lambda node: place[node.name])
    expected = outcome(program, graph.sorted())
    assert expected.fetched
    assert_same(outcome(program, last_first), expected)


def test_programs_update_variables() -> None:
    changed = 0
    for seed in range(20):
        program = random_program(seed)
        graph = prune(program.graph, list(program.feeds), program.fetches, program.targets)
        after = outcome(program, graph.sorted()).variables
        changed += any((after[name] != before).any() for name, before in program.variables.items())
        assert not random_program(seed, variables=False).variables
    assert changed > 10


def test_outcomes_that_differ_are_told() -> None:
    given = Outcome([np.float32(1.0)], {"v": np.array([1.0], np.float32)})
    assert_same(given, given)
    assert_same(Outcome([np.float32(1 + 1e-6)], given.variables), given, rtol=1e-5)
    for other in (
        Outcome([np.float32(1 + 1e-6)], given.variables),
        Outcome([np.float64(1.0)], given.variables),
        Outcome(given.fetched, {"v": np.array([2.0], np.float32)}),
    ):
        with pytest.raises(AssertionError):
            assert_same(other, given)
