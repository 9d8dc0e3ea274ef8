"""WorkerService over gRPC: thin handlers around `Worker`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.function_def import import_function
from sparkflow_runtime.ir.graph_def import import_graph
from sparkflow_runtime.protos import (
    run_loop_pb2,
    worker_pb2,
    worker_session_pb2,
)
from sparkflow_runtime.protos.named_tensor_pb2 import NamedTensorProto
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor
from sparkflow_runtime.transport import protocol
from sparkflow_runtime.transport.rpc import Method
from sparkflow_runtime.transport.task_names import addresses
from sparkflow_runtime.worker.loop import LoopEnd, LoopTerms, LoopUpdate
from sparkflow_runtime.worker.sessions import MasterId
from sparkflow_runtime.worker.worker import RegisteredGraph, Worker

_QUEUED_UPDATES: Final = 64
"""Maximum size of updates that wait for a slow listener; beyond it the loop waits."""
_MAX_JOIN_S: Final = 86_400.0
_MAX_DIGITS: Final = 18
"""Maximum number of digits of an iteration."""


def methods(worker: Worker) -> Mapping[str, Method]:
    """Returns the rpc table of WorkerService for one worker."""
    service = _Service(worker)
    return {
        "GetStatus": Method(service.get_status, worker_pb2.GetStatusRequest),
        "CreateWorkerSession": Method(
            service.create_session, worker_pb2.CreateWorkerSessionRequest
        ),
        "KeepWorkerSession": Method(
            service.keep_session, worker_session_pb2.KeepWorkerSessionRequest
        ),
        "DeleteWorkerSession": Method(
            service.delete_session, worker_pb2.DeleteWorkerSessionRequest
        ),
        "RegisterGraph": Method(service.register_graph, worker_pb2.RegisterGraphRequest),
        "DeregisterGraph": Method(service.deregister_graph, worker_pb2.DeregisterGraphRequest),
        "RunGraph": Method(service.run_graph, worker_pb2.RunGraphRequest, wants_context=True),
        "RunLoop": Method(
            service.run_loop, worker_pb2.RunGraphRequest, streams=True, wants_context=True
        ),
        "HoldLoop": Method(service.hold_loop, run_loop_pb2.HoldLoopRequest),
        "EndLoop": Method(service.end_loop, run_loop_pb2.EndLoopRequest),
        "CleanupGraph": Method(service.cleanup_graph, worker_pb2.CleanupGraphRequest),
        "CleanupAll": Method(service.cleanup_all, worker_pb2.CleanupAllRequest),
        "CompleteGroup": Method(
            service.complete_group, worker_pb2.CompleteGroupRequest, wants_context=True
        ),
        "RecvTensor": Method(service.recv_tensor, worker_pb2.RecvTensorRequest, wants_context=True),
    }


class _Service:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def get_status(self, _: Any) -> worker_pb2.GetStatusResponse:
        address = self._worker.channel_address
        return worker_pb2.GetStatusResponse(
            device_attributes=self._worker.describe_devices(),
            incarnation=self._worker.incarnation,
            channel_address=None if address is None else address.export(),
            protocol=protocol.own(),
        )

    def create_session(self, request: Any) -> worker_pb2.CreateWorkerSessionResponse:
        self._worker.learn(addresses(request.server_def.cluster))
        self._worker.sessions.create(
            request.session_handle,
            isolate=request.isolate_session_state,
            master=MasterId(request.master_task, request.master_incarnation),
            lease_s=request.lease_ms / 1000 if request.lease_ms > 0 else None,
        )
        return worker_pb2.CreateWorkerSessionResponse()

    def keep_session(self, request: Any) -> worker_session_pb2.KeepWorkerSessionResponse:
        self._worker.sessions.keep(request.session_handle)
        return worker_session_pb2.KeepWorkerSessionResponse()

    def delete_session(self, request: Any) -> worker_pb2.DeleteWorkerSessionResponse:
        self._worker.sessions.delete(request.session_handle)
        return worker_pb2.DeleteWorkerSessionResponse()

    def register_graph(self, request: Any) -> worker_pb2.RegisterGraphResponse:
        nodes = list(import_graph(request.graph_def))
        library = map(import_function, request.graph_def.library.function)
        functions = {function.name: function for function in library}
        handle = self._worker.register(request.session_handle, nodes, functions)
        return worker_pb2.RegisterGraphResponse(graph_handle=handle)

    def deregister_graph(self, request: Any) -> worker_pb2.DeregisterGraphResponse:
        self._worker.deregister(request.session_handle, request.graph_handle)
        return worker_pb2.DeregisterGraphResponse()

    def run_graph(self, request: Any, context: Any) -> worker_pb2.RunGraphResponse:
        graph = self._worker.graph(request.session_handle, request.graph_handle)
        args = _args(graph, request.send)
        ended = self._end_without_master(request.step_id, context)
        response = worker_pb2.RunGraphResponse()
        record = None
        if request.exec_opts.record_timeline:
            record = response.step_stats.dev_stats.append
        try:
            results = self._worker.run(graph, request.step_id, args, record)
        finally:
            ended()
        for index, value in zip(graph.program.results, results, strict=True):
            response.recv.add(name=str(index), tensor=export_tensor(value))
        return response

    def run_loop(self, request: Any, context: Any) -> Iterator[run_loop_pb2.RunLoopUpdate]:
        graph = self._worker.graph(request.session_handle, request.graph_handle)
        args = _args(graph, request.send)
        terms = LoopTerms(
            None if request.until_end_of_data else max(1, request.num_steps),
            request.first_step,
            {each.index: each.bound for each in request.bound},
        )
        outbox = _Outbox()

        def run() -> None:
            try:
                end = self._worker.run_loop(graph, request.step_id, args, terms, outbox.put)
            except Exception as error:
                outbox.finish(error)
            else:
                outbox.finish(end)

        ended = self._end_without_master(request.step_id, context, outbox.close)
        threading.Thread(target=run, name="step-loop", daemon=True).start()
        try:
            yield from (_update(graph, update) for update in outbox)
        finally:
            ended()
        end = outbox.result()
        yield run_loop_pb2.RunLoopUpdate(
            first_step=end.num_steps, end=True, end_reason=end.out_of_range
        )

    def hold_loop(self, request: Any) -> run_loop_pb2.HoldLoopResponse:
        return run_loop_pb2.HoldLoopResponse(num_begun=self._worker.hold_loop(request.step_id))

    def end_loop(self, request: Any) -> run_loop_pb2.EndLoopResponse:
        self._worker.end_loop(request.step_id, request.num_steps)
        return run_loop_pb2.EndLoopResponse()

    def cleanup_graph(self, request: Any) -> worker_pb2.CleanupGraphResponse:
        self._worker.finish_step(request.step_id)
        return worker_pb2.CleanupGraphResponse()

    def cleanup_all(self, request: Any) -> worker_pb2.CleanupAllResponse:
        self._worker.resources.clear(tuple(request.container))
        return worker_pb2.CleanupAllResponse()

    def complete_group(self, request: Any, context: Any) -> worker_pb2.CompleteGroupResponse:
        table = self._worker.groups().table
        context.add_callback(table.wake)
        timeout_s = min(max(0.0, request.timeout_s), _MAX_JOIN_S)
        number = table.join(request, timeout_s, context.is_active)
        return worker_pb2.CompleteGroupResponse(number=number)

    def recv_tensor(self, request: Any, context: Any) -> bytes:
        key, _, iteration = request.rendezvous_key.rpartition(";")
        if not key or not iteration.isdecimal() or len(iteration) > _MAX_DIGITS:
            raise InvalidArgumentError(
                message=f"{request.rendezvous_key[:80]!r} is not a rendezvous key ('key;iteration')"
            )
        rendezvous = self._worker.rendezvous.find(request.step_id)
        # A peer that no longer waits must neither hold a thread here nor consume the value.
        context.add_callback(rendezvous.wake)
        return self._worker.take_for_peer(rendezvous, key, int(iteration), context.is_active)

    def _end_without_master(
        self, step_id: int, context: Any, then: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Ends a step if its rpc ends before the returned function is called: no master is left."""
        ended = threading.Event()

        def gone() -> None:
            if ended.is_set():
                return
            self._worker.abandon_step(step_id)
            if then is not None:
                then()

        if not context.add_callback(gone):
            gone()
        return ended.set


