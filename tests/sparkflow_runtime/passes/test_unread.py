from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.passes.unread import drop_unread
from support.graphs import node, placeholder, variable

GRAPH = Graph(
    [
        placeholder("x", (2, 2)),
        variable("v", (2, 2)),
        node("dear", "MatMul", "x", "x", device="/cpu:0", _source="m.py:1"),
        node("read", "Identity", "v"),
        node("update", "AssignAdd", "v", "x", after=["dear"]),
        node("used", "Neg", "x"),
        node("done", "AssignSub", "v", "used", after=["update", "read"]),
    ]
)


def test_pure_nodes_that_are_only_waited_for_become_waits() -> None:
    kept = drop_unread(GRAPH, ["done"])
    assert [n.name for n in kept] == [n.name for n in GRAPH]
    dear = kept["dear"]
    assert (dear.op, dear.inputs, dear.control_inputs) == ("NoOp", (), ("x",))
    assert (dear.device, dear.source) == ("/cpu:0", "m.py:1")
    for name in ("x", "v", "read", "update", "used", "done"):
        assert kept[name] is GRAPH[name]


def test_a_graph_in_which_all_is_read_is_the_same_object() -> None:
    graph = Graph([placeholder("x", (2, 2)), node("y", "Neg", "x")])
    assert drop_unread(graph, ["y"]) is graph


def test_targets_are_computed() -> None:
    assert drop_unread(GRAPH, ["done", "dear"])["dear"].op == "MatMul"
