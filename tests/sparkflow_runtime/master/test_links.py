import threading
from collections.abc import Iterator

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import AbortedError, UnavailableError
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.master.links import MAX_ASKING, LocalLink, for_each
from sparkflow_runtime.master.running import RunningSteps
from sparkflow_runtime.worker.worker import Worker
from support.graphs import node

CPU = "/job:w/replica:0/task:0/device:CPU:0"


@pytest.fixture
def link() -> Iterator[LocalLink]:
    worker = Worker("w", 0)
    made = LocalLink(worker)
    yield made
    worker.close()
    made.close()


def on(*nodes: Node) -> list[Node]:
    return [Node(n.name, n.op, n.inputs, n.control_inputs, CPU, n.attrs) for n in nodes]


def test_a_partition_runs_in_this_thread_or_in_another_one(link: LocalLink) -> None:
    link.create_session("s")
    doubled = node("doubled", "AddV2", "x", "x", T=dtypes.float32)
    nodes = on(node("x", "_Arg", index=3), doubled, node("r", "_Retval", "doubled", index=5))
    handle = link.register("s", nodes, {})
    steps = RunningSteps([link])
    args = {3: np.float32([1.5])}
    step = steps.begin()
    here = link.run_here("s", handle, step, args)
    there = link.begin("s", handle, step, args).end(step)
    assert here.keys() == there.keys() == {5}
    np.testing.assert_array_equal(here[5], [3.0])
    np.testing.assert_array_equal(there[5], [3.0])


def test_a_session_that_was_deleted_runs_nothing(link: LocalLink) -> None:
    link.create_session("s")
    handle = link.register("s", on(node("n", "NoOp")), {})
    link.delete_session("s")
    with pytest.raises(AbortedError, match="Session 's' does not exist"):
        link.run_here("s", handle, RunningSteps([link]).begin(), {})


def test_answers_come_in_order_from_a_bounded_number_of_threads() -> None:
    threads: set[int] = set()

    def ask(number: int) -> int:
        threads.add(threading.get_ident())
        return number * number

    assert for_each(ask, range(1000)) == [number * number for number in range(1000)]
    assert 1 <= len(threads) <= MAX_ASKING
    assert threading.get_ident() not in threads


def test_one_is_asked_in_this_thread() -> None:
    assert for_each(lambda _: threading.get_ident(), ["one"]) == [threading.get_ident()]
    assert for_each(lambda _: 1, []) == []


def test_all_are_asked_at_once() -> None:
    together = threading.Barrier(8, timeout=20)
    assert sorted(for_each(lambda _: together.wait(), range(8))) == list(range(8))


def test_a_failure_does_not_wait_for_those_who_hang() -> None:
    hanging = threading.Event()

    def ask(number: int) -> bool:
        if number == 3:
            raise UnavailableError(message="task 3 cannot be reached")
        return hanging.wait(60)

    with pytest.raises(UnavailableError, match="task 3"):
        for_each(ask, range(5))
    hanging.set()
