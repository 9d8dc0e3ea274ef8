"""The loop of one partition: what it reports, its bounds, how it is held and ended."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import AbortedError, InvalidArgumentError
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.transport.threads import DaemonThreads
from sparkflow_runtime.worker import loop as loop_module
from sparkflow_runtime.worker.loop import LoopEnd, LoopTerms, LoopUpdate, stacked
from sparkflow_runtime.worker.worker import RegisteredGraph, Worker
from support.array_source import ArraySource
from support.graphs import const, node, variable

CPU = "/job:w/replica:0/task:0/device:CPU:0"
WAIT_S = 20


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker("w", 0)
    made.sessions.create("s")
    yield made
    made.close()


def register(worker: Worker, *nodes: Node) -> RegisteredGraph:
    placed = [Node(n.name, n.op, n.inputs, n.control_inputs, CPU, n.attrs) for n in nodes]
    return worker.graph("s", worker.register("s", placed))


def counting(worker: Worker, *more: Node) -> RegisteredGraph:
    """Counts in variable `count`; result 3 is the count, result 5 its negative."""
    zero = [variable("count"), const("zero", 0.0), node("init", "Assign", "count", "zero")]
    worker.run(register(worker, *zero), 1 << 50, [])
    return register(
        worker,
        variable("count"),
        const("one", 1.0),
        node("add", "AssignAdd", "count", "one"),
        node("less", "Neg", "add"),
        *more,
        node("fetch3", "_Retval", "add", index=3),
        node("fetch5", "_Retval", "less", index=5),
    )


def collect(updates: list[LoopUpdate], place: int) -> list[float]:
    return [row for update in updates for row in update.values[place].tolist()]


def test_a_loop_ends_after_the_step_that_reaches_a_bound(worker: Worker) -> None:
    graph = counting(worker)
    updates: list[LoopUpdate] = []
    terms = LoopTerms(100, 7, {3: 4.0, 5: 1.0, 9: 0.0})  # 9 belongs to another partition
    assert worker.run_loop(graph, 1, [], terms, updates.append) == LoopEnd(4)
    assert collect(updates, 0) == [1, 2, 3, 4]
    assert updates[0].first_step == 7
    assert worker.run_loop(graph, 2, [], LoopTerms(2, 0, {3: 100.0}), updates.append) == LoopEnd(2)


def test_nan_is_below_no_bound(worker: Worker) -> None:
    nodes = [const("three", 3.0), node("left", "Sub", "three", "add"), node("log", "Log", "left")]
    graph = counting(worker, *nodes, node("fetch7", "_Retval", "log", index=7))
    updates: list[LoopUpdate] = []
    terms = LoopTerms(None, 0, {7: float("inf")})
    # 3 - 4 is the first number without a logarithm; that of 0 is minus infinity.
    assert worker.run_loop(graph, 1, [], terms, updates.append).num_steps == 4
    assert np.isnan(collect(updates, graph.program.results.index(7))[-1])


def test_peers_hear_of_a_loop_that_reached_its_bound(worker: Worker) -> None:
    graph = counting(
        worker,
        node("_send", "_SendBundle", "add", T=[dtypes.float32], key="4-1-0-0", destination=CPU),
    )
    threads = DaemonThreads(1, "test-loop")
    done = threads.submit(
        worker.run_loop, graph, 1, [], LoopTerms(None, 0, {3: 2.0}), lambda _: None
    )
    rendezvous = worker.rendezvous.find(1)
    assert [rendezvous.take("4-1-0-0", turn, WAIT_S)[0] for turn in range(2)] == [1, 2]
    with pytest.raises(Exception, match="loop of a peer has ended"):
        rendezvous.take("4-1-0-0", 2, WAIT_S)
    assert done.result(WAIT_S) == LoopEnd(2)
    threads.shutdown()


def test_a_held_loop_waits_for_its_limit(worker: Worker) -> None:
    graph = counting(worker)
    threads, updates = DaemonThreads(1, "test-loop"), list[LoopUpdate]()
    begun = threading.Event()

    def listen(update: LoopUpdate) -> None:
        updates.append(update)
        begun.set()

    done = threads.submit(worker.run_loop, graph, 1, [], LoopTerms(), listen)
    assert begun.wait(WAIT_S)
    count = worker.hold_loop(1)
    assert count >= updates[0].num_steps
    assert worker.hold_loop(1) in (count, count + 1)  # it may have announced the one it waits for
    # Another partition of the step has begun three more: this one must follow.
    worker.end_loop(1, count + 3)
    assert done.result(WAIT_S) == LoopEnd(count + 3)
    assert collect(updates, 0)[-1] == count + 3
    threads.shutdown()


def test_a_loop_that_is_held_before_it_begins(worker: Worker) -> None:
    graph = counting(worker)
    assert worker.hold_loop(1) == 0
    threads = DaemonThreads(1, "test-loop")
    done = threads.submit(worker.run_loop, graph, 1, [], LoopTerms(), lambda _: None)
    worker.end_loop(1, 0)
    assert done.result(WAIT_S) == LoopEnd(0)
    worker.finish_step(1)
    with pytest.raises(AbortedError, match="Step 1 is over"):
        worker.hold_loop(1)
    threads.shutdown()


def test_a_held_loop_ends_with_its_step(worker: Worker) -> None:
    graph = counting(worker)
    worker.hold_loop(1)
    threads = DaemonThreads(1, "test-loop")
    done = threads.submit(worker.run_loop, graph, 1, [], LoopTerms(), lambda _: None)
    worker.finish_step(1)
    with pytest.raises(AbortedError, match="Step 1 is over"):
        done.result(WAIT_S)
    threads.shutdown()


def test_the_end_of_the_data_is_told_with_its_text(worker: Worker) -> None:
    kinds: dict[str, Any] = {"output_types": [dtypes.float32], "output_shapes": [(None,)]}
    worker.resources.put("", "d", ArraySource([np.ones(3, np.float32)], 1))
    graph = register(
        worker,
        node("data", "IteratorV2", shared_name="d", container="", **kinds),
        node("x", "IteratorGetNext", "data", **kinds),
    )
    end = worker.run_loop(graph, 1, [], LoopTerms(), lambda _: None)
    assert end.num_steps == 3
    assert "[[node 'x' (IteratorGetNext) on " in end.out_of_range


def test_an_error_tells_its_step(worker: Worker) -> None:
    kinds: dict[str, Any] = {"output_types": [dtypes.float32], "output_shapes": [(2,)]}
    worker.resources.put("", "d", ArraySource([np.ones(5, np.float32)], 2))
    graph = register(
        worker,
        node("data", "IteratorV2", shared_name="d", container="", **kinds),
        node("x", "IteratorGetNext", "data", **kinds),
        node("fetch", "_Retval", "x", index=0),
    )
    updates: list[LoopUpdate] = []
    with pytest.raises(InvalidArgumentError, match="in step 12 of a loop") as info:
        worker.run_loop(graph, 1, [], LoopTerms(None, 10), updates.append)
    assert str(info.value).count("in step") == 1
    assert sum(update.num_steps for update in updates) == 2


def test_large_results_are_reported_at_once(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "REPORT_INTERVAL_S", 1e9)
    graph = counting(worker)
    updates: list[LoopUpdate] = []
    worker.run_loop(graph, 1, [], LoopTerms(100), updates.append)
    assert [update.num_steps for update in updates] == [1, 99]  # the first one immediately
    monkeypatch.setattr(loop_module, "MAX_KEPT_BYTES", 24)  # three steps of two floats
    updates.clear()
    worker.run_loop(graph, 2, [], LoopTerms(100), updates.append)
    assert max(update.num_steps for update in updates) == 4
    assert collect(updates, 0) == list(range(101, 201))


@pytest.mark.parametrize(
    ("column", "dtype", "values"),
    [
        ([np.float32(1), np.float32(2)], np.float32, [1, 2]),
        ([np.array([1, 2]), np.array([3, 4])], np.int64, [[1, 2], [3, 4]]),
        ([b"a\0", b"b"], object, [b"a\0", b"b"]),
        ([np.array([b"a\0"], object)] * 2, object, [[b"a\0"], [b"a\0"]]),
        ([np.zeros((0, 3))] * 2, np.float64, [[], []]),
    ],
)
def test_values_are_stacked(column: list[Any], dtype: Any, values: list[Any]) -> None:
    found = stacked(column)
    assert found.dtype == dtype
    assert found.tolist() == values
