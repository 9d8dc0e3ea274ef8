import re

import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.passes.partitioning import bundles as bundles_module
from sparkflow_runtime.passes.partitioning.bundles import Splitting
from sparkflow_runtime.passes.partitioning.partition import partition
from support.graphs import const, node, placeholder, variable

A = "/job:a/replica:0/task:0/device:CPU:0"
B = "/job:b/replica:0/task:0/device:CPU:0"
C = "/job:c/replica:0/task:0/device:CPU:0"


def cut(*nodes: Node) -> dict[str, dict[str, Node]]:
    """Returns nodes by device and name, in execution order."""
    return {part.device: {n.name: n for n in part.nodes} for part in partition(Graph(nodes))}


def sent(nodes: dict[str, Node]) -> list[Node]:
    return [n for n in nodes.values() if n.op == "_SendBundle"]


def received(nodes: dict[str, Node]) -> list[Node]:
    return [n for n in nodes.values() if n.op == "_RecvBundle"]


def test_one_device_stays_whole() -> None:
    parts = cut(placeholder("x", device=A), node("y", "Neg", "x", device=A))
    assert list(parts) == [A]
    assert list(parts[A]) == ["x", "y"]


def test_what_crosses_together_travels_together() -> None:
    parts = cut(
        placeholder("x", device=A),
        placeholder("i", dtype=dtypes.int64, device=A),
        node("y", "Neg", "x", device=A),
        node("s", "AddV2", "x", "y", device=B),
        node("j", "Neg", "i", T=dtypes.int64, device=B),
        node("back", "Neg", "s", device=A),
    )
    (send,) = sent(parts[A])
    (receive,) = received(parts[B])
    assert send.attrs["key"] == receive.attrs["key"] == "0-1-0-0"
    assert (send.attrs["destination"], receive.attrs["source"]) == (B, A)
    assert set(send.inputs) == {Endpoint("x", 0), Endpoint("y", 0), Endpoint("i", 0)}
    types = dict(zip(send.inputs, send.attrs["T"], strict=True))
    assert types[Endpoint("i", 0)] is dtypes.int64
    assert receive.attrs["T"] == send.attrs["T"]
    slot = {endpoint: index for index, endpoint in enumerate(send.inputs)}
    assert parts[B]["s"].inputs == (
        Endpoint(receive.name, slot[Endpoint("x", 0)]),
        Endpoint(receive.name, slot[Endpoint("y", 0)]),
    )
    (send_back,) = sent(parts[B])
    assert send_back.attrs["key"] == "1-0-1-0"
    assert next(iter(parts[B])) == receive.name
    assert list(parts[A])[-1] == "back"


def test_levels_separate_bundles() -> None:
    parts = cut(
        placeholder("x", device=A),
        node("b1", "Neg", "x", device=B),
        node("a2", "Neg", "b1", device=A),
        node("b3", "AddV2", "a2", "x", device=B),
    )
    assert [n.attrs["key"] for n in sent(parts[A])] == ["0-1-0-0", "0-1-2-0"]
    assert [n.attrs["key"] for n in received(parts[B])] == ["0-1-0-0", "0-1-2-0"]
    assert len(sent(parts[B])) == 1


def _step(*more: Node, after: str = "w/read") -> dict[str, dict[str, Node]]:
    """A gradient of A's variable, computed on B and applied with a step number of B's."""
    return cut(
        variable("w", device=A),
        variable("step", device=B),
        node("w/read", "Identity", "w", device=A),
        node("step/read", "Identity", "step", device=B),
        node("gradient", "Neg", "w/read", after=[after], device=B),
        node("scaled", "Mul", "gradient", "step/read", device=A),
        node("update", "AssignAdd", "w", "scaled", device=A),
        *more,
    )


def test_what_is_needed_with_a_later_bundle_goes_along() -> None:
    changed = node("changed", "AssignAdd", "step", "w/read", device=B)
    for parts in (_step(), _step(changed)):
        (send,) = sent(parts[B])
        assert set(send.inputs) == {Endpoint("gradient", 0), Endpoint("step/read", 0)}
        (receive,) = received(parts[A])
        assert receive.attrs["key"] == send.attrs["key"]
    order = list(parts[B])
    assert order.index(send.name) < order.index("changed")


def test_what_is_needed_before_goes_by_itself() -> None:
    parts = _step(node("used", "Neg", "step/read", device=A))
    assert [each.inputs for each in sent(parts[B])] == [
        (Endpoint("step/read", 0),),
        (Endpoint("gradient", 0),),
    ]


def test_what_changes_before_the_later_bundle_goes_by_itself() -> None:
    changed = node("changed", "AssignAdd", "step", "w/read", device=B)
    parts = _step(changed, after="changed")
    first, second = sent(parts[B])
    assert (first.inputs, second.inputs) == (
        (Endpoint("step/read", 0),),
        (Endpoint("gradient", 0),),
    )
    order = list(parts[B])
    assert order.index(first.name) < order.index("changed") < order.index(second.name)


def test_a_tensor_goes_once_to_each_device() -> None:
    parts = cut(
        placeholder("x", device=A),
        node("b1", "Neg", "x", device=B),
        node("b2", "Neg", "x", device=B),
        node("c1", "Neg", "x", device=C),
    )
    assert [n.inputs for n in sent(parts[A])] == [(Endpoint("x", 0),)] * 2
    assert {n.attrs["destination"] for n in sent(parts[A])} == {B, C}


