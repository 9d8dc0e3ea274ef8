"""Calls whose runs are parked where they wait, as answered by a task."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    OpError,
    OutOfRangeError,
)
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.resources.conditional_accumulator import ConditionalAccumulator
from sparkflow_runtime.resources.queue import Queue
from sparkflow_runtime.worker import answering
from sparkflow_runtime.worker.answering import Run, pack_run
from sparkflow_runtime.worker.worker import Worker
from support.graphs import const, node, variable
from support.step import FakeStep

CPU = "/job:w/replica:0/task:0/device:CPU:0"
OTHER = "/job:w/replica:0/task:1/device:CPU:0"
FLOATS = {"component_types": [dtypes.float32]}
WAIT_S = 20


class Called:
    """A call, and its result."""

    def __init__(self, tasks: Worker, step_id: int, run: Run, args: Sequence[Any]) -> None:
        self.step_id = step_id
        self._answered = threading.Event()
        self._outcome: Any = None
        self.times = 0
        outcome = tasks.answering.call(step_id, pack_run(run), args, self._later)
        if outcome is not None:
            self._later(outcome)

    def _later(self, outcome: Any) -> None:
        self.times += 1
        self._outcome = outcome
        self._answered.set()

    @property
    def is_answered(self) -> bool:
        return self._answered.is_set()

    def results(self) -> list[Any]:
        assert self._answered.wait(WAIT_S)
        assert self.times == 1
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return list(self._outcome)


class Task:
    """A worker with a session, and calls of its partitions."""

    def __init__(self) -> None:
        self.worker = Worker("w", 0)
        self.worker.sessions.create("s")
        self._steps = iter(range(1, 1 << 20))

    def register(self, *nodes: Node) -> str:
        on = [Node(n.name, n.op, n.inputs, n.control_inputs, CPU, n.attrs) for n in nodes]
        return self.worker.register("s", on)

    def call(self, handle: str, *args: Any, **about: Any) -> Called:
        return Called(self.worker, next(self._steps), Run("s", handle, **about), args)

    def queue(self, name: str) -> Queue:
        return self.worker.resources.get_or_create("", name, Queue, lambda: pytest.fail("none"))

    def put(self, name: str, value: float) -> None:
        self.queue(name).enqueue([np.float32(value)], FakeStep())


@pytest.fixture
def task() -> Iterator[Task]:
    made = Task()
    yield made
    made.worker.close()


def queue(name: str, capacity: int = -1) -> Node:
    return node(name, "FIFOQueueV2", **FLOATS, shapes=[()], capacity=capacity, shared_name=name)


def dequeue(name: str, source: str, after: Sequence[str] = ()) -> Node:
    return node(name, "QueueDequeueV2", source, after=after, **FLOATS)


def enqueue(name: str, target: str, *values: str) -> Node:
    return node(name, "QueueEnqueueV2", target, *values, Tcomponents=[dtypes.float32])


def fetch(source: str, index: int = 0) -> Node:
    return node(f"fetch{index}", "_Retval", source, index=index)


def taking(task: Task, name: str = "q") -> str:
    return task.register(queue(name), dequeue("d", name), fetch("d"))


def giving(task: Task, *names: str) -> str:
    nodes: list[Node] = [node("x", "_Arg", index=0)]
    for name in names:
        nodes += [queue(name), enqueue(f"e_{name}", name, "x")]
    return task.register(*nodes)


def test_a_call_is_answered_when_another_one_gives_it_something(task: Task) -> None:
    taker = task.call(taking(task))
    assert not taker.is_answered
    assert task.call(giving(task, "q"), np.float32(5)).results() == []
    assert taker.results() == [5]


def test_no_thread_waits(task: Task) -> None:
    """300 calls wait for elements, and 300 for room in a full queue."""
    take = taking(task)
    fill = task.register(queue("full", 1), const("c", 1.0), enqueue("e", "full", "c"))
    before = threading.active_count()
    takers = [task.call(take) for _ in range(300)]
    fillers = [task.call(fill) for _ in range(301)]
    assert threading.active_count() == before
    assert [each.is_answered for each in fillers] == [True, *[False] * 300]
    give = giving(task, "q")
    drain = task.register(queue("full", 1), dequeue("d", "full"), fetch("d"))
    for number in range(300):
        task.call(give, np.float32(number))
        assert task.call(drain).results() == [1]
    assert [each.results() for each in takers] == [[number] for number in range(300)]
    assert all(each.results() == [] for each in fillers)


def test_a_chain_of_runs_is_continued_by_one_call(task: Task) -> None:
    """Like synchronous replicas: gradients, the chief's update, tokens for the replicas."""
    gradients = {"shared_name": "a", "dtype": dtypes.float32, "shape": ()}
    accumulator = node("a", "ConditionalAccumulator", **gradients)
    start = task.register(variable("v"), const("c", 0.0), node("i", "Assign", "v", "c"))
    task.call(start).results()
    replica = task.register(
        node("g", "_Arg", index=0),
        const("s", 0, dtypes.int64),
        accumulator,
        node("apply", "AccumulatorApplyGradient", "a", "s", "g"),
        queue("tokens"),
        dequeue("d", "tokens", after=["apply"]),
        variable("v"),
        node("now", "Identity", "v", after=["d"]),
        fetch("d"),
        fetch("now", 1),
    )
    chief = task.register(
        accumulator,
        const("two", 2, dtypes.int32),
        node("mean", "AccumulatorTakeGradient", "a", "two", dtype=dtypes.float32),
        variable("v"),
        node("add", "AssignAdd", "v", "mean"),
        node("read", "Identity", "v", after=["add"]),
        const("n", [2], dtypes.int32),
        node("fill", "Fill", "n", "read"),
        queue("tokens"),
        node("e", "QueueEnqueueManyV2", "tokens", "fill", Tcomponents=[dtypes.float32]),
    )
    leader = task.call(chief)
    first = task.call(replica, np.float32(3))
    assert not any(each.is_answered for each in (leader, first))
    before = threading.active_count()
    last = task.call(replica, np.float32(5))
    assert leader.is_answered
    assert [first.results(), last.results()] == [[4, 4], [4, 4]]
    assert threading.active_count() == before


