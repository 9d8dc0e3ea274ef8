import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.passes import fold as fold_module
from sparkflow_runtime.passes.fold import fold
from support.graphs import const, node, placeholder, variable


def ops(nodes: list[Node]) -> dict[str, str]:
    return {n.name: n.op for n in fold(Graph(nodes))}


def test_constant_computations_become_constants() -> None:
    folded = fold(
        Graph(
            [
                const("a", [1, 2]),
                node("b", "Neg", "a", device="/cpu:0", _source="m.py:1"),
                node("c", "Mul", "b", "a"),
                placeholder("x"),
                node("y", "AddV2", "c", "x"),
            ]
        )
    )
    assert [n.name for n in folded] == ["c", "x", "y"]  # and what nobody reads any more is removed
    np.testing.assert_array_equal(folded["c"].attrs["value"], np.float32([-1, -4]), strict=True)
    only = fold(Graph([const("a", [1, 2]), node("b", "Neg", "a", device="/cpu:0", _source="m:1")]))
    assert (only["b"].op, only["b"].device, only["b"].source) == ("Const", "/cpu:0", "m:1")


def test_every_output_of_a_folded_node_is_a_constant() -> None:
    nodes = [
        placeholder("x"),
        *[const("a", [1, 2]), node("parts", "Unpack", "a", num=2), const("parts/output_1", 7)],
        node("b", "Mul", "x", "parts:1"),
        node("c", "Sub", "b", "parts:0"),
        node("d", "Sub", "c", "parts/output_1"),
    ]
    folded = fold(Graph(nodes))
    assert folded["b"].inputs == (Endpoint("x", 0), Endpoint("parts/output_1_", 0))
    assert folded["parts/output_1_"].attrs["value"] == 2
    assert (folded["parts"].op, folded["parts"].attrs["value"]) == ("Const", 1)
    assert "a" not in folded


def test_a_graph_with_nothing_to_fold_is_the_same_object() -> None:
    graph = Graph([placeholder("x"), const("a", 1), node("y", "Mul", "x", "a")])
    assert fold(graph) is graph


def test_targets_stay() -> None:
    nodes = [const("a", [1, 2]), node("b", "Neg", "a"), node("c", "Neg", "b")]
    assert [n.name for n in fold(Graph(nodes), keep=["b"])] == ["b", "c"]


def test_outputs_of_a_folded_node_with_several_are_found_by_readers() -> None:
    nodes = [
        const("a", [1, 2]),
        node("parts", "Unpack", "a", num=2),
        node("d", "Sub", "parts:1", "parts:0"),
        node("end", "Identity", "d"),
    ]
    folded = fold(Graph(nodes))
    assert [n.name for n in folded] == ["end"]
    assert folded["end"].attrs["value"] == 1


@pytest.mark.parametrize(
    "nodes",
    [
        [placeholder("x"), node("y", "Neg", "x")],
        [variable("v"), node("y", "Identity", "v")],
        [const("x", 4, dtypes.int32), node("y", "RandomUniform", "x", T=dtypes.int32)],
        [node("n", "NoOp"), const("x", 1), node("y", "Neg", "x", after=["n"])],
        [node("n", "NoOp"), const("x", 1, after=["n"]), node("y", "Neg", "x")],
        [const("x", b"a", dtypes.string), node("y", "Identity", "x", T=dtypes.string)],
    ],
    ids=["placeholder", "variable", "random", "waiting", "waiting constant", "text"],
)
def test_what_is_not_constant_stays(nodes: list[Node]) -> None:
    assert ops(nodes)["y"] != "Const"
    assert len(ops(nodes)) == len(nodes)


def test_a_failing_node_is_left_to_fail_when_it_runs() -> None:
    nodes = [
        const("a", [1, 2]),
        const("shape", [3], dtypes.int32),
        node("y", "Reshape", "a", "shape", Tshape=dtypes.int32),
    ]
    assert ops(nodes) == {"a": "Const", "shape": "Const", "y": "Reshape"}


def test_large_results_are_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_module, "MAX_FOLDED_BYTES", 16)
    square = [const("a", [1, 2, 3, 4]), node("y", "Square", "a")]
    assert ops(square)["y"] == "Const"
    square[0] = const("a", [1, 2, 3, 4, 5])
    assert ops(square)["y"] == "Square"


@pytest.mark.parametrize(
    ("op", "first", "second"),
    [
        ("Fill", const("a", [4], dtypes.int32), const("b", 1)),
        ("BroadcastTo", const("a", [1]), const("b", [4], dtypes.int32)),
        ("Tile", const("a", [1, 2]), const("b", [2], dtypes.int32)),
        ("ZerosLike", const("a", [1, 2, 3, 4]), None),
    ],
)
def test_what_only_repeats_numbers_is_folded_when_small(
    op: str, first: Node, second: Node | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [first] if second is None else [first, second]
    nodes = [*inputs, node("y", op, *(each.name for each in inputs))]
    monkeypatch.setattr(fold_module, "MAX_REPEATED", 4)
    assert ops(nodes)["y"] == "Const"
    monkeypatch.setattr(fold_module, "MAX_REPEATED", 3)
    assert ops(nodes)["y"] == op


def test_results_have_the_declared_dtype() -> None:
    folded = fold(Graph([const("a", [1, 2], dtypes.int8), node("n", "Size", "a", T=dtypes.int8)]))
    assert folded["n"].attrs["dtype"] is dtypes.int32
    assert folded["n"].attrs["value"].dtype == np.int32
