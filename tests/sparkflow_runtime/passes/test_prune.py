import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint
from sparkflow_runtime.passes.prune import prune
from support.graphs import const, node, placeholder, variable

GRAPH = Graph(
    [
        placeholder("x", (None,), device="/cpu:0"),
        const("c", 1),
        variable("v"),
        node("sum", "AddV2", "x", "c", device="/job:w"),
        node("parts", "Unpack", "sum", num=2),
        node("both", "AddV2", "parts:0", "parts:1"),
        node("update", "AssignAdd", "v", "both"),
        node("waits", "NoOp", after=["x", "update"]),
        node("unused", "Neg", "sum"),
    ]
)


def names(graph: Graph) -> set[str]:
    return {n.name for n in graph}


def test_only_what_the_fetches_need_is_kept() -> None:
    pruned = prune(GRAPH, [], [Endpoint("sum", 0)], [])
    assert names(pruned) == {"x", "c", "sum", "_retval_0_sum_0"}
    fetch = pruned["_retval_0_sum_0"]
    assert fetch.attrs["index"] == 0
    assert fetch.attrs["T"] is dtypes.float32
    assert (fetch.device, fetch.colocated_with) == ("", ("sum",))


@pytest.mark.parametrize(
    ("fed", "kept"),
    [
        ("x:0", {"_arg_x_0", "c", "sum", "parts", "both"}),
        ("sum:0", {"_arg_sum_0", "parts", "both"}),
        ("parts:1", {"x", "c", "sum", "parts", "_arg_parts_1", "both"}),
        ("both:0", {"_arg_both_0"}),
        ("c:0", {"x", "_arg_c_0", "sum", "parts", "both"}),
    ],
)
def test_any_tensor_may_be_fed(fed: str, kept: set[str]) -> None:
    name, _, slot = fed.partition(":")
    pruned = prune(GRAPH, [Endpoint(name, int(slot))], [Endpoint("both", 0)], [])
    assert names(pruned) == kept | {"_retval_0_both_0"}
    arg = pruned[f"_arg_{name}_{slot}"]
    assert (arg.op, arg.device, arg.attrs["index"]) == ("_Arg", GRAPH[name].device, 0)


def test_targets_run_and_fetches_keep_their_order() -> None:
    fetches = [Endpoint("c", 0), Endpoint("v", 0), Endpoint("c", 0)]
    pruned = prune(GRAPH, [], fetches, ["update"])
    assert {"update", "v", "x"} <= names(pruned)
    found = sorted((n for n in pruned if n.op == "_Retval"), key=lambda n: n.attrs["index"])
    assert [n.inputs[0] for n in found] == fetches
    assert found[1].attrs["T"] is dtypes.float32  # not the reference's type


def test_a_fed_tensor_may_be_fetched_and_need_not_be_used() -> None:
    pruned = prune(GRAPH, [Endpoint("x", 0), Endpoint("v", 0)], [Endpoint("x", 0)], [])
    assert names(pruned) == {"_arg_x_0", "_arg_v_0", "_retval_0_x_0"}
    assert pruned["_retval_0_x_0"].inputs == (Endpoint("_arg_x_0", 0),)


def test_who_waits_for_a_fed_placeholder_does_not_run_it() -> None:
    pruned = prune(GRAPH, [Endpoint("x", 0)], [], ["waits", "x"])
    assert "x" not in names(pruned)
    assert pruned["waits"].control_inputs == ("_arg_x_0", "update")
    # Anything else that is fed still runs for nodes that wait for it.
    fed = prune(Graph([*GRAPH, node("w", "NoOp", after=["sum"])]), [Endpoint("sum", 0)], [], ["w"])
    assert {"sum", "x"} <= names(fed)


def test_names_of_added_nodes_are_free() -> None:
    graph = Graph([placeholder("x"), const("_arg_x_0", 1), node("s", "AddV2", "x", "_arg_x_0")])
    pruned = prune(graph, [Endpoint("x", 0)], [Endpoint("s", 0)], [])
    assert len(names(pruned)) == len(pruned) == 4


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(NotFoundError, match="no node 'gone'"):
        prune(GRAPH, [], [Endpoint("gone", 0)], [])
    with pytest.raises(NotFoundError, match="no node 'gone'"):
        prune(GRAPH, [], [], ["gone"])
    with pytest.raises(InvalidArgumentError, match=r"parts:2 .*'parts' \(Unpack\) has 2 outputs"):
        prune(GRAPH, [], [Endpoint("parts", 2)], [])
    with pytest.raises(InvalidArgumentError, match="waits:0 does not exist"):
        prune(GRAPH, [Endpoint("waits", 0)], [], ["update"])