def test_an_error_is_that_of_the_call_that_was_continued(task: Task) -> None:
    failing = task.call(
        task.register(
            queue("q"),
            dequeue("d", "q"),
            variable("never"),
            node("y", "Add", "d", "never"),
            fetch("y"),
        )
    )
    behind = task.call(taking(task))
    give = giving(task, "q")
    assert task.call(give, np.float32(1)).results() == []
    assert task.call(give, np.float32(2)).results() == []
    with pytest.raises(FailedPreconditionError, match="never"):
        failing.results()
    assert behind.results() == [2]


def test_the_end_of_a_step_ends_its_run_and_no_other(task: Task) -> None:
    take = taking(task)
    ended, deadline, aborted, other = (task.call(take) for _ in range(4))
    task.worker.finish_step(ended.step_id)
    with pytest.raises(AbortedError, match="is over"):
        ended.results()
    task.worker.finish_step(deadline.step_id, DeadlineExceededError(message="too late"))
    with pytest.raises(DeadlineExceededError, match="too late"):
        deadline.results()
    task.worker.answering.abandon(aborted.step_id)
    with pytest.raises(CancelledError, match="Dequeue operation was cancelled"):
        aborted.results()
    task.call(giving(task, "q"), np.float32(1))
    assert other.results() == [1]


def test_a_step_that_is_over_is_not_begun(task: Task) -> None:
    take = taking(task)
    task.worker.finish_step(1)
    with pytest.raises(AbortedError, match="is over"):
        task.call(take)
    assert task.worker._running == set()


def test_closing_the_queue_the_session_or_the_task_ends_runs(task: Task) -> None:
    of_queue = task.call(taking(task, "closed"))
    task.queue("closed").request_close(False, FakeStep())
    with pytest.raises(OutOfRangeError, match="is closed and has insufficient elements"):
        of_queue.results()
    task.worker.sessions.create("t")
    nodes = [queue("q"), dequeue("d", "q"), fetch("d")]
    on = [Node(n.name, n.op, n.inputs, n.control_inputs, CPU, n.attrs) for n in nodes]
    of_session = Called(task.worker, 1 << 30, Run("t", task.worker.register("t", on)), [])
    task.worker.sessions.delete("t")
    with pytest.raises(CancelledError):
        of_session.results()
    of_task = task.call(taking(task))
    task.worker.close()
    with pytest.raises(OpError):
        of_task.results()
    assert task.worker._running == set()


