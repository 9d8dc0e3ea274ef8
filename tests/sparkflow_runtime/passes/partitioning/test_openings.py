"""Which partitions of other tasks may be called together with the first bundle that they take."""

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.passes.partitioning.lend import lend
from sparkflow_runtime.passes.partitioning.openings import Opening, find_opening
from sparkflow_runtime.passes.partitioning.partition import partition
from support.graphs import const, node, placeholder, variable

PS = "/job:ps/replica:0/task:0/device:CPU:0"
OTHER_PS = "/job:ps/replica:0/task:1/device:CPU:0"
WORKER = "/job:w/replica:0/task:0/device:CPU:0"
BESIDE = "/job:w/replica:0/task:0/device:CPU:1"


def opening(*nodes: Node, of: str = PS) -> Opening | None:
    """Returns the opening of the partition of a device, as seen from the worker's."""
    parts = {part.device: part for part in lend(partition(Graph(nodes)))}
    return find_opening(parts[of], parts[WORKER])


def training(*extra: Node, read: str = "w/read", after: list[str] | None = None) -> list[Node]:
    """A worker's step: it reads `w`, computes a gradient, and the ps applies it."""
    return [
        variable("w", (2, 2), device=PS),
        node("w/read", "Identity", "w", device=PS, after=after or []),
        placeholder("x", (2, 2), device=WORKER),
        *extra,
        node("gradient", "MatMul", "x", read, device=WORKER),
        const("rate", 0.1, device=PS),
        node("train", "ApplyGradientDescent", "w", "rate", "gradient", device=PS),
    ]


def counting(*, after: list[str]) -> list[Node]:
    return [
        variable("count", (), device=PS),
        const("one", 1.0, device=PS),
        node("counted", "AssignAdd", "count", "one", device=PS, after=after),
    ]


def test_a_step_of_training_reads_and_brings_its_gradient() -> None:
    found = opening(*training())
    assert found is not None
    assert (len(found.reads), bool(found.brings)) == (1, True)


def test_the_bundle_with_which_it_ends_may_come_with_its_results() -> None:
    nodes = training(
        node("after", "Identity", "w", device=PS, after=["train"]),
        node("half", "Neg", "after", device=PS),
        node("got", "Neg", "half", device=WORKER),
    )
    parts = {part.device: part for part in lend(partition(Graph(nodes)))}
    sends = [each.attrs["key"] for each in parts[PS].nodes if each.op == "_SendBundle"]
    found = opening(*nodes)
    assert found is not None
    assert ([*found.reads], found.ends) == (sends[:1], sends[1])
    plain = opening(*training())
    assert plain is not None
    assert plain.ends == ""


def test_what_the_ps_does_after_the_gradient_does_not_matter() -> None:
    assert opening(*training(*counting(after=["train"]))) is not None


def test_nor_does_what_it_does_beside_as_the_order_puts_it_last() -> None:
    # It comes after the bundle that the partition waits for, wherever it is called from.
    parts = partition(Graph(training(*counting(after=[]))))
    ops = [each.op for part in parts if part.device == PS for each in part.nodes]
    expected = ops.index("AssignAdd") > ops.index("_RecvBundle")
    assert (opening(*training(*counting(after=[]))) is not None) == expected


def test_a_read_that_follows_a_change_comes_from_the_ps() -> None:
    assert opening(*training(*counting(after=[]), after=["counted"])) is None


def test_what_is_computed_from_a_variable_comes_from_the_ps() -> None:
    assert opening(*training(node("half", "Neg", "w/read", device=PS), read="half")) is None


def test_who_takes_something_first_need_not_send_anything() -> None:
    nodes = [
        variable("w", (2, 2), device=PS),
        placeholder("x", (2, 2), device=WORKER),
        node("y", "Neg", "x", device=WORKER),
        node("set", "Assign", "w", "y", device=PS),
    ]
    found = opening(*nodes)
    assert found is not None
    assert found.reads == ()


def test_who_takes_nothing_is_called_at_once() -> None:
    nodes = [
        variable("w", (2, 2), device=PS),
        node("w/read", "Identity", "w", device=PS),
        node("y", "Neg", "w/read", device=WORKER),
    ]
    assert opening(*nodes) is None


def test_who_gives_others_something_is_called_at_once() -> None:
    assert opening(*training(node("theirs", "Neg", "w/read", device=OTHER_PS))) is None
    assert opening(*training(node("theirs", "Neg", "w/read", device=BESIDE))) is None


def test_who_waits_for_another_first_is_called_at_once() -> None:
    nodes = training(
        variable("v", (2, 2), device=OTHER_PS),
        node("v/read", "Identity", "v", device=OTHER_PS),
        node("set", "Assign", "w", "v/read", device=PS),
        node("late", "Identity", "w", device=PS, after=["set"]),
        read="late",
    )
    assert opening(*nodes) is None


def test_what_may_wait_or_draws_comes_in_its_time() -> None:
    queue = [
        node("q", "FIFOQueueV2", device=PS, component_types=[dtypes.float32], capacity=3),
        node("taken", "QueueDequeueV2", "q", device=PS, component_types=[dtypes.float32]),
    ]
    assert opening(*training(*queue, after=["taken"])) is None


@pytest.mark.parametrize("device", [BESIDE])
def test_partitions_of_the_same_task_need_no_message(device: str) -> None:
    nodes = [
        variable("w", (2, 2), device=device),
        placeholder("x", (2, 2), device=WORKER),
        node("y", "Neg", "x", device=WORKER),
        node("set", "Assign", "w", "y", device=device),
    ]
    assert opening(*nodes, of=device) is None


def test_a_worker_that_takes_something_else_before_is_not_kept_waiting() -> None:
    nodes = training(
        const("big", np.zeros(1 << 15), device=PS),
        node("x2", "Neg", "big", device=WORKER),
        node("sum", "Sum", "x2", "axes", device=WORKER, Tidx=dtypes.int32, keep_dims=False),
        const("axes", [0], dtypes.int32, device=WORKER),
        node("more", "Mul", "sum", "x", device=WORKER),
        node("w2", "MatMul", "more", "w/read", device=WORKER),
        node("moved", "AssignAdd", "w", "w2", device=PS),
    )
    assert opening(*nodes) is None
