"""The master as seen by a foreign client: messages over gRPC, under both of its names."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    Code,
    FailedPreconditionError,
    InvalidArgumentError,
)
from sparkflow_runtime.master.service import SERVICE, TENSORFLOW_SERVICE
from sparkflow_runtime.protos import master_pb2
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport import rpc
from support.graphs import const, graph_def, node, placeholder, variable

Call = Callable[..., Any]

GRAPH = graph_def(
    placeholder("x", (2,)),
    variable("v", (2,)),
    const("one", [1, 1]),
    node("init", "Assign", "v", "one"),
    node("add", "AssignAdd", "v", "x"),
    node("read", "Identity", "v", _source="m.py:2"),
)
X = export_tensor(np.float32([2, 3]))
QUEUE = graph_def(
    node("q", "FIFOQueueV2", shared_name="q", component_types=[dtypes.float32]),
    node("item", "QueueDequeueV2", "q", component_types=[dtypes.float32]),
    node("size", "QueueSizeV2", "q"),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(0, 1, insecure=True) as made:
        yield made


@pytest.fixture(params=[SERVICE, TENSORFLOW_SERVICE])
def call(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[Call]:
    channel = rpc.channel(cluster.address("worker", 0))
    stub = rpc.Stub(channel, str(request.param), None, "The master")

    def call(name: str, **fields: Any) -> Any:
        message = getattr(master_pb2, f"{name}Request")(**fields)
        response = getattr(master_pb2, f"{name}Response")
        return stub.call(name, message, response.FromString, 30)

    yield call
    call("Reset")
    channel.close()


def test_the_life_of_a_session(call: Call) -> None:
    created = call("CreateSession", graph_def=GRAPH)
    handle, version = created.session_handle, created.graph_version
    call("RunStep", session_handle=handle, target=["init"])
    answer = call(
        "RunStep",
        session_handle=handle,
        feed=[{"name": "x:0", "tensor": X}],
        fetch=["add:0", "read:0"],
    )
    assert [item.name for item in answer.tensor] == ["add:0", "read:0"]
    assert [import_tensor(item.tensor).tolist() for item in answer.tensor] == [[3, 4], [3, 4]]
    more = graph_def(node("neg", "Neg", "read"))
    extension = {"session_handle": handle, "graph_def": more, "current_graph_version": version}
    assert call("ExtendSession", **extension).new_graph_version == version + 1
    stale = f"Current version is {version + 1} but caller expected {version}."
    with pytest.raises(AbortedError, match=stale):
        call("ExtendSession", **extension)
    answer = call("RunStep", session_handle=handle, fetch=["neg:0"])
    assert import_tensor(answer.tensor[0].tensor).tolist() == [-3, -4]
    devices = call("ListDevices", session_handle=handle).local_device
    assert [d.name for d in devices] == ["/job:worker/replica:0/task:0/device:CPU:0"]
    call("CloseSession", session_handle=handle)
    call("CloseSession", session_handle=handle)


def test_errors_go_into_the_answer_when_asked_for(call: Call) -> None:
    handle = call("CreateSession", graph_def=GRAPH).session_handle
    fields: dict[str, Any] = {"session_handle": handle, "fetch": ["read:0"]}
    answer = call("RunStep", store_errors_in_response_body=True, **fields)
    assert answer.status_code == Code.FAILED_PRECONDITION
    assert "uninitialized value v" in answer.status_error_message
    assert "m.py:2" in answer.status_error_message
    assert len(answer.tensor) == 0
    with pytest.raises(FailedPreconditionError) as info:
        call("RunStep", **fields)
    assert str(info.value) == answer.status_error_message


@pytest.mark.parametrize("name", ["ExtendSession", "RunStep", "MakeCallable", "ListDevices"])
def test_unknown_sessions_were_lost(call: Call, name: str) -> None:
    with pytest.raises(AbortedError, match="'gone' is not known here; the server may have res"):
        call(name, session_handle="gone")


def test_refused_graphs_leave_no_session(call: Call, cluster: LocalCluster) -> None:
    call("Reset")
    twice = graph_def(const("a", 1), const("a", 1))
    with pytest.raises(InvalidArgumentError, match="Node 'a' is not unique"):
        call("CreateSession", graph_def=twice)
    assert len(cluster.server("worker", 0).worker.sessions) == 0
    created = call("CreateSession", graph_def=GRAPH)
    with pytest.raises(AlreadyExistsError):
        call(
            "ExtendSession",
            session_handle=created.session_handle,
            graph_def=GRAPH,
            current_graph_version=created.graph_version,
        )


def test_callables(call: Call) -> None:
    handle = call("CreateSession", graph_def=GRAPH).session_handle
    call("RunStep", session_handle=handle, target=["init"])
    options = {"feed": ["x:0"], "fetch": ["add:0"]}
    number = call("MakeCallable", session_handle=handle, options=options).handle
    for expected in ([3, 4], [5, 7]):
        answer = call("RunCallable", session_handle=handle, handle=number, feed=[X])
        assert [import_tensor(tensor).tolist() for tensor in answer.fetch] == [expected]
    with pytest.raises(InvalidArgumentError, match="takes 1 fed values, got 2"):
        call("RunCallable", session_handle=handle, handle=number, feed=[X, X])
    call("ReleaseCallable", session_handle=handle, handle=number)
    with pytest.raises(InvalidArgumentError, match=f"No such callable handle: {number}"):
        call("RunCallable", session_handle=handle, handle=number, feed=[X])


def test_reset_closes_sessions_and_drops_variables(call: Call) -> None:
    handle = call("CreateSession", graph_def=GRAPH).session_handle
    call("RunStep", session_handle=handle, target=["init"])
    call("Reset", container=["another"])
    with pytest.raises(AbortedError):
        call("RunStep", session_handle=handle, fetch=["read:0"])
    handle = call("CreateSession", graph_def=GRAPH).session_handle
    call("RunStep", session_handle=handle, fetch=["read:0"])  # that container was not reset
    call("Reset")
    handle = call("CreateSession", graph_def=GRAPH).session_handle
    with pytest.raises(FailedPreconditionError):
        call("RunStep", session_handle=handle, fetch=["read:0"])


def test_sessions_share_variables(call: Call) -> None:
    handles = [call("CreateSession", graph_def=GRAPH).session_handle for _ in range(2)]
    call("RunStep", session_handle=handles[0], target=["init"])
    answer = call("RunStep", session_handle=handles[1], fetch=["read:0"])
    assert import_tensor(answer.tensor[0].tensor).tolist() == [1, 1]


def test_partial_runs(call: Call) -> None:
    handle = call("CreateSession", graph_def=GRAPH).session_handle
    call("RunStep", session_handle=handle, target=["init"])
    run = call(
        "PartialRunSetup", session_handle=handle, feed=["x:0"], fetch=["add:0"]
    ).partial_run_handle
    step = {"session_handle": handle, "partial_run_handle": run, "fetch": ["add:0"]}
    with pytest.raises(InvalidArgumentError, match="can't be computed from the feeds"):
        call("RunStep", **step)
    (answer,) = call("RunStep", feed=[{"name": "x:0", "tensor": X}], **step).tensor
    assert import_tensor(answer.tensor).tolist() == [3, 4]
    with pytest.raises(InvalidArgumentError, match="Must run 'setup'"):
        call("RunStep", **step)


def test_a_step_ends_when_its_client_goes_away(call: Call, cluster: LocalCluster) -> None:
    handle = call("CreateSession", graph_def=QUEUE).session_handle
    call("RunStep", session_handle=handle, fetch=["size:0"])
    channel = rpc.channel(cluster.address("worker", 0))
    stub = rpc.Stub(channel, SERVICE, None, "The master")
    request = master_pb2.RunStepRequest(session_handle=handle, fetch=["item:0"])
    blocked = stub.future("RunStep", request, master_pb2.RunStepResponse.FromString)
    rendezvous = cluster.server("worker", 0).worker.rendezvous
    pause = threading.Event()
    for _ in range(500):
        if rendezvous._steps:
            break
        pause.wait(0.02)
    assert len(rendezvous._steps) == 1
    blocked.cancel()
    channel.close()
    for _ in range(500):
        if not rendezvous._steps:
            break
        pause.wait(0.02)
    assert rendezvous._steps == {}


def test_closing_a_session_cancels_its_steps(call: Call, cluster: LocalCluster) -> None:
    handle = call("CreateSession", graph_def=QUEUE).session_handle
    call("RunStep", session_handle=handle, fetch=["size:0"])
    with grpc.insecure_channel(cluster.address("worker", 0)) as channel:
        stub = rpc.Stub(channel, SERVICE, None, "The master")
        request = master_pb2.RunStepRequest(session_handle=handle, fetch=["item:0"])
        blocked = stub.future("RunStep", request, master_pb2.RunStepResponse.FromString, 30)
        rendezvous = cluster.server("worker", 0).worker.rendezvous
        pause = threading.Event()
        for _ in range(500):
            if rendezvous._steps:
                break
            pause.wait(0.02)
        call("CloseSession", session_handle=handle)
        error = blocked.exception(30)
        assert error.code().value[0] == CancelledError.error_code
        assert error.details().startswith("Dequeue operation was cancelled")
