"""WorkerService over gRPC: thin handlers around `Worker`."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from sparkflow_runtime.errors import CancelledError, InvalidArgumentError
from sparkflow_runtime.ir.graph_def import import_graph
from sparkflow_runtime.ir.tensor_proto import export_tensor, import_tensor
from sparkflow_runtime.protos import device_attributes_pb2, run_loop_pb2, worker_pb2
from sparkflow_runtime.protos.named_tensor_pb2 import NamedTensorProto
from sparkflow_runtime.transport.rpc import Method
from sparkflow_runtime.worker.step import LoopUpdate
from sparkflow_runtime.worker.worker import RegisteredGraph, Worker

_QUEUED_UPDATES = 64
"""Updates of a loop wait for a slow listener up to here; then the loop waits."""


def methods(worker: Worker) -> Mapping[str, Method]:
    """The rpc table of WorkerService for one worker."""
    service = _Service(worker)
    return {
        "GetStatus": Method(service.get_status, worker_pb2.GetStatusRequest),
        "CreateWorkerSession": Method(
            service.create_session, worker_pb2.CreateWorkerSessionRequest
        ),
        "DeleteWorkerSession": Method(
            service.delete_session, worker_pb2.DeleteWorkerSessionRequest
        ),
        "RegisterGraph": Method(service.register_graph, worker_pb2.RegisterGraphRequest),
        "DeregisterGraph": Method(service.deregister_graph, worker_pb2.DeregisterGraphRequest),
        "RunGraph": Method(service.run_graph, worker_pb2.RunGraphRequest),
        "RunLoop": Method(
            service.run_loop, worker_pb2.RunGraphRequest, streams=True, wants_context=True
        ),
        "CleanupGraph": Method(service.cleanup_graph, worker_pb2.CleanupGraphRequest),
        "CleanupAll": Method(service.cleanup_all, worker_pb2.CleanupAllRequest),
        "RecvTensor": Method(service.recv_tensor, worker_pb2.RecvTensorRequest),
    }


def describe_devices(worker: Worker) -> list[device_attributes_pb2.DeviceAttributes]:
    """The worker's devices as ListDevices and GetStatus show them."""
    return [
        device_attributes_pb2.DeviceAttributes(
            name=device.name, device_type=device.type, incarnation=worker.incarnation
        )
        for device in worker.devices
    ]


class _Service:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def get_status(self, _: Any) -> worker_pb2.GetStatusResponse:
        return worker_pb2.GetStatusResponse(device_attributes=describe_devices(self._worker))

    def create_session(self, request: Any) -> worker_pb2.CreateWorkerSessionResponse:
        self._worker.create_session(request.session_handle)
        return worker_pb2.CreateWorkerSessionResponse()

    def delete_session(self, request: Any) -> worker_pb2.DeleteWorkerSessionResponse:
        self._worker.delete_session(request.session_handle)
        return worker_pb2.DeleteWorkerSessionResponse()

    def register_graph(self, request: Any) -> worker_pb2.RegisterGraphResponse:
        nodes = list(import_graph(request.graph_def))
        handle = self._worker.register(request.session_handle, nodes)
        return worker_pb2.RegisterGraphResponse(graph_handle=handle)

    def deregister_graph(self, request: Any) -> worker_pb2.DeregisterGraphResponse:
        self._worker.deregister(request.session_handle, request.graph_handle)
        return worker_pb2.DeregisterGraphResponse()

    def run_graph(self, request: Any) -> worker_pb2.RunGraphResponse:
        graph = self._worker.graph(request.session_handle, request.graph_handle)
        results = self._worker.run(graph, request.step_id, _args(graph, request.send))
        response = worker_pb2.RunGraphResponse()
        for index, value in zip(graph.program.results, results, strict=True):
            response.recv.add(name=str(index), tensor=export_tensor(value))
        return response

    def run_loop(self, request: Any, context: Any) -> Iterator[run_loop_pb2.RunLoopUpdate]:
        graph = self._worker.graph(request.session_handle, request.graph_handle)
        args = _args(graph, request.send)
        num_steps = None if request.until_end_of_data else max(1, request.num_steps)
        updates: queue.Queue[Any] = queue.Queue(_QUEUED_UPDATES)

        def run() -> None:
            try:
                count = self._worker.run_loop(
                    graph, request.step_id, args, num_steps, updates.put, request.first_step
                )
            except Exception as error:
                updates.put(error)
            else:
                updates.put(count)

        ended = threading.Event()

        def abort() -> None:
            if ended.is_set():
                return
            # The listener is gone: end the loop, and let it put what it still has to say.
            gone = CancelledError(message="The master that ran this loop is gone")
            self._worker.finish_step(request.step_id, gone)
            while not updates.empty():
                updates.get_nowait()

        context.add_callback(abort)
        threading.Thread(target=run, name="step-loop", daemon=True).start()
        while True:
            item = updates.get()
            if isinstance(item, LoopUpdate):
                yield _update(graph, item)
                continue
            ended.set()
            if isinstance(item, Exception):
                raise item
            yield run_loop_pb2.RunLoopUpdate(first_step=item, end=True)
            return

    def cleanup_graph(self, request: Any) -> worker_pb2.CleanupGraphResponse:
        self._worker.finish_step(request.step_id)
        return worker_pb2.CleanupGraphResponse()

    def cleanup_all(self, request: Any) -> worker_pb2.CleanupAllResponse:
        self._worker.resources.clear(tuple(request.container))
        return worker_pb2.CleanupAllResponse()

    def recv_tensor(self, request: Any) -> bytes:
        key, _, iteration = request.rendezvous_key.rpartition(";")
        if not key or not iteration.isdecimal():
            raise InvalidArgumentError(
                message=f"{request.rendezvous_key!r} is not a rendezvous key ('key;iteration')"
            )
        return self._worker.take_for_peer(request.step_id, key, int(iteration))


def _args(graph: RegisteredGraph, sent: Any) -> list[Any]:
    """The fed values in the order of the program's parameters."""
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
