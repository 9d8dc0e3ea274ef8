from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.program import compile_partition
from sparkflow_runtime.compiler.stages import Stages, split
from sparkflow_runtime.errors import OutOfRangeError
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.variable import Variable
from support.graphs import const, node, variable
from support.plans import arg, fetch, new_context
from support.step import FakeStep

FLOATS = [dtypes.float32]


def queue(name: str = "queue", shapes: Sequence[Any] = ()) -> Node:
    return node(
        name, "FIFOQueueV2", component_types=FLOATS, shapes=shapes, shared_name=name, capacity=8
    )


def dequeue(name: str = "data", after: Sequence[str] = ()) -> Node:
    return node(name, "QueueDequeueV2", "queue", component_types=FLOATS, after=after)


def enqueue(source: str, name: str = "put") -> Node:
    return node(name, "QueueEnqueueV2", "queue", source, Tcomponents=FLOATS)


def receive(name: str = "got", after: Sequence[str] = ()) -> Node:
    return node(name, "_RecvBundle", T=FLOATS, key=name, source="other", after=after)


def send(source: str, name: str = "give") -> Node:
    return node(name, "_SendBundle", source, T=FLOATS, key=name, destination="other")


def names(stages: Stages | None) -> list[str]:
    """Returns what the first stage does, without nodes that report places."""
    assert stages is not None
    return [n.name for n in stages.entry if n.op not in ("_Retval", "FIFOQueueV2", "Const", "_Arg")]


def test_what_is_dequeued_is_an_argument_of_the_rest() -> None:
    stages = split([arg("x", 0), queue(), dequeue(), node("y", "Mul", "data", "x"), fetch("y")], 1)
    assert stages is not None
    assert names(stages) == ["data"]
    assert stages.crossing == [Endpoint("data", 0)]
    assert [n.attrs["index"] for n in stages.rest if n.op == "_Arg"] == [1, 0]


def test_without_data_or_without_work_there_is_one_stage() -> None:
    assert split([arg("x", 0), node("y", "Neg", "x"), fetch("y")], 1) is None
    assert split([queue(), dequeue()], 0) is None
    known = [queue(shapes=[(2,)]), const("x", [1.0, 2.0]), enqueue("x")]
    assert split(known, 0) is None


def test_nothing_is_taken_before_what_comes_first_is_enqueued() -> None:
    nodes = [arg("x", 0), queue(), enqueue("x"), dequeue(), node("y", "Neg", "data"), fetch("y")]
    assert split(nodes, 1) is None
    program = compile_partition(nodes, new_context())
    for number in range(3):
        (y,) = program.run(FakeStep(), [np.full((2,), number, np.float32)])
        assert y.tolist() == [-number, -number]


def test_nothing_is_taken_before_what_comes_first_is_sent() -> None:
    work = [node("y", "Neg", "data"), fetch("y")]
    assert split([arg("x", 0), queue(), send("x"), dequeue(), *work], 1) is None
    assert names(split([arg("x", 0), queue(), dequeue(), send("x"), *work], 1)) == ["data"]


def reading(shape: tuple[int, ...]) -> list[Node]:
    """A step that sends a variable, then receives."""
    return [
        variable("v", shape),
        node("read", "Identity", "v"),
        send("read"),
        receive(),
        node("y", "AddV2", "got", "read"),
        fetch("y"),
    ]


def test_what_little_is_sent_first_is_sent_in_the_first_stage() -> None:
    stages = split(reading((1024,)), 0)
    assert names(stages) == ["v", "read", "give", "got"]
    assert stages is not None
    assert stages.crossing == [Endpoint("got", 0), Endpoint("read", 0)]
    assert [n.op for n in stages.rest if n.op == "_SendBundle"] == []


def test_large_variables_are_not_copied_for_that() -> None:
    assert split(reading((1025,)), 0) is None
    assert split(reading((None,)), 0) is None