def test_a_bundle_comes_with_the_call_and_another_goes_with_its_answer(task: Task) -> None:
    about = {"T": [dtypes.float32]}
    handle = task.register(
        node("r", "_RecvBundle", **about, key="0-1", source=OTHER),
        queue("q"),
        enqueue("e", "q", "r"),
        queue("tokens"),
        dequeue("d", "tokens", after=["e"]),
        node("s", "_SendBundle", "d", **about, key="1-0", destination=OTHER),
    )
    called = task.call(handle, np.float32(7), brings="0-1", ends="1-0")
    assert not called.is_answered
    assert task.call(taking(task)).results() == [7]
    task.call(giving(task, "tokens"), np.float32(8))
    assert called.results() == [8]


def test_a_run_with_bundles_to_wait_for_waits_in_its_thread(task: Task) -> None:
    """It may do so after it has produced what others wait for."""
    about = {"T": [dtypes.float32]}
    handle = task.register(
        node("x", "_Arg", index=0),
        queue("q"),
        enqueue("e", "q", "x"),
        node("r", "_RecvBundle", **about, key="0-1", source=CPU),
        fetch("r"),
    )
    taker = task.call(taking(task))
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.extend(task.call(handle, np.float32(1)).results())
    )
    thread.start()
    assert taker.results() == [1]  # by another thread, while that one waits
    step = task.worker.rendezvous.running()[-1]
    task.worker.rendezvous.find(step).put("0-1", 0, (np.float32(9),))
    thread.join(WAIT_S)
    assert found == [9]


def test_what_computes_after_it_has_given_holds_nobody_up(task: Task) -> None:
    """The taker is answered though the giver is still computing."""
    taker = task.call(taking(task))
    inside, goes_on = threading.Event(), threading.Event()

    class Gate:
        """Waits when it is copied into an array."""

        def __array__(self, *args: Any, **attrs: Any) -> Any:
            inside.set()
            assert goes_on.wait(WAIT_S)
            return np.zeros((), np.float32)

    handle = task.register(
        node("x", "_Arg", index=0),
        node("gate", "_Arg", index=1),
        queue("q"),
        enqueue("e", "q", "x"),
        node("y", "Neg", "gate", after=["e"]),
        fetch("y"),
    )
    assert task.worker.graph("s", handle).parts().holds_up  # type: ignore[union-attr]
    thread = threading.Thread(target=lambda: task.call(handle, np.float32(1), Gate()))
    thread.start()
    assert inside.wait(WAIT_S)
    assert taker.results() == [1]
    goes_on.set()
    thread.join(WAIT_S)


def test_the_same_partition_runs_in_the_task_s_own_thread_too(task: Task) -> None:
    handle = taking(task)
    graph = task.worker.graph("s", handle)
    assert graph.parts() is not None
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(task.worker.run(graph, 1 << 20, [])))
    thread.start()
    parked = task.call(handle)
    give = giving(task, "q")
    for number in (1, 2):
        task.call(give, np.float32(number))
    thread.join(WAIT_S)
    assert sorted([*found, *parked.results()]) == [1, 2]


def test_calls_that_park_leave_no_garbage(task: Task) -> None:
    take, give = taking(task), giving(task, "q")

    def cycle() -> None:
        taker = task.call(take, alone=True)
        task.call(give, np.float32(1), alone=True)
        taker.results()

    for _ in range(5):
        cycle()
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            cycle()
        assert gc.collect() < 50
    finally:
        gc.enable()


