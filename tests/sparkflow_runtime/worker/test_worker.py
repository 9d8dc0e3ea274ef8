import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
)
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.protos.worker_pb2 import CompleteGroupRequest
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.transport import codec, rpc
from sparkflow_runtime.transport.peers import Peers
from sparkflow_runtime.transport.threads import DaemonThreads
from sparkflow_runtime.worker.loop import LoopEnd, LoopTerms, LoopUpdate
from sparkflow_runtime.worker.worker import Worker
from support.array_source import ArraySource
from support.graphs import const, node, variable

CPU = "/job:w/replica:0/task:0/device:CPU:0"
OTHER = "/job:w/replica:0/task:1/device:CPU:0"
WAIT_S = 20
KINDS: dict[str, Any] = {"output_types": [dtypes.float32], "output_shapes": [(None,)]}


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker("w", 0)
    made.sessions.create("s")
    yield made
    made.close()


def on(device: str, *nodes: Node) -> list[Node]:
    return [Node(n.name, n.op, n.inputs, n.control_inputs, device, n.attrs) for n in nodes]


def arg(name: str, index: int = 0) -> Node:
    return node(name, "_Arg", index=index)


def fetch(source: str, index: int = 0) -> Node:
    return node(f"fetch{index}", "_Retval", source, index=index)


def send(key: str, *inputs: str, to: str = OTHER) -> Node:
    types = [dtypes.float32] * len(inputs)
    return node(f"_send/{key}", "_SendBundle", *inputs, T=types, key=key, destination=to)


def receive(key: str, source: str = CPU) -> Node:
    return node(f"_recv/{key}", "_RecvBundle", T=[dtypes.float32], key=key, source=source)


def register(worker: Worker, *nodes: Node) -> Any:
    return worker.graph("s", worker.register("s", on(CPU, *nodes)))


def test_registered_graphs_run(worker: Worker) -> None:
    graph = register(worker, arg("x"), node("y", "Neg", "x"), fetch("y"))
    assert worker.run(graph, 1, [np.float32(2)]) == (-2,)
    assert worker.rendezvous._steps == {}  # no kernel asked for the step


def test_what_cannot_be_registered(worker: Worker) -> None:
    with pytest.raises(AbortedError, match="Session 'gone' does not exist on /job:w"):
        worker.register("gone", on(CPU, const("c", 1)))
    with pytest.raises(InvalidArgumentError, match="runs on one device"):
        worker.register("s", [*on(CPU, const("c", 1)), *on(OTHER, const("d", 1))])
    with pytest.raises(InvalidArgumentError, match="runs on one device"):
        worker.register("s", [])
    with pytest.raises(NotFoundError, match=f"no device {OTHER}; it has {CPU}"):
        worker.register("s", on(OTHER, const("c", 1)))
    with pytest.raises(NotFoundError, match="'Nonsense' is not registered"):
        worker.register("s", on(CPU, Node("n", "Nonsense")))
    with pytest.raises((UnimplementedError, OpError)):
        worker.register("s", on(CPU, node("y", "Neg", "missing")))
    with pytest.raises(AbortedError, match="Graph 's/99' is not registered"):
        worker.graph("s", "s/99")


def test_sessions_share_resources_and_forget_their_graphs(worker: Worker) -> None:
    worker.sessions.create("t")
    handle = worker.register(
        "t", on(CPU, variable("v"), const("c", 3.0), node("i", "Assign", "v", "c"))
    )
    worker.run(worker.graph("t", handle), 1, [])
    worker.deregister("t", handle)
    with pytest.raises(AbortedError):
        worker.graph("t", handle)
    worker.sessions.delete("t")
    worker.sessions.delete("t")
    with pytest.raises(AbortedError):
        worker.graph("t", handle)
    graph = register(worker, variable("v"), node("r", "Identity", "v"), fetch("r"))
    assert worker.run(graph, 2, []) == (3,)


def test_bundles_of_one_step_meet_in_this_task(worker: Worker) -> None:
    first = register(worker, const("c", [1, 2]), send("0-1-0-0", "c", to=CPU))
    second = register(worker, receive("0-1-0-0"), fetch("_recv/0-1-0-0"))
    threads = DaemonThreads(2, "test-worker")
    waiting = threads.submit(worker.run, second, 5, [])
    worker.run(first, 5, [])
    (value,) = waiting.result(WAIT_S)
    assert value.tolist() == [1, 2]
    worker.finish_step(5)
    with pytest.raises(AbortedError, match="Step 5 is over"):
        worker.run(first, 5, [])
    threads.shutdown()