class _Outbox:
    """A queue of a loop's updates for a listener. `_changed` guards all fields."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._updates: deque[LoopUpdate] = deque()
        self._closed = False
        self._result: LoopEnd | Exception | None = None

    def put(self, update: LoopUpdate) -> None:
        """Adds an update; waits for room. Drops it if the listener has left."""
        with self._changed:
            while len(self._updates) >= _QUEUED_UPDATES and not self._closed:
                self._changed.wait()
            if not self._closed:
                self._updates.append(update)
                self._changed.notify_all()

    def finish(self, result: LoopEnd | Exception) -> None:
        """Records how the loop ended."""
        with self._changed:
            self._result = result
            self._changed.notify_all()

    def close(self) -> None:
        """Records that the listener has left."""
        with self._changed:
            self._closed = True
            self._updates.clear()
            self._changed.notify_all()

    def __iter__(self) -> Iterator[LoopUpdate]:
        """Yields the updates until the loop has ended."""
        while True:
            with self._changed:
                while not self._updates and self._result is None:
                    self._changed.wait()
                if not self._updates:
                    return
                update = self._updates.popleft()
                self._changed.notify_all()
            yield update

    def result(self) -> LoopEnd:
        """Returns how the loop ended.

        Raises:
            Exception: The error it ended with.
        """
        assert self._result is not None
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def _args(graph: RegisteredGraph, sent: Any) -> list[Any]:
    """Returns the fed values in the order of the program's parameters."""
    given = {item.name: item.tensor for item in sent}
    missing = [index for index in graph.program.args if str(index) not in given]
    if missing:
        raise InvalidArgumentError(message=f"The step lacks the fed arguments {missing}")
    return [import_tensor(given[str(index)]) for index in graph.program.args]


def _update(graph: RegisteredGraph, update: LoopUpdate) -> run_loop_pb2.RunLoopUpdate:
    return run_loop_pb2.RunLoopUpdate(
        first_step=update.first_step,
        num_steps=update.num_steps,
        waited_s=update.waited_s,
        elapsed_s=update.elapsed_s,
        value=[
            NamedTensorProto(name=str(index), tensor=export_tensor(value))
            for index, value in zip(graph.program.results, update.values, strict=True)
        ],
    )
