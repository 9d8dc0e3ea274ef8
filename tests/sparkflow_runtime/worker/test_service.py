"""The worker as seen by its peers and masters, over gRPC."""

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import AbortedError, InvalidArgumentError, OpError
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.protos import run_loop_pb2, worker_pb2
from sparkflow_runtime.server import Server
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor
from sparkflow_runtime.transport import codec, rpc
from sparkflow_runtime.transport.peers import WORKER_SERVICE
from sparkflow_runtime.worker.loop import LoopEnd, LoopUpdate
from sparkflow_runtime.worker.service import _Outbox
from support.graphs import const, graph_def, node
from support.waiting import wait_until

CPU = "/job:w/replica:0/task:0/device:CPU:0"
WAIT_S = 20


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(None, "w", 0, port=0, insecure=True)
    made.start()
    made.worker.sessions.create("s")
    yield made
    made.stop()


@pytest.fixture
def channel(server: Server) -> Iterator[grpc.Channel]:
    made = rpc.channel(server.address)
    yield made
    made.close()


@pytest.fixture
def stub(channel: grpc.Channel) -> rpc.Stub:
    return rpc.Stub(channel, WORKER_SERVICE, None, "The worker")


def register(stub: rpc.Stub, *nodes: Node) -> str:
    placed = [Node(n.name, n.op, n.inputs, n.control_inputs, CPU, n.attrs) for n in nodes]
    request = worker_pb2.RegisterGraphRequest(session_handle="s", graph_def=graph_def(*placed))
    answer = stub.call("RegisterGraph", request, worker_pb2.RegisterGraphResponse.FromString)
    return str(answer.graph_handle)


SENDS = [
    const("c", [1, 2]),
    node(
        "send",
        "_SendBundle",
        "c",
        T=[dtypes.float32],
        key="0-1-0-0",
        destination="/job:w/replica:0/task:1/device:CPU:0",
    ),
]
WAITS = [node("wait", "_RecvBundle", T=[dtypes.float32], key="1-0-0-0", source=CPU)]


def test_graphs_are_run_by_peers_and_bundles_taken(stub: rpc.Stub, server: Server) -> None:
    handle = register(
        stub,
        node("x", "_Arg", index=3),
        node("y", "Neg", "x"),
        *SENDS,
        node("fetch", "_Retval", "y", index=1),
    )
    request = worker_pb2.RunGraphRequest(session_handle="s", graph_handle=handle, step_id=1)
    with pytest.raises(InvalidArgumentError, match=r"lacks the fed arguments \[3\]"):
        stub.call("RunGraph", request, None)
    request.send.add(name="3", tensor=export_tensor(np.float32(4)))
    answer = stub.call("RunGraph", request, worker_pb2.RunGraphResponse.FromString)
    assert [(item.name, import_tensor(item.tensor)) for item in answer.recv] == [("1", -4)]
    taken = worker_pb2.RecvTensorRequest(step_id=1, rendezvous_key="0-1-0-0;0")
    decoded = codec.decode(stub.call("RecvTensor", taken, None))
    assert decoded is not None
    assert decoded[0].tolist() == [1, 2]
    cleanup = worker_pb2.CleanupGraphRequest(step_id=1)
    stub.call("CleanupGraph", cleanup, None)
    assert server.worker.rendezvous._steps == {}
    with pytest.raises(OpError, match="Step 1 is over"):
        stub.call("RecvTensor", taken, None)


@pytest.mark.parametrize("key", ["", "k", ";1", "k;", "k;-1", "k;x", "k;" + "9" * 5000])
def test_malformed_keys_are_refused(stub: rpc.Stub, key: str) -> None:
    request = worker_pb2.RecvTensorRequest(step_id=1, rendezvous_key=key)
    with pytest.raises(InvalidArgumentError, match="is not a rendezvous key"):
        stub.call("RecvTensor", request, None, WAIT_S)