def take(worker: Worker, step_id: int, key: str, iteration: int = 0) -> bytes:
    return worker.take_for_peer(worker.rendezvous.find(step_id), key, iteration, lambda: True)


def test_what_a_master_left_behind_goes_with_its_session(worker: Worker) -> None:
    # It died after the step had ended here, and before it reported that it may be forgotten.
    graph = worker.graph("s", worker.register("s", on(CPU, const("c", 1.0), send("k", "c"))))
    worker.run(graph, 5, [])
    assert worker.rendezvous.running() == [5]
    worker.sessions.delete("s")
    assert worker.rendezvous.running() == []


def test_a_sent_bundle_is_a_snapshot(worker: Worker) -> None:
    graph = register(
        worker,
        variable("v", (2,)),
        const("c", [1, 2]),
        node("init", "Assign", "v", "c"),
        node("read", "Identity", "v", after=["init"]),
        send("0-1-0-0", "read"),
        send("0-2-0-0", "read", to=CPU),
        node("more", "AssignAdd", "v", "c", after=["_send/0-1-0-0", "_send/0-2-0-0"]),
    )
    worker.run(graph, 1, [])
    assert codec.decode(take(worker, 1, "0-1-0-0"))[0].tolist() == [1, 2]  # type: ignore[index]
    assert worker.rendezvous.find(1).take("0-2-0-0", 0, WAIT_S)[0].tolist() == [1, 2]


def test_a_bundle_too_large_for_a_message_is_refused(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "MAX_MESSAGE_BYTES", 100)
    graph = register(worker, arg("x"), send("0-1-0-0", "x", "x"))
    worker.run(graph, 1, [np.zeros(2, np.float32)])
    assert len(take(worker, 1, "0-1-0-0")) < 100
    worker.run(graph, 2, [np.zeros(12, np.float32)])
    with pytest.raises(
        ResourceExhaustedError, match=r"2 tensors of 1\d\d bytes .* be sent from /job:"
    ):
        take(worker, 2, "0-1-0-0")


def test_a_failure_ends_the_step_for_peers_and_partitions(worker: Worker) -> None:
    bad = register(
        worker, variable("v"), node("r", "Identity", "v", _source="m.py:5"), send("0-1-0-0", "r")
    )
    waits = register(worker, receive("0-1-0-0"), fetch("_recv/0-1-0-0"))
    threads = DaemonThreads(3, "test-worker")
    waiting = [threads.submit(worker.run, waits, 3, []), threads.submit(take, worker, 3, "0-1-0-0")]
    with pytest.raises(FailedPreconditionError, match=r"m\.py:5"):
        worker.run(bad, 3, [])
    for future in waiting:
        error = future.exception(WAIT_S)
        assert isinstance(error, FailedPreconditionError)
        assert "m.py:5" in str(error)
    threads.shutdown()


def data_loop(worker: Worker, *more: Node) -> Any:
    return register(
        worker,
        node("data", "IteratorV2", shared_name="d", container="", **KINDS),
        node("x", "IteratorGetNext", "data", **KINDS),
        *more,
        fetch("x"),
    )


def test_loops_report_and_end(worker: Worker) -> None:
    worker.resources.put("", "d", ArraySource([np.arange(7, dtype=np.float32)], 2))
    graph = data_loop(worker)
    updates: list[LoopUpdate] = []
    assert worker.run_loop(graph, 1, [], LoopTerms(2, 10), updates.append) == LoopEnd(2)
    end = worker.run_loop(graph, 2, [], LoopTerms(None, 12), updates.append)
    assert end.num_steps == 2
    assert "End of sequence" in end.out_of_range
    assert updates[0].first_step == 10
    values = [row.tolist() for update in updates for row in update.values[0]]
    assert values == [[0, 1], [2, 3], [4, 5], [6]]
    assert [u.first_step for u in updates][-1] == 13  # the short batch is a separate update
    assert worker.run_loop(graph, 3, [], LoopTerms(), updates.append).num_steps == 0


def test_the_end_of_the_data_reaches_peers(worker: Worker) -> None:
    worker.resources.put("", "d", ArraySource([np.ones(2, np.float32)], 1))
    graph = data_loop(worker, send("0-1-0-0", "x"))
    threads = DaemonThreads(1, "test-worker")
    loop = threads.submit(worker.run_loop, graph, 1, [], LoopTerms(), lambda _: None)
    for iteration in range(2):
        assert codec.decode(take(worker, 1, "0-1-0-0", iteration)) is not None
    assert take(worker, 1, "0-1-0-0", 2) == codec.DEAD
    assert loop.result(WAIT_S).num_steps == 2
    threads.shutdown()