def test_what_is_sent_first_is_sent_before_another_task_is_waited_for() -> None:
    sent_before: list[bool] = []

    class Step(FakeStep):
        def receive(self, key: str, source: str) -> tuple[Any, ...]:
            sent_before.append("give" in self.sent)
            return (np.full(2, 3, np.float32),)

    (y,) = compile_partition(reading((2,)), context()).run(Step(), ())
    assert sent_before == [True]
    assert y.tolist() == [4, 4]


@pytest.mark.parametrize("is_read_later", [False, True])
def test_the_first_stage_copies_what_the_rest_reads(is_read_later: bool) -> None:
    nodes = [
        variable("v", (2,)),
        node("read", "Identity", "v"),
        send("read"),
        receive(),
        node("update", "AssignAdd", "v", "got", T=dtypes.float32),
        node("y", "AddV2", "got", "read" if is_read_later else "got", after=["update"]),
        fetch("y"),
    ]
    held = made_variable()
    program = compile_partition(nodes, context(held))
    for number in (1, 2, 3):
        step = FakeStep()
        step.sent["got"] = (np.full(2, 3, np.float32),)
        before = held.array.copy()
        (y,) = program.run(step, ())
        assert y.tolist() == ((before + 3) if is_read_later else np.full(2, 6)).tolist()
        assert held.array.tolist() == [1 + 3 * number] * 2
        (sent,) = step.sent["give"]  # a real step has sent or copied it by now
        assert np.shares_memory(sent, held.array) is not is_read_later


def made_variable() -> Variable:
    held = Variable("v", dtypes.float32, (2,))
    held.array = np.ones(2, np.float32)
    return held


def context(held: Variable | None = None) -> KernelContext:
    """A place where the variable is one."""
    made = new_context()
    made.resources.put("", "v", held or made_variable())
    return made


def test_another_task_is_waited_for_in_its_turn_only() -> None:
    work = [node("y", "Neg", "got"), fetch("y")]
    assert names(split([receive(), *work], 0)) == ["got"]
    assert names(split([queue(), dequeue(), receive(), *work, send("data")], 0)) == ["data", "got"]
    assert split([arg("x", 0), node("z", "Neg", "x"), receive(), *work], 1) is None


def test_data_keep_their_order_and_control_edges() -> None:
    work = [node("y", "Sub", "a", "b"), fetch("y")]
    nodes = [queue(), dequeue("a"), dequeue("b", after=["a"]), *work]
    assert names(split(nodes, 0)) == ["a", "b"]
    late = [queue(), arg("x", 0), node("z", "Neg", "x"), dequeue("b", after=["z"])]
    assert split([*late, node("y", "Neg", "b"), fetch("y")], 1) is None


def test_the_end_of_data_ends_the_step_at_its_node() -> None:
    context = new_context()
    fill = compile_partition([arg("x", 0), queue(), enqueue("x")], context)
    close = compile_partition([queue(), node("close", "QueueCloseV2", "queue")], context)
    nodes = [queue(), dequeue(), node("y", "Neg", "data"), fetch("y")]
    program = compile_partition(nodes, context)
    for rows in (1, 2, 2, 2, 2):
        fill.run(FakeStep(), [np.arange(rows, dtype=np.float32)])
    close.run(FakeStep(), [])
    for rows in (1, 2, 2, 2, 2):
        (y,) = program.run(FakeStep(), [])
        assert y.tolist() == (-np.arange(rows)).tolist()
    statistics = program.statistics
    assert statistics is not None
    assert statistics.plans == 2  # for two rows, and for the one that is left
    for _ in range(2):
        with pytest.raises(OutOfRangeError) as caught:
            program.run(FakeStep(), [])
        assert caught.value.node_def == "data"


def test_the_rest_is_planned_for_the_shapes_of_what_was_received(plans_at_once: None) -> None:
    program = compile_partition([receive(), node("y", "Neg", "got"), fetch("y")], new_context())
    step = FakeStep()
    for rows in (1, 2, 2, 5):
        step.sent["got"] = (np.ones(rows, np.float32),)
        (y,) = program.run(step, [])
        assert y.tolist() == [-1] * rows
    assert program.statistics is not None
    assert (program.statistics.plans, program.statistics.planned) == (3, 4)