def test_values_read_before_an_update_are_sent_before_it() -> None:
    parts = cut(
        variable("v", device=A),
        placeholder("x", device=A),
        node("read", "Identity", "v", device=A),
        node("update", "AssignAdd", "v", "x", device=A),
        node("b1", "Neg", "read", device=B),
        node("b2", "Neg", "update", device=B),
    )
    order = list(parts[A])
    before, after = sent(parts[A])
    assert before.inputs == (Endpoint("read", 0),)
    assert after.inputs == (Endpoint("_read/b2/0", 0),)
    assert after.attrs["T"] == [dtypes.float32]
    assert order.index(before.name) < order.index("update") < order.index(after.name)


def test_only_waiting_crosses_without_tensors() -> None:
    parts = cut(
        variable("v", device=A),
        placeholder("x", device=A),
        node("update", "AssignAdd", "v", "x", device=A),
        node("after", "NoOp", after=["update"], device=B),
    )
    (send,) = sent(parts[A])
    (receive,) = received(parts[B])
    assert (send.inputs, send.control_inputs) == ((), ("update",))
    assert receive.attrs["T"] == []
    assert parts[B]["after"].control_inputs == (receive.name,)


def test_small_constants_are_copied_and_large_ones_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        const("c", [1, 2], device=A),
        placeholder("x", device=A),
        node("a1", "AddV2", "c", "x", device=A),
        placeholder("y", device=B),
        node("b1", "AddV2", "c", "y", device=B, after=["c"]),
    ]
    parts = cut(*nodes)
    assert [n.op for n in parts[B].values()].count("Const") == 1
    assert parts[B]["b1"].control_inputs == ()
    assert sent(parts[A]) == []
    monkeypatch.setattr(bundles_module, "MAX_COPIED_CONSTANT_BYTES", 7)
    parts = cut(*nodes)
    assert sent(parts[A])[0].inputs == (Endpoint("c", 0),)
    assert "c" not in parts[B]


def test_a_constant_read_elsewhere_only_makes_no_partition() -> None:
    parts = cut(
        const("c", 1, device=A), placeholder("x", device=B), node("y", "AddV2", "c", "x", device=B)
    )
    assert list(parts) == [B]


def test_updates_run_after_reads_of_their_level() -> None:
    parts = cut(
        variable("v", device=A),
        placeholder("x", device=A),
        node("update", "AssignAdd", "v", "x", device=A),
        node("read", "Identity", "v", device=A),
        node("ordered", "Identity", "v", after=["update"], device=A),
    )
    order = list(parts[A])
    assert order.index("read") < order.index("update") < order.index("ordered")


def test_a_variable_read_elsewhere_is_read_beside_it_in_the_reader_s_order() -> None:
    parts = cut(
        variable("v", device=A),
        placeholder("x", device=A),
        node("update", "AssignAdd", "v", "x", device=A),
        node("far", "Neg", "v", after=["update"], device=B, _source="m.py:7"),
        node("early", "Neg", "v", device=B),
    )
    order = [n.op if n.op == "_SendBundle" else n.name for n in parts[A].values()]
    assert order.index("_read/early/1") < order.index("update") < order.index("_read/far/0")
    read = parts[A]["_read/far/0"]
    assert (read.op, read.control_inputs, read.source) == ("Identity", ("update",), "m.py:7")
    assert [n.inputs for n in sent(parts[A])] == [
        (Endpoint("_read/early/1", 0),),
        (Endpoint("_read/far/0", 0),),
    ]


def test_handles_cannot_cross() -> None:
    kinds = {"output_types": [dtypes.float32], "output_shapes": [(None,)]}
    with pytest.raises(
        InvalidArgumentError, match=re.escape(f"data:0 is a resource handle on {A}")
    ):
        cut(
            node("data", "IteratorV2", shared_name="d", container="", device=A, **kinds),
            node("other", "Identity", "data", T=dtypes.resource, device=B),
        )


def test_what_has_a_later_turn_runs_and_is_sent_later() -> None:
    turns = {"first": 0, "second": 2}
    parts = cut(
        placeholder("x", device=A),
        *(node(name, "Neg", "x", device=A, _pipeline_turn=turn) for name, turn in turns.items()),
        *(
            node(f"{name}_there", "Abs", name, device=B, _pipeline_turn=turn + 1)
            for name, turn in turns.items()
        ),
        node("back", "Neg", "first_there", device=A, _pipeline_turn=3),
    )
    kinds = [n.name if n.op in ("Neg", "Abs") else n.op for n in parts[A].values()]
    there, back = ["first", "_SendBundle", "second", "_SendBundle"], ["_RecvBundle", "back"]
    assert kinds == ["Placeholder", *there, *back]
    assert [n.name for n in parts[B].values() if n.op == "Abs"] == ["first_there", "second_there"]


@pytest.mark.parametrize("is_pipeline", [True, False])
def test_stages_of_a_pipeline_know_the_shapes_that_do_not_change(is_pipeline: bool) -> None:
    turn = {"_pipeline_turn": 1} if is_pipeline else {}
    graph = Graph(
        [
            variable("w", (2, 3), device=A),
            placeholder("x", (None, 3), device=A),
            node("read", "AddV2", "w", "x", device=B, **turn),
            node("other", "Neg", "x", device=B, **turn),
        ]
    )
    splitting = Splitting(infer_types(graph), lambda source, destination: False)
    parts = {part.device: {n.name: n for n in part.nodes} for part in partition(graph, splitting)}
    (came,) = received(parts[B])
    shapes = came.attrs.get("shapes")
    assert shapes == ([(2, 3), None] if is_pipeline else None)