def test_a_loop_ends_where_the_master_says(worker: Worker) -> None:
    graph = register(worker, const("c", [1]), send("0-1-0-0", "c"))
    threads = DaemonThreads(1, "test-worker")
    loop = threads.submit(worker.run_loop, graph, 1, [], LoopTerms(), lambda _: None)
    for iteration in range(5):
        take(worker, 1, "0-1-0-0", iteration)
    worker.end_loop(1, 6)
    count = loop.result(WAIT_S).num_steps
    assert 5 <= count <= 8  # it may have been a few iterations ahead
    worker.end_loop(99, 1)
    threads.shutdown()


def test_a_stopped_loop_raises_what_it_was_stopped_with(worker: Worker) -> None:
    graph = register(worker, const("c", 1.0), node("y", "Neg", "c"), fetch("y"))
    threads, started = DaemonThreads(1, "test-worker"), threading.Event()
    loop = threads.submit(worker.run_loop, graph, 1, [], LoopTerms(), lambda _: started.set())
    assert started.wait(WAIT_S)
    worker.finish_step(1, CancelledError(message="enough"))
    with pytest.raises(CancelledError, match="enough"):
        loop.result(WAIT_S)
    threads.shutdown()


def test_an_end_of_data_outside_a_loop_is_an_error(worker: Worker) -> None:
    worker.resources.put("", "d", ArraySource([np.ones(1, np.float32)], 1))
    graph = data_loop(worker)
    assert worker.run(graph, 1, [])[0].tolist() == [1]
    with pytest.raises(OutOfRangeError, match=r"End of sequence(.|\n)*'x' .IteratorGetNext"):
        worker.run(graph, 2, [])


def test_closing_ends_what_runs_and_what_comes(worker: Worker) -> None:
    graph = register(worker, receive("0-1-0-0"))
    threads = DaemonThreads(2, "test-worker")
    waiting = [threads.submit(worker.run, graph, 1, []), threads.submit(take, worker, 2, "k")]
    worker.close()
    worker.close()
    for future in waiting:
        with pytest.raises(CancelledError, match="Task /job:w/replica:0/task:0 is shutting down"):
            future.result(WAIT_S)
    with pytest.raises(CancelledError, match="shutting down"):
        worker.run(graph, 3, [])
    threads.shutdown()


def test_cluster_changes_from_many_threads_leave_one_set_of_channels(worker: Worker) -> None:
    seen = []

    def connect(number: int) -> None:
        for _ in range(50):
            worker.connect(Peers({f"/job:w/replica:0/task:{number}": "127.0.0.1:1"}))
            seen.append(worker._peers)

    threads = [threading.Thread(target=connect, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not worker._peers._closed
    assert all(peers._closed for peers in seen if peers is not worker._peers)


def test_unknown_peers_are_named(worker: Worker) -> None:
    graph = register(worker, receive("0-1-0-0", OTHER))
    with pytest.raises(NotFoundError, match="task:1 is unknown: this task has no peers"):
        worker.run(graph, 1, [])


@pytest.mark.skipif(not SharedArena.available(), reason="needs memfd_create: Linux")
@pytest.mark.parametrize("isolate", [False, True])
def test_variables_of_every_session_lie_in_the_arena(isolate: bool) -> None:
    arena = SharedArena()
    worker = Worker("w", 0, arena=arena)
    worker.sessions.create("s", isolate=isolate)
    nodes = on(
        CPU,
        variable("v", (32, 64)),
        const("ones", np.ones((32, 64))),
        node("init", "Assign", "v", "ones"),
    )
    worker.run(worker.graph("s", worker.register("s", nodes)), 1, ())
    session = worker.sessions.find("s")
    resources = session.variables if isolate else worker.resources
    assert resources is not None
    array = resources.get("", "v", Variable).read()
    assert arena.locate(array) is not None
    worker.close()
    assert arena.locate(array) is None
    assert array.sum() == 32 * 64


@pytest.mark.parametrize("asked_before", [True, False])
def test_nobody_joins_a_group_on_a_task_that_was_closed(asked_before: bool) -> None:
    worker = Worker("w", 0)
    if asked_before:
        assert worker.groups() is worker.groups()
    worker.close()
    applicant = CompleteGroupRequest(group="g", group_size=2, rank=0, member="a")
    with pytest.raises(CancelledError, match="is shutting down"):
        worker.groups().table.join(applicant, WAIT_S, lambda: True)
