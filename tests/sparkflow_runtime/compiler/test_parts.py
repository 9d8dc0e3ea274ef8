"""Where a partition can be suspended, and what its parts pass to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.parts import Parts, can_be_left, compile_parts
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.resources.parking import Parked, Visit
from sparkflow_runtime.resources.queue import Queue
from support.graphs import const, node, variable
from support.step import FakeStep

FLOATS = {"component_types": [dtypes.float32]}


@pytest.fixture
def context() -> Iterator[KernelContext]:
    resources, session = Resources(), Resources()
    yield KernelContext(np, "CPU", "/device:CPU:0", resources, session)
    resources.clear()
    session.clear()


def queue(name: str, capacity: int = -1) -> Node:
    return node(name, "FIFOQueueV2", **FLOATS, shapes=[()], capacity=capacity, shared_name=name)


def dequeue(name: str, source: str, after: Sequence[str] = ()) -> Node:
    return node(name, "QueueDequeueV2", source, after=after, **FLOATS)


def enqueue(name: str, target: str, source: str) -> Node:
    return node(name, "QueueEnqueueV2", target, source, Tcomponents=[dtypes.float32])


def fetch(source: str, index: int = 0) -> Node:
    return node(f"fetch{index}", "_Retval", source, index=index)


def made(context: KernelContext, *nodes: Node) -> Parts:
    assert can_be_left(nodes)
    parts = compile_parts(nodes, context)
    assert parts is not None
    return parts


def found(context: KernelContext, name: str) -> Queue:
    return context.resources.get_or_create("", name, Queue, lambda: pytest.fail("none"))


class Going:
    """Runs parts, as far as possible."""

    def __init__(self, parts: Parts, **args: Any) -> None:
        self.parts = parts
        self.values: dict[int, Any] = dict(args.get("args", {}))
        self.results: dict[int, Any] = {}
        self.number = 0
        self.visit = Visit()

    def go_on(self) -> bool:
        while self.number < len(self.parts.parts):
            part = self.parts.parts[self.number]
            try:
                values = part.run(self.visit, FakeStep(), self.values)
            except Parked:
                return False
            for index, value in zip(part.results, values, strict=True):
                if index < self.parts.num_results:
                    self.results[index] = value
                else:
                    self.values[self.parts.num_args + index - self.parts.num_results] = value
            self.number, self.visit = self.number + 1, Visit()
        return True


def put(queue: Queue, value: float) -> None:
    queue.enqueue([np.float32(value)], FakeStep())


def taken(queue: Queue) -> float:
    return float(queue.dequeue(FakeStep())[0])


def test_what_comes_before_a_wait_is_done_once(context: KernelContext) -> None:
    parts = made(
        context,
        variable("v"),
        const("zero", 0.0),
        const("one", 1.0),
        node("i", "Assign", "v", "zero"),
        node("add", "AssignAdd", "v", "one", after=["i"]),
        queue("q"),
        dequeue("d", "q", after=["add"]),
        node("read", "Identity", "v", after=["d"]),
        node("sum", "Add", "read", "d"),
        fetch("sum"),
    )
    assert len(parts.parts) == 2
    run = Going(parts)
    assert not run.go_on()
    assert not run.go_on()
    put(found(context, "q"), 5)
    assert run.go_on()
    assert run.results == {0: 6.0}


def test_ops_that_wait_one_after_the_other_are_one_part(context: KernelContext) -> None:
    parts = made(
        context,
        queue("p"),
        queue("q"),
        dequeue("first", "p"),
        const("c", 2.0, after=["first"]),
        dequeue("second", "q", after=["c"]),
        node("sum", "Add", "first", "second"),
        node("product", "Mul", "sum", "c"),
        fetch("product"),
    )
    assert len(parts.parts) == 1
    run = Going(parts)
    put(found(context, "p"), 3)
    assert not run.go_on()
    assert len(found(context, "p")) == 0
    put(found(context, "q"), 4)
    assert run.go_on()
    assert run.results == {0: 14.0}


def test_parts_give_each_other_what_they_have_computed(context: KernelContext) -> None:
    parts = made(
        context,
        node("x", "_Arg", index=0),
        const("two", 2.0),
        node("doubled", "Mul", "x", "two"),
        queue("p"),
        queue("full", capacity=1),
        dequeue("d", "p", after=["doubled"]),
        node("sum", "Add", "d", "doubled"),
        enqueue("e", "full", "sum"),
        node("again", "Add", "sum", "two", after=["e"]),
        fetch("again", 1),
        fetch("doubled", 0),
    )
    assert len(parts.parts) == 3
    assert [part.is_short for part in parts.parts] == [False, False, False]
    p, full = found(context, "p"), found(context, "full")
    put(full, 0)
    run = Going(parts, args={0: np.float32(5)})
    assert not run.go_on()
    put(p, 1)
    assert not run.go_on()
    assert taken(full) == 0
    assert run.go_on()
    assert run.results == {0: 10.0, 1: 13.0}
    assert taken(full) == 11


def test_what_a_part_read_of_a_variable_stays_as_it_was(context: KernelContext) -> None:
    nodes = [variable("v"), const("one", 1.0)]
    start = made(context, *nodes, node("i", "Assign", "v", "one"), queue("q"), dequeue("d", "q"))
    run = Going(start)
    assert not run.go_on()
    parts = made(
        context,
        *nodes,
        node("read", "Identity", "v"),
        queue("q"),
        dequeue("d", "q", after=["read"]),
        node("add", "AssignAdd", "v", "d"),
        node("after", "Identity", "v", after=["add"]),
        node("both", "Pack", "read", "after", N=2),
        fetch("both"),
    )
    put(found(context, "q"), 0)
    assert run.go_on()
    run = Going(parts)
    assert not run.go_on()
    put(found(context, "q"), 5)
    assert run.go_on()
    np.testing.assert_array_equal(run.results[0], [1, 6])


SHORT = [queue("q"), dequeue("d", "q"), fetch("d")]
CASES: list[tuple[Sequence[Node], bool, bool]] = [
    (SHORT, True, False),
    ([*SHORT[:2], node("y", "Neg", "d"), fetch("y")], False, True),
    ([const("c", 1.0), node("y", "Neg", "c"), queue("q"), enqueue("e", "q", "y")], False, False),
]


@pytest.mark.parametrize(("nodes", "is_short", "holds_up"), CASES)
def test_how_much_is_computed_and_when(
    nodes: Sequence[Node], is_short: bool, holds_up: bool, context: KernelContext
) -> None:
    parts = made(context, *nodes)
    assert parts.parts[0].is_short is is_short
    assert parts.parts[-1].is_short is (is_short or not holds_up)
    assert parts.holds_up is holds_up


def test_the_keys_of_bundles(context: KernelContext) -> None:
    about = {"T": [dtypes.float32]}
    parts = made(
        context,
        node("r", "_RecvBundle", **about, key="0-1", source="/device:CPU:1"),
        queue("q"),
        dequeue("d", "q", after=["r"]),
        node("s", "_SendBundle", "d", **about, key="1-0", destination="/device:CPU:1"),
    )
    assert (parts.received, parts.sent) == ({"0-1"}, {"1-0"})


NOT_LEFT = {
    "nothing waits": [const("c", 1.0), fetch("c")],
    "it waits for more": [
        *SHORT,
        node("s", "StringToNumber", "d"),
        node("st", "Unstage", dtypes=[dtypes.float32], shared_name="s"),
    ],
}


@pytest.mark.parametrize("name", NOT_LEFT)
def test_what_cannot_be_left(name: str) -> None:
    assert not can_be_left(NOT_LEFT[name])


def test_handles_and_strings_are_not_given(context: KernelContext) -> None:
    strings = {"component_types": [dtypes.string]}
    nodes = [
        node("q", "FIFOQueueV2", **strings, shapes=[()], shared_name="strings"),
        node("d", "QueueDequeueV2", "q", **strings),
        node("j", "StringJoin", "d", "d", N=2),
        node("e", "QueueEnqueueV2", "q", "j", Tcomponents=[dtypes.string]),
    ]
    assert can_be_left(nodes)
    assert compile_parts(nodes, context) is None
