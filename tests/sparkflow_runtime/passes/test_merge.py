import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.passes.merge import merge
from support.graphs import const, node, placeholder, variable


def test_equal_nodes_become_one_all_the_way_down() -> None:
    merged = merge(
        Graph(
            [
                const("a1", [1, 2]),
                const("a2", [1, 2]),
                node("b1", "Neg", "a1", _source="model.py:1"),
                node("b2", "Neg", "a2", _source="model.py:2"),
                node("c", "AddV2", "b1", "b2"),
                node("w", "NoOp", after=["b2", "b1"]),
            ]
        )
    )
    assert [n.name for n in merged] == ["a1", "b1", "c", "w"]
    assert merged["c"].inputs == (Endpoint("b1", 0), Endpoint("b1", 0))
    assert merged["w"].control_inputs == ("b1",)


X = placeholder("x", (2,))


@pytest.mark.parametrize(
    "pair",
    [
        [node("a", "Neg", "x", device="/cpu:0"), node("b", "Neg", "x", device="/cpu:1")],
        [node("a", "Neg", "x"), node("b", "Neg", "x", after=["x"])],
        [node("a", "Sum", "x", "i"), node("b", "Sum", "x", "i", keep_dims=True)],
        [const("a", 0.0), const("b", -0.0)],
        [const("a", [1]), const("b", 1)],
        [const("a", 1), const("b", 1, dtypes.float64)],
        [const("a", b"1", dtypes.string), const("b", b"2", dtypes.string)],
        [placeholder("a"), placeholder("b")],
        [node("a", "NoOp"), node("b", "NoOp")],
        [variable("a", shared_name="s"), variable("b", shared_name="s")],
        [node(n, "RandomUniform", "i", T=dtypes.int32) for n in "ab"],
        [node(n, "AssignAdd", "v", "x") for n in "ab"],
        [node("a", "Sub", "x", "z"), node("b", "Sub", "z", "x")],
        [node("a", "ReadVariableOp", "h"), node("b", "ReadVariableOp", "h", after=["u"])],
        [node("a", "Identity", "v"), node("b", "Identity", "v", after=["u"])],
        [const("a", np.arange(90)), const("b", np.arange(90)[::-1])],
        [const("a", np.zeros((9, 10))), const("b", np.zeros((10, 9)))],
        [node(n, "Add", *order, T=dtypes.string) for n, order in (("a", "st"), ("b", "ts"))],
        [node("a", "Neg", "x", _class=["loc:@x"]), node("b", "Neg", "x")],
    ],
)
def test_what_differs_or_has_state_stays(pair: list[Node]) -> None:
    others = [
        *[X, variable("v", (2,)), const("i", [0], dtypes.int32), placeholder("z", (2,))],
        *[node("h", "VarHandleOp", dtype=dtypes.float32, shape=(2,))],
        *[node("u", "AssignAdd", "v", "x")],
        *[const(name, name.encode(), dtypes.string) for name in "st"],
    ]
    graph = Graph([*others, *pair])
    assert merge(graph) is graph


@pytest.mark.parametrize(
    "pair",
    [
        [node("a", "AddV2", "x", "z"), node("b", "AddV2", "z", "x")],
        [node("a", "ReadVariableOp", "h"), node("b", "ReadVariableOp", "h")],
        [node("a", "Identity", "v", after=["x"]), node("b", "Identity", "v", after=["x"])],
        [const("a", np.arange(90)), const("b", np.arange(90))],
    ],
)
def test_what_is_equal_is_merged(pair: list[Node]) -> None:
    others = [
        *[X, variable("v", (2,)), placeholder("z", (2,))],
        node("h", "VarHandleOp", dtype=dtypes.float32, shape=(2,)),
    ]
    merged = merge(Graph([*others, *pair]))
    assert "a" in merged
    assert "b" not in merged
    assert "b" in merge(Graph([*others, *pair]), keep=["b"])


def test_all_outputs_are_exchanged() -> None:
    merged = merge(
        Graph(
            [
                X,
                node("a", "Unpack", "x", num=2),
                node("b", "Unpack", "x", num=2),
                node("c", "Sub", "a:1", "b:1"),
            ]
        )
    )
    assert merged["c"].inputs == (Endpoint("a", 1), Endpoint("a", 1))


def test_equal_texts_are_merged() -> None:
    texts = [const(n, [b"a", b"b"], dtypes.string) for n in "ab"]
    assert len(merge(Graph(texts))) == 1
