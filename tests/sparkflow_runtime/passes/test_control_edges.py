import pytest

from sparkflow_runtime.ir.graph import Graph, predecessors
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.passes.control_edges import reduce_control_edges
from sparkflow_runtime.passes.prune import prune
from support.graphs import const, node, placeholder
from support.random_graphs import random_program

X = placeholder("x", (2,))


def waits(*nodes: Node, keep: tuple[str, ...] = ()) -> dict[str, set[str]]:
    reduced = reduce_control_edges(Graph(nodes), keep)
    return {each.name: set(each.control_inputs) for each in reduced}


def test_a_graph_without_superfluous_edges_is_the_same_object() -> None:
    graph = Graph([X, node("a", "Neg", "x"), node("b", "Neg", "x", after=["a"])])
    assert reduce_control_edges(graph) is graph


def test_nobody_waits_for_constants_and_for_what_it_reads() -> None:
    found = waits(X, const("c", 1), node("a", "Mul", "x", "c", after=["c", "x"]))
    assert found["a"] == set()


def test_a_constant_that_waits_is_waited_for() -> None:
    found = waits(X, const("c", 1, after=["x"]), node("a", "Neg", "x", after=["c"]))
    assert found["a"] == {"c"}


def test_edges_that_others_imply_go() -> None:
    chain = [X, node("a", "Neg", "x"), node("b", "Neg", "a"), node("c", "Neg", "b", after=["a"])]
    assert waits(*chain)["c"] == set()
    both = [*chain[:3], node("d", "Neg", "x", after=["a", "b"])]
    assert waits(*both)["d"] == {"b"}


def test_small_groups_are_left_out_and_large_ones_stay() -> None:
    parts = [node(f"a{i}", "Neg", "x") for i in range(4)]
    group = node("g", "NoOp", after=[each.name for each in parts])
    one = waits(X, *parts, group, node("y", "Relu", "x", after=["g"]))
    assert "g" not in one
    assert one["y"] == {each.name for each in parts}
    readers = [node(f"y{i}", "Relu", "x", after=["g"]) for i in range(4)]
    assert waits(X, *parts, group, *readers)["y3"] == {"g"}
    assert "g" in waits(X, *parts, group, keep=("g",))
    assert "g" not in waits(X, *parts, group)


def test_groups_that_stand_for_a_device_stay() -> None:
    worker, ps = "/job:worker/task:0", "/job:ps/task:0"
    parts = [node(f"a{i}", "Neg", "x", device=ps) for i in range(3)]
    group = node("g", "NoOp", after=[each.name for each in parts], device=ps)
    graph = Graph([X, *parts, group, node("y", "Relu", "x", after=["g"], device=worker)])
    assert reduce_control_edges(graph) is graph


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_random_graphs_stays(seed: int) -> None:
    program = random_program(seed)
    graph = prune(program.graph, list(program.feeds), program.fetches, program.targets)
    reduced = reduce_control_edges(graph, program.targets)
    for name in reduced.nodes:
        for before in predecessors(graph[name]):
            if before in reduced and graph[before].op not in ("Const", "_Arg"):
                assert before in reduced.ancestors([name])
