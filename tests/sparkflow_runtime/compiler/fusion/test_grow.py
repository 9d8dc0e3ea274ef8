from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.kernel import Kernel
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.fusion.grow import grow_clusters
from sparkflow_runtime.compiler.known import find_known
from sparkflow_runtime.compiler.plan import Unit, make_units
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.node import Endpoint, Node
from support.graphs import const, node, variable
from support.interpreter import interpret
from support.plans import arg, fetch, new_context, planned

NATIVE = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


def clusters(nodes: Sequence[Node], *shapes: tuple[int, ...]) -> list[list[str]]:
    """Returns the names of the nodes that share a kernel."""
    given = {
        Endpoint(n.name, 0): shapes[n.attrs["index"]] for n in nodes if n.op == "_Arg" and shapes
    }
    found = grow_clusters(nodes, find_known(nodes, given), ())
    return [[n.name for n in each.nodes] for each in found]


def units(nodes: Sequence[Node], *shapes: tuple[int, ...]) -> list[Unit]:
    given = {Endpoint(n.name, 0): shapes[n.attrs["index"]] for n in nodes if n.op == "_Arg"}
    return make_units(nodes, find_known(nodes, given), lambda kernel, sizes: True)


def agrees(nodes: Sequence[Node], *args: Any) -> None:
    """Checks that the plan gives the same as the interpreter."""
    plan, program = planned(nodes, *args)
    results = dict(zip(program.results, plan(None, *args), strict=True))
    for index, value in interpret(nodes, new_context(), args).items():
        np.testing.assert_allclose(results[index], value, rtol=1e-5, atol=1e-6)


def test_a_chain_is_one_kernel() -> None:
    nodes = [arg("x", 0), node("a", "Exp", "x"), node("b", "Neg", "a"), fetch("b")]
    assert clusters(nodes, (3, 4)) == [["a", "b"]]


def test_other_work_in_between_does_not_part_them() -> None:
    nodes = [
        arg("x", 0),
        node("a", "Exp", "x"),
        node("m", "MatMul", "x", "x"),
        node("b", "Neg", "a"),
        node("c", "AddV2", "m", "b"),
        fetch("c"),
    ]
    assert clusters(nodes, (3, 3)) == [["a", "b", "c"]]


def test_a_node_that_waits_for_another_kernel_is_not_in_it_twice() -> None:
    nodes = [
        arg("x", 0),
        node("a", "Exp", "x"),
        node("m", "MatMul", "a", "a"),
        node("b", "AddV2", "a", "m"),
        fetch("b"),
    ]
    assert clusters(nodes, (3, 3)) == [["a"], ["b"]]  # the product separates them


def update_between(late_read: bool) -> list[Node]:
    return [
        arg("x", 0),
        variable("v", (3,)),
        node("a", "Mul", "v", "x"),
        node("up", "AssignAdd", "v", "x", after=["a"]),
        node("b", "Mul", "v", "x", after=["up"]) if late_read else node("b", "Exp", "x"),
        node("c", "Sub", "b", "a"),
        fetch("c"),
    ]


def test_a_kernel_never_passes_an_update_of_what_it_reads() -> None:
    for late_read in (True, False):
        for names in clusters(update_between(late_read), (3,)):
            assert not {"a", "b"} <= set(names)
    for reader in ("Reshape", "Identity"):
        extra: list[Node] = [const("shape", [3], dtypes.int32)] if reader == "Reshape" else []
        inputs = ["v", "shape"] if reader == "Reshape" else ["v"]
        nodes = [
            arg("x", 0),
            variable("v", (3,)),
            *extra,
            node("view", reader, *inputs),
            node("a", "Mul", "view", "x"),
            node("up", "AssignAdd", "v", "x", after=["a"]),
            node("z", "Exp", "x", after=["up"]),
            node("m", "Neg", "z"),
            node("c", "Sub", "m", "a"),
            fetch("c"),
        ]
        position = {n.name: number for number, n in enumerate(nodes)}
        given = {Endpoint("x", 0): (3,)}
        for each in grow_clusters(nodes, find_known(nodes, given), ()):
            if "a" in [n.name for n in each.nodes]:
                assert each.position < position["up"]


@NATIVE
def test_what_may_fail_waits_for_its_control_edges() -> None:
    nodes = [
        arg("x", 0),
        arg("labels", 1, T=dtypes.int32),
        arg("ok", 2, T=dtypes.bool_),
        node("logits", "Tanh", "x"),
        node("check", "Assert", "ok", "labels", T=[dtypes.int32]),
        node("both", "NoOp", after=["check"]),
        node(
            "loss",
            *("SparseSoftmaxCrossEntropyWithLogits", "logits", "labels"),
            Tlabels=dtypes.int32,
            after=["both"],
        ),
        node("n", "Neg", "loss"),
        fetch("n"),
    ]
    names = [unit.node.name for unit in units(nodes, (2, 3), (2,), ())]
    assert names.index("check") < names.index("n")  # the kernel is named after its last node
    x, labels = np.zeros((2, 3), np.float32), np.array([1, 3], np.int32)
    plan, _ = planned(nodes, x, labels, np.array(True))
    with pytest.raises(InvalidArgumentError, match="assertion failed"):
        plan(None, x, labels, np.array(False))
    with pytest.raises(InvalidArgumentError, match="label value of 3"):
        plan(None, x, labels, np.array(True))


