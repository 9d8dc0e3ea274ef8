"""The passes together: random graphs keep their values, and every graph on the way is typed."""

from collections.abc import Mapping
from typing import Any

import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ir.phases import Phase, run_phases
from sparkflow_runtime.ir.types import Types, infer_types
from sparkflow_runtime.ir.verify import verify_graph
from sparkflow_runtime.passes.clean import CLEANING, clean
from sparkflow_runtime.passes.prune import prune
from sparkflow_runtime.shapes import is_compatible
from support.graphs import const, node, placeholder
from support.random_graphs import (
    RandomProgram,
    assert_same,
    outcome,
    random_program,
)


def pruned(program: RandomProgram, with_shapes: bool = False) -> Graph:
    graph = prune(program.graph, list(program.feeds), program.fetches, program.targets)
    if not with_shapes:
        return graph
    return Graph(
        Node(n.name, n.op, attrs={**n.attrs, "shape": program.args[n.attrs["index"]].shape})
        if n.op == "_Arg"
        else n
        for n in graph
    )


@pytest.mark.parametrize("known", ["nothing", "static shapes", "all shapes"])
@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_keep_their_values(seed: int, known: str) -> None:
    program = random_program(seed)
    graph = pruned(program, with_shapes=known == "all shapes")
    types: Types = {} if known == "nothing" else infer_types(graph)
    expected = outcome(program, graph.sorted())
    seen: list[str] = []

    def look(phase: Phase, values: Mapping[str, Any], changed: bool, seconds: float) -> None:
        if not changed:
            return
        after = values["graph"]
        seen.append(phase.name)
        verify_graph(after, phase.name, types)
        assert after.nodes.keys() >= set(program.targets)
        assert_same(outcome(program, after.sorted()), expected, rtol=1e-6)

    values = {"graph": graph, "targets": program.targets, "types": types}
    run_phases([CLEANING], values, look)
    assert len(values["graph"]) < len(graph)
    assert "simplify" in seen


def test_tensors_that_stay_have_the_types_they_had() -> None:
    """Or more is known of them, such as what a constant shape now describes."""
    for seed in range(20):
        graph = pruned(random_program(seed), with_shapes=True)
        types = infer_types(graph)
        after = infer_types(clean(graph, (), types))
        for endpoint, found in after.items():
            if endpoint in types:
                assert found.dtype is types[endpoint].dtype
                assert is_compatible(found.shape, types[endpoint].shape)


def test_passes_go_on_until_nothing_changes() -> None:
    """A folded constant enables a rule, whose result is merged."""
    nodes = [
        placeholder("x", (2, 2)),
        *[const("a", 3), const("b", 2), node("c", "Sub", "a", "b")],
        node("d", "Mul", "x", "c"),
        *[node("e", "Neg", "d"), node("f", "Neg", "x")],
        node("g", "Mul", "e", "f"),
        node("end", "_Retval", "g", T=dtypes.float32, index=0),
    ]
    cleaned = clean(Graph(nodes))
    assert [(n.name, n.op) for n in cleaned] == [
        ("x", "Placeholder"),
        ("g", "Mul"),
        ("end", "_Retval"),
    ]
    assert clean(cleaned) is cleaned