def test_an_accumulator_that_is_dropped_ends_runs(task: Task) -> None:
    gradients = {"shared_name": "a", "dtype": dtypes.float32, "shape": ()}
    called = task.call(
        task.register(
            node("a", "ConditionalAccumulator", **gradients),
            const("n", 1, dtypes.int32),
            node("t", "AccumulatorTakeGradient", "a", "n", dtype=dtypes.float32),
            fetch("t"),
        )
    )
    found = task.worker.resources.get_or_create(
        "", "a", ConditionalAccumulator, lambda: pytest.fail("none")
    )
    found.close()
    with pytest.raises(AbortedError, match="was dropped by its task"):
        called.results()


class RandomPartition:
    """Ops on variables and queues in random order, each after the previous one.

    Args:
        seed: The seed of the choices.
        filled: The queues that elements are put into.
    """

    def __init__(self, seed: int, filled: Sequence[str]) -> None:
        choose = random.Random(seed)
        self.nodes: list[Node] = [node("x", "_Arg", index=0)]
        self.variables, self.queues = ["v", "w"], ["p", "q", "r"]
        self.nodes += [variable(name) for name in self.variables]
        self.nodes += [queue(name) for name in self.queues]
        self.wanted = dict.fromkeys(self.queues, 0)
        values, last = ["x"], ""
        for number in range(choose.randint(4, 14)):
            name, after = f"n{number}", [last] if last else []
            kind = choose.choice(["take", "take", "put", "add", "read", "const", "compute"])
            about: dict[str, Any] = {}
            if kind == "take":
                source = choose.choice(["p", "q"])
                self.wanted[source] += 1
                made = dequeue(name, source, after)
            elif kind == "put":
                op, about = "QueueEnqueueV2", {"Tcomponents": [dtypes.float32]}
                inputs = [choose.choice(filled), choose.choice(values)]
                made = node(name, op, *inputs, after=after, **about)
            elif kind == "add":
                inputs = [choose.choice(self.variables), choose.choice(values)]
                made = node(name, "AssignAdd", *inputs, after=after)
            elif kind == "read":
                made = node(name, "Identity", choose.choice(self.variables), after=after)
            elif kind == "const":
                made = const(name, float(number), after=after)
            else:
                op = choose.choice(["Add", "Mul", "Sub"])
                made = node(name, op, choose.choice(values), choose.choice(values), after=after)
            self.nodes.append(made)
            if kind in ("take", "read", "const", "compute"):
                values.append(name)
            last = name
        fetched = choose.sample(values, min(3, len(values)))
        self.nodes += [fetch(name, index) for index, name in enumerate(fetched)]

    def start(self, task: Task) -> str:
        """Initializes the variables; returns the handle of the partition."""
        for value, name in enumerate(self.variables, 2):
            about = variable(name), const("c", float(value)), node("i", "Assign", name, "c")
            task.call(task.register(*about)).results()
        return task.register(*self.nodes)

    def left(self, task: Task) -> tuple[Any, ...]:
        """Returns the variables and the contents of the queues, as far as the run got."""
        values: list[float] = []
        for name in self.variables:
            read = task.register(variable(name), node("r", "Identity", name), fetch("r"))
            values += [float(each) for each in task.call(read).results()]
        for name in self.queues:
            held = task.queue(name)
            values += [float(held.dequeue(FakeStep())[0]) for _ in range(len(held))]
        return tuple(values)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_random_partitions_give_what_they_give_in_one_piece(
    seed: int, waits: bool, task: Task
) -> None:
    """All elements exist before the run begins, or arrive one after another."""
    partition, whole = RandomPartition(seed, ["r"] if waits else ["p", "q", "r"]), Task()
    try:
        given = [(name, 10.0 * place + 1) for name in ("p", "q") for place in range(14)]
        random.Random(seed).shuffle(given)
        graph = whole.worker.graph("s", partition.start(whole))
        for name, value in given:
            whole.put(name, value)
        expected = whole.worker.run(graph, 1 << 20, [np.float32(0.5)])
        results = dict(zip(graph.program.results, expected, strict=True))
        handle = partition.start(task)
        parts = task.worker.graph("s", handle).parts()
        waiting = any(node.op.startswith("Queue") for node in partition.nodes)
        assert (parts is not None) == (waiting and graph.program.rehearse is None)
        waits = waits and parts is not None
        if not waits:
            for name, value in given:
                task.put(name, value)
        called = task.call(handle, np.float32(0.5))
        assert called.is_answered is not (waits and any(partition.wanted.values()))
        for name, value in given if waits else ():
            task.put(name, value)
        assert called.results() == [results[index] for index in sorted(results)]
        assert partition.left(task) == partition.left(whole)
    finally:
        whole.worker.close()