def test_unknown_sessions_and_graphs_are_named(stub: rpc.Stub) -> None:
    for name, request in (
        ("RunGraph", worker_pb2.RunGraphRequest(session_handle="gone")),
        ("RegisterGraph", worker_pb2.RegisterGraphRequest(session_handle="gone")),
        ("DeregisterGraph", worker_pb2.DeregisterGraphRequest(session_handle="gone")),
    ):
        with pytest.raises(AbortedError, match="Session 'gone' does not exist"):
            stub.call(name, request, None)
    request = worker_pb2.RunGraphRequest(session_handle="s", graph_handle="s/7")
    with pytest.raises(AbortedError, match="Graph 's/7' is not registered"):
        stub.call("RunGraph", request, None)


def test_a_peer_that_gives_up_frees_its_thread_and_leaves_the_value(
    stub: rpc.Stub, server: Server
) -> None:
    request = worker_pb2.RecvTensorRequest(step_id=1, rendezvous_key="0-1-0-0;0")
    asked = stub.future("RecvTensor", request, None)
    steps = server.worker.rendezvous._steps
    wait_until(lambda: 1 in steps and len(steps[1]._ready._waiters) == 1, WAIT_S)  # type: ignore[attr-defined]
    asked.cancel()
    wait_until(lambda: not steps[1]._ready._waiters, WAIT_S)  # type: ignore[attr-defined]
    steps[1].put("0-1-0-0", 0, (np.float32(1),))
    assert codec.decode(stub.call("RecvTensor", request, None, WAIT_S)) == (1.0,)


@pytest.mark.parametrize("method", ["RunGraph", "RunLoop"])
def test_a_step_ends_with_the_call_of_its_master(
    stub: rpc.Stub, server: Server, method: str
) -> None:
    handle = register(stub, *WAITS)
    fields: dict[str, Any] = {"session_handle": "s", "graph_handle": handle, "step_id": 1}
    request = worker_pb2.RunGraphRequest(num_steps=5, **fields)
    call = (stub.stream if method == "RunLoop" else stub.future)(method, request, None)
    steps = server.worker.rendezvous._steps
    wait_until(lambda: 1 in steps and bool(steps[1]._ready._waiters), WAIT_S)  # type: ignore[attr-defined]
    call.cancel()
    wait_until(lambda: not steps, WAIT_S)
    wait_until(lambda: all(t.name != "step-loop" for t in threading.enumerate()), WAIT_S)


def test_loops_stream_their_results(stub: rpc.Stub) -> None:
    handle = register(stub, const("c", 2.0), node("fetch", "_Retval", "c", index=4))
    request = worker_pb2.RunGraphRequest(
        session_handle="s", graph_handle=handle, step_id=1, num_steps=100, first_step=5
    )
    updates = list(stub.stream("RunLoop", request, run_loop_pb2.RunLoopUpdate.FromString))
    assert updates[-1].end
    assert updates[-1].first_step == 100  # the number of complete steps
    assert updates[0].first_step == 5
    values = [import_tensor(update.value[0].tensor) for update in updates[:-1]]
    assert np.concatenate(values).tolist() == [2.0] * 100
    assert {update.value[0].name for update in updates[:-1]} == {"4"}


def _update(number: int) -> LoopUpdate:
    return LoopUpdate(number, 1, (), 0.0, 0.0)


def test_a_loop_waits_for_a_slow_listener_and_not_for_one_that_left() -> None:
    outbox = _Outbox()
    done = threading.Event()

    def produce() -> None:
        for number in range(200):
            outbox.put(_update(number))
        outbox.finish(LoopEnd(200))
        done.set()

    threading.Thread(target=produce, daemon=True).start()
    wait_until(lambda: len(outbox._updates) == 64, WAIT_S)
    assert not done.is_set()
    assert [update.first_step for update in outbox] == list(range(200))
    assert outbox.result() == LoopEnd(200)
    assert done.wait(WAIT_S)

    outbox, done = _Outbox(), threading.Event()
    threading.Thread(target=produce, daemon=True).start()
    wait_until(lambda: len(outbox._updates) == 64, WAIT_S)
    outbox.close()
    assert done.wait(WAIT_S)
    assert list(outbox) == []


def test_an_outbox_gives_its_error_after_its_updates() -> None:
    outbox = _Outbox()
    outbox.put(_update(0))
    outbox.finish(InvalidArgumentError(message="bad"))
    assert len(list(outbox)) == 1
    with pytest.raises(InvalidArgumentError, match="bad"):
        outbox.result()
