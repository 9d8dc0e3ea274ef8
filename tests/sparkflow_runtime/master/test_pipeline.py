"""All passes of a master, one after the other, on random graphs."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import InternalError, NotFoundError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.phases import Phase, graph_pass, missing
from sparkflow_runtime.master import pipeline
from sparkflow_runtime.master.pipeline import (
    GIVEN,
    PASSES,
    VERIFY_VARIABLE,
    Request,
    optimise,
    verify_is_wanted,
)
from sparkflow_runtime.passes.place import Placement
from sparkflow_runtime.passes.prune import prune
from support.graphs import const, node, placeholder
from support.random_graphs import assert_same, outcome, random_program

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
IMAGES = {"data_format": "NCHW", "padding": "SAME"}
PLACEMENT = Placement([DeviceSpec.from_string(CPU)])


@pytest.mark.parametrize("seed", range(100, 115))
def test_a_random_graph_keeps_its_values_and_every_pass_gives_a_typed_graph(seed: int) -> None:
    program = random_program(seed, 60)
    request = Request(tuple(program.feeds), program.fetches, program.targets)
    pruned = prune(program.graph, request.feeds, request.fetches, request.targets)
    seen: list[str] = []

    def look(name: str, graph: Graph) -> None:
        seen.append(name)

    (part,) = optimise(program.graph, request, PLACEMENT, observe=look)
    assert (seen[0], seen[-1]) == ("prune", "place")
    assert_same(outcome(program, part.nodes), outcome(program, pruned.sorted()), rtol=1e-6)


def test_every_pass_needs_only_what_there_is_before_it() -> None:
    assert missing(PASSES, GIVEN) == []
    assert missing(PASSES[1:], GIVEN)[0] == "require_devices needs graph"


@pytest.mark.parametrize("seed", range(200, 210))
def test_a_pass_that_is_left_out_would_have_done_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = random_program(seed, 60)
    request = Request(tuple(program.feeds), program.fetches, program.targets)
    (part,) = optimise(program.graph, request, PLACEMENT)
    always = [replace(each, when=None) if isinstance(each, Phase) else each for each in PASSES]
    assert always != list(PASSES)
    monkeypatch.setattr(pipeline, "PASSES", always)
    (same,) = optimise(program.graph, request, PLACEMENT)
    assert [vars_of(node) for node in part.nodes] == [vars_of(node) for node in same.nodes]


@pytest.mark.parametrize("convolves", [False, True])
def test_images_turn_around_for_convolutions_only(convolves: bool) -> None:
    pool = {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2]}
    nodes = [placeholder("x", (2, 3, 8, 6)), node("pool", "MaxPool", "x", **IMAGES, **pool)]
    if convolves:
        filters = const("filters", np.ones((1, 1, 3, 3)))
        nodes += [filters, node("y", "Conv2D", "pool", "filters", **IMAGES, strides=[1, 1, 1, 1])]
    request = Request((), (Endpoint(nodes[-1].name, 0),), ())
    (part,) = optimise(Graph(nodes), request, PLACEMENT)
    formats = {each.attrs["data_format"] for each in part.nodes if "data_format" in each.attrs}
    assert formats == ({"NHWC"} if convolves else {"NCHW"})


def vars_of(node: Node) -> tuple[object, ...]:
    attrs = {name: str(value) for name, value in node.attrs.items()}
    return node.name, node.op, node.inputs, node.control_inputs, node.device, attrs


@pytest.mark.parametrize("wanted", ["0", "1"])
def test_what_a_pass_breaks_is_blamed_on_it_where_that_is_asked_for(
    wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(graph: Graph) -> Graph:
        return Graph(node for node in graph if node.name != "x")

    nodes = [placeholder("p"), node("x", "Exp", "p"), node("y", "Exp", "x")]
    request = Request((Endpoint("p", 0),), (Endpoint("y", 0),), ())
    monkeypatch.setattr(pipeline, "PASSES", [*PASSES[:3], graph_pass(forgetful), *PASSES[3:]])
    monkeypatch.setenv(VERIFY_VARIABLE, wanted)
    if wanted == "1":
        with pytest.raises(InternalError, match="After the pass forgetful: reads x:0, which"):
            optimise(Graph(nodes), request, PLACEMENT)
    else:
        with pytest.raises(NotFoundError):
            optimise(Graph(nodes), request, PLACEMENT)


def test_the_time_of_every_pass_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    nodes = [placeholder("p"), node("y", "Exp", "p")]
    with caplog.at_level(logging.DEBUG, pipeline.__name__):
        optimise(Graph(nodes), Request((), (Endpoint("p", 0),), ()), PLACEMENT)
    assert [each.args[0] for each in caplog.records][:2] == ["prune", "require_devices"]


def test_verification_is_asked_for_by_the_environment() -> None:
    assert verify_is_wanted({VERIFY_VARIABLE: "1"})
    assert not any(map(verify_is_wanted, ({}, {VERIFY_VARIABLE: ""}, {VERIFY_VARIABLE: "0"})))