def test_more_than_four_dimensions_and_empty_tensors_are_left_alone() -> None:
    nodes = [arg("x", 0), node("a", "Exp", "x"), node("b", "Neg", "a"), fetch("b")]
    assert clusters(nodes, (2, 2, 2, 2, 2)) == []
    assert clusters(nodes, (2, 1, 2, 1, 2, 1, 2)) == [["a", "b"]]
    assert clusters(nodes, (0, 2)) == []


def test_what_nobody_reads_is_left_alone() -> None:
    assert clusters([arg("x", 0), node("a", "Exp", "x")], (2,)) == []


def test_kernels_that_cannot_be_generated_become_nodes_again() -> None:
    nodes = [arg("x", 0), node("a", "Exp", "x"), node("b", "Neg", "a"), fetch("b")]
    asked: list[Kernel] = []

    def refuse(kernel: Kernel, sizes: tuple[int, ...]) -> bool:
        asked.append(kernel)
        return False

    made = make_units(nodes, find_known(nodes, {Endpoint("x", 0): (2,)}), refuse)
    assert [unit.node.name for unit in made] == ["x", "a", "b", "fetch0"]
    assert all(unit.fused is None for unit in made)
    assert len(asked) == 1


@NATIVE
def test_what_a_kernel_repeats_is_made_once_more_for_others() -> None:
    nodes = [
        arg("x", 0),
        arg("y", 1),
        const("shape", [4, 3], dtypes.int32),
        node("e", "Exp", "x"),
        node("wide", "BroadcastTo", "e", "shape"),
        node("z", "Mul", "wide", "y"),
        node("m", "MatMul", "wide", "z", transpose_a=True),
        fetch("z"),
        fetch("m", 1),
    ]
    names = [unit.node.name for unit in units(nodes, (3,), (4, 3))]
    assert names.count("wide") == 1
    assert names.index("wide") < names.index("m")
    agrees(nodes, np.float32([1, 2, 3]), np.ones((4, 3), np.float32))


@NATIVE
@pytest.mark.parametrize("axes", [[], [0], [1], [2], [0, 1], [1, 2], [0, 2], [-1], [0, 1, 2]])
@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
def test_reductions_over_every_set_of_axes(op: str, axes: list[int]) -> None:
    for keep_dims in (False, True):
        nodes = [
            arg("x", 0),
            const("axes", axes, dtypes.int32),
            node("e", "Tanh", "x"),
            node("r", op, "e", "axes", keep_dims=keep_dims),
            node("n", "Neg", "r"),
            *([node("d", "Sub", "e", "n")] if keep_dims else [node("d", "Exp", "n")]),
            fetch("d"),
            fetch("r", 1),
        ]
        for shape in ((2, 3, 4), (2, 1, 4), (1, 3, 1)):
            x = np.linspace(-2, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
            agrees(nodes, x)


@NATIVE
def test_casts_choices_and_rows_of_softmax_in_one_step() -> None:
    nodes = [
        arg("x", 0),
        const("zero", 0.0),
        node("positive", "Greater", "x", "zero"),
        node("number", "Cast", "positive", SrcT=dtypes.bool_, DstT=dtypes.float32),
        node("chosen", "SelectV2", "positive", "x", "number"),
        node("p", "Softmax", "chosen"),
        node("q", "LogSoftmax", "p"),
        node("wide", "Cast", "q", SrcT=dtypes.float32, DstT=dtypes.float64),
        fetch("wide"),
        fetch("p", 1),
        fetch("positive", 2),
    ]
    agrees(nodes, np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4))
    agrees(nodes, np.linspace(-2, 2, 3, dtype=np.float32).reshape(3, 1))


def lent_step(destination: str, view: str) -> list[Node]:
    """A kernel of a reader of a lent tensor, and of what follows after a bundle is sent."""
    ps, worker = "/job:ps/replica:0/task:0/device:CPU:0", "/job:w/replica:0/task:0/device:CPU:0"
    receive = node("w", "_RecvBundle", T=[dtypes.float32], key="0-1-0-0", source=ps, lent=[0])
    return [
        arg("x", 0),
        Node(receive.name, receive.op, attrs=receive.attrs, device=worker),
        node("view", view, "w"),
        node("used", "AddV2", "view", "x"),
        node("send", "_SendBundle", "x", T=[dtypes.float32], key="k", destination=destination),
        node("late", "MatMul", "x", "x"),
        node("after", "AddV2", "used", "late"),
        fetch("after"),
    ]


@pytest.mark.parametrize("view", ["Identity", "StopGradient"])
def test_no_use_of_a_lent_tensor_passes_a_bundle_to_who_lent_it(view: str) -> None:
    def used_with_after(destination: str) -> bool:
        nodes = lent_step(f"/job:{destination}/replica:0/task:0/device:CPU:0", view)
        given = {Endpoint(name, 0): (3, 3) for name in ("x", "w")}
        found = grow_clusters(nodes, find_known(nodes, given), ())
        return any({"used", "after"} <= {n.name for n in each.nodes} for each in found)

    assert used_with_after("other")
    assert not used_with_after("ps")
