"""Every way in which a graph can be wrong, and the error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InternalError
from sparkflow_runtime.ir import verify
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import SOURCE_ATTR, Endpoint, Node
from sparkflow_runtime.ir.types import TensorType, infer_types
from sparkflow_runtime.ir.verify import verify_functions, verify_graph, verify_partitions
from support.graphs import const, node, placeholder

CPU, OTHER = "/device:CPU:0", "/device:CPU:1"


def graph() -> Graph:
    """y = exp(x + c), after c."""
    c = const("c", np.ones(3, np.float32))
    made = [placeholder("x", (None, 3)), c, node("sum", "Add", "x", "c"), node("y", "Exp", "sum")]
    return Graph([*made[:3], replace(made[3], control_inputs=("c",))])


def changed(name: str, **fields: Any) -> Graph:
    return Graph(replace(n, **fields) if n.name == name else n for n in graph())


def test_a_graph_that_is_right_passes() -> None:
    given = graph()
    verify_graph(given, "nothing", infer_types(given))
    placed = Graph(replace(each, device=CPU) for each in given)
    verify_graph(placed, "place", infer_types(given), is_placed=True)


def renamed() -> Graph:
    wrong = graph()
    wrong.nodes["other"] = wrong.nodes.pop("y")
    return wrong


FAULTS: dict[str, tuple[Callable[[], Graph], str]] = {
    "no input": (lambda: changed("y", inputs=(Endpoint("z", 0),)), "reads z:0, which does not"),
    "no output": (lambda: changed("y", inputs=(Endpoint("sum", 1),)), "Add has 1 outputs"),
    "no control input": (lambda: changed("y", control_inputs=("z",)), "waits for 'z', which does"),
    "cycle": (lambda: changed("sum", inputs=(Endpoint("y", 0), Endpoint("c", 0))), "for itself"),
    "control cycle": (lambda: changed("c", control_inputs=("y",)), "waits for itself"),
    "dtype": (lambda: changed("y", attrs={"T": dtypes.float64}), "has no type: .* float32"),
    "number of inputs": (lambda: changed("y", inputs=()), "has no type: Exp takes 1 inputs"),
    "name": (renamed, "is in the graph as 'other'"),
    "op": (lambda: changed("y", op="Nope"), "an op type that is not registered"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_named(name: str) -> None:
    make, text = FAULTS[name]
    with pytest.raises(InternalError, match=f"After the pass spoil: .*{text}"):
        verify_graph(make(), "spoil")


def test_the_error_shows_the_nodes_around_and_the_users_line() -> None:
    attrs = {"T": dtypes.float32, SOURCE_ATTR: "model.py:7"}
    wrong = changed("y", inputs=(Endpoint("sum", 3),), attrs=attrs)
    with pytest.raises(InternalError) as caught:
        verify_graph(wrong, "spoil")
    lines = str(caught.value).splitlines()
    assert "reads sum:3" in lines[0]
    assert "  sum = Add(x, c)" in lines
    assert "> y = Exp(sum:3, ^c)  defined at model.py:7" in lines
    assert lines[-1].strip() == "[[node 'y' (Exp), defined at model.py:7]]"


def test_no_more_than_ten_nodes_are_shown() -> None:
    chain = [placeholder("n0"), *(node(f"n{i}", "Exp", f"n{i - 1}") for i in range(1, 30))]
    chain[15] = replace(chain[15], control_inputs=("nobody",))
    with pytest.raises(InternalError) as caught:
        verify_graph(Graph(chain), "spoil")
    shown = [line for line in str(caught.value).splitlines() if "= Exp" in line]
    assert len(shown) == verify.SHOWN
    assert shown[5].startswith("> n15") or shown[4].startswith("> n15")


@pytest.mark.parametrize(
    ("dtype", "shape", "fault"),
    [
        (dtypes.float32, (None, 3), None),
        (dtypes.float32, None, None),  # more is known now
        (dtypes.float32, (2, 3), None),  # less is known now
        (dtypes.float32, (None, 4), "has the shape (?, 3) at y:0, was (?, 4)"),
        (dtypes.float64, (None, 3), "has float32 at y:0, was float64"),
    ],
)
def test_types_do_not_contradict_those_before(dtype: Any, shape: Any, fault: str | None) -> None:
    noted = {Endpoint("y", 0): TensorType(dtype, shape)}
    if fault is None:
        verify_graph(graph(), "retype", noted)
        return
    with pytest.raises(InternalError) as caught:
        verify_graph(graph(), "retype", noted)
    assert fault in str(caught.value)


def test_every_placed_node_has_a_device_and_handles_stay() -> None:
    with pytest.raises(InternalError, match="has no device"):
        verify_graph(graph(), "place", is_placed=True)
    nodes = [
        node("v", "VarHandleOp", device=CPU, dtype=dtypes.float32, shape=(3,)),
        node("read", "ReadVariableOp", "v", device=OTHER, dtype=dtypes.float32),
    ]
    with pytest.raises(InternalError, match=r"reads v:0 \(resource\), which is on another"):
        verify_graph(Graph(nodes), "place", is_placed=True)


def body(*extra: Node) -> Function:
    nodes = [node("a", "_Arg", index=0), node("e", "Exp", "a"), node("r", "_Retval", "e", index=0)]
    return Function("f", Graph([*nodes, *extra]))


def test_functions_that_are_called_are_there_and_right() -> None:
    call = node("x", "PartitionedCall", Tin=[], Tout=[], f="f")
    verify_functions(Graph([call]), {"f": body()}, "functions")
    with pytest.raises(InternalError, match="calls the function 'f', which does not exist"):
        verify_functions(Graph([call]), {}, "functions")
    twice = body(node("other", "_Retval", "e", index=0))
    with pytest.raises(InternalError, match="in function 'f': has the number 0, which is taken"):
        verify_functions(Graph([call]), {"f": twice}, "functions")


@dataclass
class Part:
    device: str
    nodes: list[Node]
    functions: dict[str, Function] = field(default_factory=dict)
    waits: bool = False


def send(key: str, source: str, **attrs: Any) -> Node:
    attrs = {"T": [dtypes.float32], "destination": OTHER, "lent": [], **attrs}
    return node(f"_send/{key}", "_SendBundle", source, device=CPU, key=key, **attrs)


def receive(key: str, **attrs: Any) -> Node:
    attrs = {"T": [dtypes.float32], "source": CPU, "lent": [], "behind": [], **attrs}
    return node(f"_recv/{key}", "_RecvBundle", device=OTHER, key=key, **attrs)


def parts(sends: Sequence[Node], receives: Sequence[Node]) -> list[Part]:
    return [
        Part(CPU, [node("a", "_Arg", device=CPU, index=0), *sends]),
        Part(OTHER, list(receives)),
    ]


def test_partitions_that_meet_pass() -> None:
    last = node("r", "_Retval", "_recv/k", device=OTHER, index=0)
    verify_partitions(parts([send("k", "a")], [receive("k"), last]), "partition", {})


UNMATCHED = {
    "nobody receives": ([send("k", "a")], [], "no node is the other end"),
    "nobody sends": ([], [receive("k")], "no node is the other end"),
    "twice": ([send("k", "a"), replace(send("k", "a"), name="s")], [], "as '_send/k' has"),
    "types": ([send("k", "a")], [receive("k", T=[dtypes.int32])], "do not agree on the bundle"),
    "lent": ([send("k", "a", lent=[0])], [receive("k")], "do not agree on the bundle 'k'"),
    "source": ([send("k", "a")], [receive("k", source=OTHER)], "do not agree on the bundle 'k'"),
    "order": ([node("e", "Exp", "f", device=CPU), node("f", "Exp", "a", device=CPU)], [], "f:0"),
    "device": ([node("e", "Exp", "a", device=OTHER)], [], "the partition of another device"),
    "results": ([node("r", "_Retval", "a", device=CPU, index=1)], [], "has the number 1"),
}


@pytest.mark.parametrize("name", UNMATCHED)
def test_partitions_that_do_not_meet_are_found(name: str) -> None:
    sends, receives, text = UNMATCHED[name]
    with pytest.raises(InternalError, match=f"After the pass partition.*{text}"):
        verify_partitions(parts(sends, receives), "partition", {})


def back(key: str) -> tuple[Node, Node]:
    """A bundle in the other direction."""
    sent = replace(send(key, "b", destination=CPU), device=OTHER)
    return sent, replace(receive(key, source=OTHER), device=CPU)


@pytest.mark.parametrize("waits", [False, True])
def test_partitions_that_wait_for_each_other_are_found(waits: bool) -> None:
    sent, received = back("l")
    b = node("b", "_Arg", device=OTHER, index=1)
    made = parts([received, send("k", "a")], [b, receive("k"), sent])
    for part in made:
        part.waits = waits  # then only what needs something waits for it
    if waits:
        verify_partitions(made, "partition", {})
        return
    with pytest.raises(InternalError, match="is waited for by another device that it waits for"):
        verify_partitions(made, "partition", {})