def forwarding() -> list[Node]:
    return [
        queue("in"),
        queue("out"),
        dequeue("got", "in"),
        enqueue("put", "out", "got"),
    ]


@pytest.fixture
def shortly(monkeypatch: pytest.MonkeyPatch) -> float:
    """The duration for which calls are repeated."""
    monkeypatch.setattr(answering, "REPEATED_S", 0.1)
    return 0.1


def taken(task: Task, count: int) -> list[float]:
    """Returns what comes out of the queue at the end."""
    return [float(task.queue("out").dequeue(FakeStep())[0]) for _ in range(count)]


def test_a_call_that_repeats_goes_on_where_it_waits(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "REPEATED_S", 1000)
    call = task.call(task.register(*forwarding()), repeats=True)
    threads = threading.active_count()
    for value in range(300):
        task.put("in", value)
        assert taken(task, 1) == [value]
    assert threading.active_count() < threads + 20  # a few spare ones continue it, not 300
    assert not call.is_answered


def test_a_call_that_repeats_is_answered_by_the_first_run_that_ends_late(
    task: Task, shortly: float
) -> None:
    call = task.call(task.register(*forwarding()), repeats=True)
    time.sleep(2 * shortly)
    assert not call.is_answered
    task.put("in", 7)
    assert taken(task, 1) == [7]
    assert call.results() == []
    task.put("in", 8)
    assert len(task.queue("out")) == 0  # nobody forwards it


def test_a_call_that_repeats_ends_with_what_fails(task: Task) -> None:
    handle = task.register(*forwarding())
    call = task.call(handle, repeats=True)
    task.put("in", 1)
    task.queue("in").request_close(False, FakeStep())
    with pytest.raises(OutOfRangeError, match="closed"):
        call.results()
    assert taken(task, 1) == [1]


@pytest.mark.parametrize("waits", [True, False])
def test_a_call_that_repeats_ends_with_its_step(
    task: Task, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "REPEATED_S", 1000)
    handle = task.register(*(forwarding() if waits else endless()))
    made: list[Called] = []
    thread = threading.Thread(target=lambda: made.append(task.call(handle, repeats=True)))
    thread.start()
    time.sleep(0.1)
    task.worker.finish_step(1, CancelledError(message="It was closed"))
    thread.join(WAIT_S)
    with pytest.raises(OpError):
        made[0].results()


def endless() -> list[Node]:
    return [queue("out"), const("one", 1.0), enqueue("put", "out", "one")]


def test_runs_that_never_wait_follow_one_another_without_nesting(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "REPEATED_S", 1.0)  # thousands of runs, also on a busy machine
    call = task.call(task.register(*endless()), repeats=True)
    assert call.results() == []
    assert len(task.queue("out")) > sys.getrecursionlimit()


def test_a_partition_that_holds_its_thread_is_repeated_too(task: Task, shortly: float) -> None:
    nodes = [
        variable("v", ()),
        const("zero", 0.0),
        const("one", 1.0),
        node("v/set", "Assign", "v", "zero"),
        node("v/more", "AssignAdd", "v", "one"),
    ]
    task.call(task.register(*nodes[:2], nodes[3])).results()
    task.call(task.register(nodes[0], nodes[2], nodes[4]), repeats=True).results()
    [value] = task.call(task.register(nodes[0], fetch("v"))).results()
    assert value > 100


def test_calls_that_repeat_leave_nothing_for_the_collector(task: Task, shortly: float) -> None:
    handle = task.register(*forwarding())

    def repeated() -> None:
        call = task.call(handle, repeats=True)
        while not call.is_answered:
            task.put("in", 1)
            time.sleep(0.001)

    repeated()
    gc.collect()
    gc.disable()
    try:
        repeated()
        assert gc.collect() < 20
    finally:
        gc.enable()
