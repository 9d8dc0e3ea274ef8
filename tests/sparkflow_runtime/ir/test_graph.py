import random

import pytest

from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError
from sparkflow_runtime.ir.graph import Graph, predecessors, rewired
from sparkflow_runtime.ir.node import Endpoint, parse_endpoint
from support.graphs import const, node


def test_order_follows_edges_priorities_and_the_graph() -> None:
    graph = Graph(
        [
            node("late", "NoOp", after=["b"]),
            const("a", 1),
            const("b", 2),
            node("sum", "AddV2", "a", "b"),
        ]
    )
    assert [n.name for n in graph.sorted()] == ["a", "b", "late", "sum"]
    backwards = graph.sorted(priority=lambda n: -ord(n.name[0]))
    assert [n.name for n in backwards] == ["b", "late", "a", "sum"]


@pytest.mark.parametrize("seed", range(20))
def test_order_of_random_graphs(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(50)]
    nodes = [
        node(name, "NoOp", after=rng.sample(names[:i], min(i, 3))) for i, name in enumerate(names)
    ]
    rng.shuffle(nodes)
    order = Graph(nodes).sorted()
    assert sorted(n.name for n in order) == sorted(names)
    place = {n.name: i for i, n in enumerate(order)}
    for each in order:
        assert all(place[name] < place[each.name] for name in predecessors(each))


def test_cycles_and_missing_inputs_are_named() -> None:
    cycle = Graph([node("a", "NoOp", after=["b"]), node("b", "NoOp", after=["a"])])
    with pytest.raises(InvalidArgumentError, match="a cycle through a, b"):
        cycle.sorted()
    with pytest.raises(NotFoundError, match="'a': Unknown input node 'gone'"):
        Graph([node("a", "Identity", "gone")]).sorted()
    with pytest.raises(NotFoundError, match="There is no node 'gone'"):
        Graph([node("a", "Identity", "gone")]).ancestors(["a"])


def test_ancestors_and_consumers() -> None:
    graph = Graph(
        [const("a", 1), const("b", 1), node("s", "AddV2", "a", "a", after=["b"]), const("c", 1)]
    )
    assert graph.ancestors(["s"]) == {"a", "b", "s"}
    assert {k: [n.name for n in v] for k, v in graph.consumers().items()} == {
        "a": ["s"],
        "b": ["s"],
        "s": [],
        "c": [],
    }


def test_rewiring_changes_inputs_only() -> None:
    before = node("s", "AddV2", "a:1", "b", after=["c"], device="/cpu:0")
    after = rewired(before, {Endpoint("a", 1): Endpoint("x", 2)})
    assert after.inputs == (Endpoint("x", 2), Endpoint("b", 0))
    assert (after.control_inputs, after.device, after.attrs) == (("c",), "/cpu:0", before.attrs)
    assert rewired(before, {Endpoint("a", 0): Endpoint("x", 0)}) is before


def test_endpoints() -> None:
    assert parse_endpoint("a/b:12") == Endpoint("a/b", 12)
    assert parse_endpoint("a") == Endpoint("a", 0)
    assert str(Endpoint("a", 1)) == "a:1"
    for text in ("", "^a", ":0", "a:-1", "a:x", "a:" + "9" * 5000):
        with pytest.raises(InvalidArgumentError, match="does not name a tensor"):
            parse_endpoint(text)


def test_nodes_describe_themselves() -> None:
    made = node("a", "NoOp", device="/cpu:0", _source="train.py:7", _class=["loc:@v", "other"])
    assert made.describe() == "[[node 'a' (NoOp) on /cpu:0, defined at train.py:7]]"
    assert made.colocated_with == ("v",)
    assert node("a", "NoOp").describe() == "[[node 'a' (NoOp)]]"
