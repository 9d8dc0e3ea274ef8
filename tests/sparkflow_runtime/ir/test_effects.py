"""Which nodes only compute something, and which change which variable."""

import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir import effects
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from support.graphs import const, node, placeholder

VARIABLE = node("v", "VariableV2", dtype=dtypes.float32, shape=())
HANDLE = node("h", "VarHandleOp", dtype=dtypes.float32, shape=())
ONE = const("one", 1.0)
PASSED = node("passed", "Assign", "v", "one")
AGAIN = node("again", "AssignAdd", "passed", "one")
BY_HANDLE = node("added", "AssignAddVariableOp", "h", "one")
READ = node("read", "Identity", "v")
EXP = node("exp", "Exp", "read")
NODES = [VARIABLE, HANDLE, ONE, PASSED, AGAIN, BY_HANDLE, READ, EXP]
V, H = Endpoint("v", 0), Endpoint("h", 0)


def test_references_belong_to_the_variable_that_passed_them_on() -> None:
    owner = effects.find_handles(NODES)
    assert owner == {V: V, H: H, Endpoint("passed", 0): V, Endpoint("again", 0): V}


def test_updates_are_found_by_reference_and_by_handle_and_reads_are_none() -> None:
    owner = effects.find_handles(NODES)
    assert effects.find_updates(NODES, owner) == {V: ["passed", "again"], H: ["added"]}


@pytest.mark.parametrize(
    ("of", "pure", "with_effects", "mutating"),
    [
        (VARIABLE, False, False, False),
        (HANDLE, False, False, False),
        (PASSED, False, True, True),
        (BY_HANDLE, False, True, True),
        (READ, False, False, False),
        (EXP, True, False, False),
        (node("drawn", "RandomUniform", "sizes", dtype=dtypes.float32), False, True, False),
        (placeholder("p"), False, False, False),
    ],
)
def test_what_a_node_does_beside_computing(
    of: Node, pure: bool, with_effects: bool, mutating: bool
) -> None:
    graph = Graph([*NODES, const("sizes", [2], dtypes.int32), of])
    assert effects.is_pure(graph.nodes, of) is pure
    assert effects.has_effects(of) is with_effects
    assert effects.mutates(of) is mutating


def test_references_are_told_from_values() -> None:
    graph = Graph(NODES)
    assert effects.is_reference(graph.nodes, V)
    assert not effects.is_reference(graph.nodes, Endpoint("read", 0))
    assert effects.reads_references(graph.nodes, READ)
    assert not effects.reads_references(graph.nodes, EXP)


def test_what_lost_its_last_reader_goes_with_what_only_it_read() -> None:
    unread = node("unread", "Exp", "two")
    kept = node("kept", "Exp", "one")
    nodes = [ONE, const("two", 2.0), unread, kept]
    left = effects.without_dead(nodes, ["two", "unread", "one"], ["kept"])
    assert [each.name for each in left] == ["one", "kept"]
    assert effects.without_dead(nodes, [], []) == nodes
