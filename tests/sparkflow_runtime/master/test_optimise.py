"""All passes of a master, one after the other, on random graphs."""

import pytest

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.master.executable import Request, optimise
from sparkflow_runtime.passes.place import Placement
from sparkflow_runtime.passes.prune import prune
from support.random_graphs import assert_same, outcome, random_program

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
PLACEMENT = Placement([DeviceSpec.from_string(CPU)])


@pytest.mark.parametrize("seed", range(100, 115))
def test_a_random_graph_keeps_its_values_and_every_pass_gives_a_typed_graph(seed: int) -> None:
    program = random_program(seed, 60)
    request = Request(tuple(program.feeds), program.fetches, program.targets)
    pruned = prune(program.graph, request.feeds, request.fetches, request.targets)
    seen: list[str] = []

    def look(name: str, graph: Graph) -> None:
        seen.append(name)
        infer_types(graph)

    (part,) = optimise(program.graph, request, PLACEMENT, observe=look)
    assert (seen[0], seen[-1]) == ("prune", "place")
    assert_same(outcome(program, part.nodes), outcome(program, pruned.sorted()), rtol=1e-6)
