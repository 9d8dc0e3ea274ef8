from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.passes.simplify import simplify
from support.graphs import const, node, placeholder, variable

X = placeholder("x", (2,))


def test_a_graph_without_anything_to_do_is_the_same_object() -> None:
    graph = Graph([X, node("y", "Neg", "x"), node("z", "Relu", "y")])
    assert simplify(graph) is graph


def test_reads_of_variables_stay() -> None:
    nodes = [
        *[variable("v", (2,)), const("one", 1), X],
        node("read", "Identity", "v"),
        node("direct", "Mul", "v", "one"),
        node("set", "Assign", "v", "x"),
        node("after", "Identity", "set"),
        node("handed", "Identity", "read"),
        node("use", "AddN", "handed", "direct", "after", N=3),
    ]
    result = simplify(Graph(nodes))
    assert result["use"].inputs == tuple(Endpoint(n, 0) for n in ("read", "direct", "after"))
    assert (result["after"].op, result["direct"].op) == ("Identity", "Mul")


def test_nobody_reads_a_variable_later_instead_of_its_negative() -> None:
    nodes = [
        *[variable("v", (2,)), node("a", "Neg", "v"), node("set", "Assign", "v", "a")],
        node("y", "Neg", "a", after=["set"]),
    ]
    graph = Graph(nodes)
    assert simplify(graph) is graph


def test_what_was_waited_with_is_waited_with_by_the_readers() -> None:
    nodes = [
        *[X, node("n", "NoOp")],
        node("a", "Identity", "x", after=["n"]),
        node("b", "Identity", "a"),
        node("y", "Neg", "b"),
        node("w", "NoOp", after=["b"]),
    ]
    result = simplify(Graph(nodes))
    assert [each.name for each in result] == ["x", "n", "y", "w"]
    assert (result["y"].inputs, result["y"].control_inputs) == ((Endpoint("x", 0),), ("n",))
    assert set(result["w"].control_inputs) == {"x", "n"}


def test_a_node_with_waits_and_many_readers_stays() -> None:
    waits = ["n", "m"]
    nodes = [
        *[X, *(node(name, "NoOp") for name in waits), node("a", "Identity", "x", after=waits)],
        *(node(f"y{i}", "Neg", "a") for i in range(4)),
    ]
    graph = Graph(nodes)
    assert simplify(graph) is graph


def test_waits_do_not_move_to_other_devices() -> None:
    worker, ps = "/job:worker/task:0", "/job:ps/task:0"
    nodes = [
        *[placeholder("x", (2,), device=worker), node("n", "NoOp", device=worker)],
        node("a", "Identity", "x", after=["n"], device=worker),
        node("y", "Neg", "a", device=ps),
    ]
    graph = Graph(nodes)
    assert simplify(graph) is graph


def test_what_must_stay_hands_on_its_value() -> None:
    nodes = [X, const("one", 1), node("y", "Mul", "x", "one", _source="m.py:3")]
    kept = simplify(Graph(nodes), keep=["y"])["y"]
    assert (kept.op, kept.inputs, kept.source) == ("Identity", (Endpoint("x", 0),), "m.py:3")
    assert [each.name for each in simplify(Graph(nodes))] == ["x"]


def test_values_stay_where_they_were_asked_to_be() -> None:
    there = node("y", "Identity", "x", device="/job:ps/task:0")
    graph = Graph([X, there, node("z", "Neg", "y")])
    assert simplify(graph) is graph
    here = placeholder("x", (2,), device="/job:ps/task:0")
    assert "y" not in simplify(Graph([here, there, node("z", "Neg", "y")]))


def test_effects_that_a_value_waited_for_are_waited_for() -> None:
    nodes = [
        variable("v", ()),
        const("n", [2, 3], dtypes.int32),
        node("r", "RandomUniform", "n", T=dtypes.int32, dtype=dtypes.float32),
        node("a", "Neg", "r"),
        node("s", "Rank", "a"),
        node("c", "Cast", "s", SrcT=dtypes.int32, DstT=dtypes.float32),
        node("u", "AssignAdd", "v", "c"),
    ]
    graph = Graph(nodes)
    result = simplify(graph, keep=["u"], types=infer_types(graph))
    assert (result["s"].op, result["s"].control_inputs) == ("Const", ("r",))
    assert "a" not in result


def test_new_names_are_free() -> None:
    nodes = [
        *[X, const("c", 4), const("y/reciprocal", 7), node("y", "RealDiv", "x", "c")],
        node("z", "Mul", "y", "y/reciprocal"),
    ]
    result = simplify(Graph(nodes))
    assert result["y"].inputs[1] == Endpoint("y/reciprocal_", 0)
    assert result["y/reciprocal_"].attrs["value"] == 0.25
    assert result["y/reciprocal"].attrs["value"] == 7
