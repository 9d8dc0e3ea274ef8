"""Which tensors are sent together, and when: bundles that are split by size."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.passes.partitioning import bundles
from sparkflow_runtime.passes.partitioning.bundles import LEAST_PART_BYTES, MAX_PARTS, Splitting
from sparkflow_runtime.passes.partitioning.partition import Partition, partition
from support.graphs import const, node, placeholder, variable

PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:w/replica:0/task:0/device:CPU:0"
LARGE = (LEAST_PART_BYTES // 4,)
SMALL = (4,)


def cut(
    nodes: Sequence[Node], is_split: Callable[[str, str], bool] = lambda *_: True
) -> dict[str, Partition]:
    graph = Graph(nodes)
    parts = partition(graph, Splitting(infer_types(graph), is_split))
    return {part.device: part for part in parts}


def layers(*shapes: tuple[int, ...], order: Sequence[int] | None = None) -> list[Node]:
    """A ps with a variable per shape, and a worker that computes their gradients, last first."""
    numbers = range(len(shapes))
    nodes = [const("rate", 0.5, device=PS)]
    for i in numbers:
        nodes += [
            variable(f"v{i}", shapes[i], device=PS),
            node(f"v{i}/read", "Identity", f"v{i}", device=PS),
        ]
    last = ""
    for i in order if order is not None else reversed(numbers):
        after = [last] if last else []
        nodes.append(node(f"g{i}", "Neg", f"v{i}/read", after=after, device=WORKER))
        last = f"g{i}"
    nodes += [
        node(f"apply{i}", "ApplyGradientDescent", f"v{i}", "rate", f"g{i}", device=PS)
        for i in numbers
    ]
    return nodes


def ops(part: Partition, *kinds: str) -> list[str]:
    """The names of nodes of these ops in execution order, bundles as their tensors."""
    return [
        " ".join(endpoint.node for endpoint in n.inputs) if n.op == "_SendBundle" else n.name
        for n in part.nodes
        if n.op in kinds
    ]


def test_a_large_gradient_leaves_before_the_next_is_made() -> None:
    parts = cut(layers(LARGE, LARGE, LARGE))
    assert ops(parts[WORKER], "_SendBundle", "Neg") == ["g2", "g2", "g1", "g1", "g0", "g0"]


def test_it_is_applied_before_the_next_has_come() -> None:
    parts = cut(layers(LARGE, LARGE, LARGE))
    kinds = ("_RecvBundle", "ApplyGradientDescent")
    assert ops(parts[PS], *kinds) == [
        "_recv/1-0-1-0",
        "apply2",
        "_recv/1-0-1-0-1",
        "apply1",
        "_recv/1-0-1-0-2",
        "apply0",
    ]


def test_small_ones_go_with_the_next_large_one_and_the_rest_with_the_last() -> None:
    shapes = (SMALL, SMALL, LARGE, SMALL, LARGE, SMALL)
    parts = cut(layers(*shapes))
    assert ops(parts[WORKER], "_SendBundle") == ["g5 g4", "g3 g2 g1 g0"]


def test_small_ones_that_are_large_together_leave_together() -> None:
    quarter = (LEAST_PART_BYTES // 16,)
    parts = cut(layers(*[quarter] * 8))
    assert ops(parts[WORKER], "_SendBundle") == ["g7 g6 g5 g4", "g3 g2 g1 g0"]


@pytest.mark.parametrize("count", [1, 10, 100, 1000])
@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_messages_are_few_however_many_variables_there_are(
    count: int, shape: tuple[int, ...]
) -> None:
    parts = cut(layers(*[shape] * count))
    sent = ops(parts[WORKER], "_SendBundle")
    fewest, most = (1, 1) if shape == SMALL else (min(count, MAX_PARTS // 2), min(count, MAX_PARTS))
    assert fewest <= len(sent) <= most
    assert sorted(" ".join(sent).split()) == sorted(f"g{i}" for i in range(count))
    assert len(ops(parts[PS], "_SendBundle")) == 1


def test_values_that_are_there_at_once_stay_together() -> None:
    parts = cut(layers(LARGE, LARGE))
    assert ops(parts[PS], "_SendBundle") == ["v1/read v0/read"]
    assert len(ops(parts[WORKER], "_RecvBundle")) == 1


def test_what_the_receiver_computes_with_stays_together() -> None:
    """It needs the shapes of all of them before it can create a plan."""
    nodes = [
        placeholder("x", LARGE, device=WORKER),
        node("a", "Neg", "x", device=WORKER),
        node("b", "Neg", "a", device=WORKER),
        node("y", "AddV2", "a", "b", device=PS),
    ]
    parts = cut(nodes)
    assert ops(parts[WORKER], "_SendBundle") == ["a b"]


def test_what_else_goes_there_goes_with_the_rest() -> None:
    nodes = layers(LARGE, LARGE, SMALL)
    nodes += [
        node("loss", "Sum", "g2", "axes", device=WORKER),
        const("axes", [0], dtypes.int32, device=WORKER),
        node("log", "Neg", "loss", device=PS),
    ]
    parts = cut(nodes)
    sent = ops(parts[WORKER], "_SendBundle")
    assert sent == ["g2 g1", "g0", "loss"]


def test_a_narrowed_gradient_counts_as_what_travels() -> None:
    def narrowed(shape: tuple[int, ...]) -> list[str]:
        nodes = [n for n in layers(shape, shape) if not n.name.startswith("apply")]
        types = infer_types(Graph(nodes))
        for i in (1, 0):
            attrs: dict[str, Any] = {"SrcT": dtypes.float32, "DstT": dtypes.bfloat16}
            back: dict[str, Any] = {"SrcT": dtypes.bfloat16, "DstT": dtypes.float32}
            nodes += [
                node(f"n{i}", "Cast", f"g{i}", device=WORKER, **attrs),
                node(f"wide{i}", "Cast", f"n{i}", device=PS, **back),
            ]
            nodes.append(node(f"apply{i}", "AssignAdd", f"half{i}", f"n{i}", device=PS, T=half))
            nodes.append(variable(f"half{i}", shape, half, device=PS))
        nodes = [n for n in nodes if not n.name.startswith("wide")]
        parts = partition(Graph(nodes), Splitting(types, lambda *_: True))
        return next(ops(part, "_SendBundle") for part in parts if part.device == WORKER)

    half = dtypes.bfloat16
    assert narrowed((LEAST_PART_BYTES // 2,)) == ["n1", "n0"]
    assert narrowed(LARGE) == ["n1 n0"]


def test_gradients_of_unknown_size_stay_together() -> None:
    nodes = layers(LARGE, LARGE)
    graph = Graph(nodes)
    known = infer_types(graph)
    types = {each: known[each] for each in known if each.node == "rate"}
    parts = partition(graph, Splitting(types, lambda *_: True))
    assert len([n for part in parts for n in part.nodes if n.op == "_SendBundle"]) == 2


def test_pairs_of_devices_are_split_as_asked_for() -> None:
    parts = cut(layers(LARGE, LARGE), lambda source, destination: source == PS)
    assert ops(parts[WORKER], "_SendBundle") == ["g0 g1"]
    parts = cut(layers(LARGE, LARGE), lambda *pair: pair == (WORKER, PS))
    assert ops(parts[WORKER], "_SendBundle") == ["g1", "g0"]


def test_who_waits_for_a_part_waits_for_that_part() -> None:
    nodes = [
        *layers(LARGE, LARGE),
        node("count", "AssignAdd", "n", "one", after=["g1"], device=PS),
        variable("n", (), device=PS),
        const("one", 1, device=PS),
    ]
    parts = cut(nodes)
    count = next(n for n in parts[PS].nodes if n.name == "count")
    assert count.control_inputs == ("_recv/1-0-1-0",)
    first = next(n for n in parts[WORKER].nodes if n.op == "_SendBundle")
    assert first.control_inputs == ("g1",)


def test_the_order_without_parts_is_what_it_is_without_splitting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = layers(LARGE, SMALL, LARGE, order=[1, 0, 2])
    whole = {part.device: part.nodes for part in partition(Graph(nodes))}
    monkeypatch.setattr(bundles, "LEAST_PART_BYTES", 1 << 40)
    assert {device: part.nodes for device, part in cut(nodes).items()} == whole


def test_a_gradient_of_unknown_shape_is_as_large_as_the_variable() -> None:
    """As if the batch were fed."""
    shape = (16, LEAST_PART_BYTES // 64)
    nodes = layers(shape, shape)
    for i in range(2):
        nodes = [n for n in nodes if n.name != f"g{i}"]
        nodes += [
            placeholder(f"x{i}", None, device=WORKER),
            node(f"g{i}", "Neg", f"x{i}", device=WORKER),
        ]
    assert ops(cut(nodes)[WORKER], "_SendBundle") == ["g0", "g1"]


def test_a_gradient_for_an_accumulator_is_as_large_as_that() -> None:
    nodes: list[Node] = [const("step", 0, dtypes.int64, device=PS)]
    for i in range(2):
        nodes += [
            placeholder(f"x{i}", None, device=WORKER),
            node(f"g{i}", "Neg", f"x{i}", device=WORKER),
            node(f"a{i}", "ConditionalAccumulator", shape=LARGE, device=PS),
            node(f"push{i}", "AccumulatorApplyGradient", f"a{i}", "step", f"g{i}", device=PS),
        ]
    assert ops(cut(nodes)[WORKER], "_SendBundle") == ["g0", "g1"]


def test_rows_of_unknown_number_are_small() -> None:
    nodes: list[Node] = []
    for i in range(2):
        nodes += [
            variable(f"v{i}", (*LARGE, 4), device=PS),
            placeholder(f"rows{i}", (None, 4), device=WORKER),
            placeholder(f"ids{i}", (None,), dtypes.int32, device=WORKER),
            node(
                f"add{i}", "ScatterAdd", f"v{i}", f"ids{i}", f"rows{i}", device=PS,
                Tindices=dtypes.int32,
            ),
        ]  # fmt: skip
    assert ops(cut(nodes)[WORKER], "_SendBundle") == ["ids0 rows0 ids1 rows1"]


def test_sizes_are_those_of_what_travels() -> None:
    nodes = [
        variable("v", (3, 5), dtypes.float64, device=PS),
        node("read", "Identity", "v", T=dtypes.float64, device=PS),
        node("again", "Identity", "read", T=dtypes.float64, device=PS),
        placeholder("unknown", (None, 5), device=PS),
        const("text", np.array([b"a"], object), dtypes.string, device=PS),
    ]
    graph = Graph(nodes)
    types = infer_types(graph)
    del types[Endpoint("again", 0)]
    splitting = Splitting(types, lambda *_: True)
    done = node("done", "NoOp")
    sizes = [splitting.size_bytes(graph, Endpoint(n.name, 0), done) for n in nodes]
    assert sizes == [120, 120, 120, 0, 0]


def test_what_waits_for_gradients_waits_for_each_of_their_parts() -> None:
    nodes = layers(LARGE, LARGE, LARGE)
    begin = node("begin", "NoOp", after=["g0", "g1", "g2"], device=PS)
    nodes = [
        node(each.name, each.op, *map(str, each.inputs), after=["begin"], device=PS)
        if each.op == "ApplyGradientDescent"
        else each
        for each in nodes
    ]
    plain, waiting = cut(layers(LARGE, LARGE, LARGE)), cut([*nodes, begin])
    # They still leave one by one, and nothing is applied before the last one has arrived.
    assert ops(waiting[WORKER], "_SendBundle") == ops(plain[WORKER], "_SendBundle")
    order = ops(waiting[PS], "_RecvBundle", "NoOp", "ApplyGradientDescent")
    assert len(order) == 7
    assert order.index("begin") == 3
    assert all(name.startswith("_recv") for name in order[:3])
