"""How a master reaches a worker: in its own process by call, elsewhere by gRPC."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import grpc

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import CancelledError, FailedPreconditionError, InternalError, OpError
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.function_def import export_program
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.protos import worker_pb2
from sparkflow_runtime.protos.run_loop_pb2 import EndLoopRequest, EndLoopResponse, RunLoopUpdate
from sparkflow_runtime.protos.step_stats_pb2 import DeviceStepStats
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor
from sparkflow_runtime.transport import rpc, status
from sparkflow_runtime.transport.peers import WORKER_SERVICE
from sparkflow_runtime.transport.threads import DaemonThreads
from sparkflow_runtime.worker.step import LoopUpdate
from sparkflow_runtime.worker.worker import Worker

CONTROL_TIMEOUT_S = 60.0
"""Deadline of the rpcs that only register or clean up."""
CONNECT_TIMEOUT_S = 20.0
"""How long a new session waits for a task of the cluster that is not there yet."""
CLOSE_TIMEOUT_S = 5.0
"""How long closing a session waits for a worker that may hang."""


Record = Callable[[DeviceStepStats], None]
"""Gets what was recorded of one partition's run, in any thread."""


class WorkerLink(Protocol):
    """One worker, as a master uses it. Blocking calls raise OpError. Thread-safe."""

    def ready(self) -> Future[None]:
        """Is done once the worker answers, which it does after its start; may be cancelled."""

    def devices(self) -> list[DeviceSpec]:
        """The worker's devices."""

    def create_session(self, session: str, isolate: bool = False) -> None:
        """Opens a session, with variables of its own if it is to be isolated."""

    def delete_session(self, session: str) -> None:
        """Closes it; errors of an unreachable worker are raised."""

    def register(
        self, session: str, nodes: Sequence[Node], functions: Mapping[str, Function]
    ) -> str:
        """Registers a partition and what it calls; returns its handle."""

    def run(
        self,
        session: str,
        handle: str,
        step_id: int,
        args: Mapping[int, Any],
        record: Record | None = None,
    ) -> Future[dict[int, Any]]:
        """Starts one step of a partition; yields its results by index.

        `record` gets what was recorded of it, before the results are there; None for no trace.
        """

    def run_loop(
        self,
        session: str,
        handle: str,
        step_id: int,
        num_steps: int | None,
        listen: Callable[[LoopUpdate], None],
        first_step: int = 0,
    ) -> Future[int]:
        """Starts a partition's step loop; yields the number of complete steps."""

    def end_loop(self, step_id: int, num_steps: int) -> None:
        """Lets the step's loop end after so many steps; does not wait for it."""

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        """Ends and forgets a step; does not wait for a worker elsewhere, nor report its errors."""

    def clear(self, containers: tuple[str, ...]) -> None:
        """Drops resources."""


class LocalLink:
    """The worker in this process."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._threads = DaemonThreads(rpc.MAX_THREADS, "partition")

    def ready(self) -> Future[None]:
        """See `WorkerLink`."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def devices(self) -> list[DeviceSpec]:
        """See `WorkerLink`."""
        return [device.spec for device in self.worker.devices]

    def create_session(self, session: str, isolate: bool = False) -> None:
        """See `WorkerLink`."""
        self.worker.create_session(session, isolate)

    def delete_session(self, session: str) -> None:
        """See `WorkerLink`."""
        self.worker.delete_session(session)

    def register(
        self, session: str, nodes: Sequence[Node], functions: Mapping[str, Function]
    ) -> str:
        """See `WorkerLink`."""
        return self.worker.register(session, nodes, functions)

    def run(
        self,
        session: str,
        handle: str,
        step_id: int,
        args: Mapping[int, Any],
        record: Record | None = None,
    ) -> Future[dict[int, Any]]:
        """See `WorkerLink`."""
        graph = self.worker.graph(session, handle)

        def work() -> dict[int, Any]:
            given = [args[i] for i in graph.program.args]
            values = self.worker.run(graph, step_id, given, record)
            return dict(zip(graph.program.results, values, strict=True))

        return self._threads.submit(work)

    def run_loop(
        self,
        session: str,
        handle: str,
        step_id: int,
        num_steps: int | None,
        listen: Callable[[LoopUpdate], None],
        first_step: int = 0,
    ) -> Future[int]:
        """See `WorkerLink`."""
        graph = self.worker.graph(session, handle)
        return self._threads.submit(
            self.worker.run_loop, graph, step_id, (), num_steps, listen, first_step
        )

    def end_loop(self, step_id: int, num_steps: int) -> None:
        """See `WorkerLink`."""
        self.worker.end_loop(step_id, num_steps)

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        """See `WorkerLink`."""
        self.worker.finish_step(step_id, error)

    def clear(self, containers: tuple[str, ...]) -> None:
        """See `WorkerLink`."""
        self.worker.resources.clear(containers)

    def close(self) -> None:
        """Ends the threads; running partitions are aborted by the worker's own `close`."""
        self._threads.shutdown(cancel_futures=True)


class RemoteLink:
    """A worker reached over gRPC."""

    def __init__(self, task: str, address: str, token: str | None) -> None:
        self._task = task
        self._channel = rpc.channel(address)
        peer = f"Task {task} at {address}"
        self._stub = rpc.Stub(self._channel, WORKER_SERVICE, token, peer)

    def ready(self) -> Future[None]:
        """See `WorkerLink`."""
        return rpc.when_ready(self._channel, self._stub.peer)

    def devices(self) -> list[DeviceSpec]:
        """See `WorkerLink`; waits for a task that is starting.

        Raises:
            FailedPreconditionError: Another task answers at its address.
        """
        rpc.await_ready(self._channel, self._stub.peer, CONNECT_TIMEOUT_S)
        answer = self._call(
            "GetStatus", worker_pb2.GetStatusRequest(), worker_pb2.GetStatusResponse
        )
        found = [DeviceSpec.from_string(device.name) for device in answer.device_attributes]
        expected = DeviceSpec.from_string(self._task)
        for spec in found:
            if (spec.job, spec.task) != (expected.job, expected.task):
                raise FailedPreconditionError(
                    message=f"{self._stub.peer} is {spec.task_name}: two tasks, or two clusters, "
                    "have the same address"
                )
        return found

    def create_session(self, session: str, isolate: bool = False) -> None:
        """See `WorkerLink`."""
        request = worker_pb2.CreateWorkerSessionRequest(
            session_handle=session, isolate_session_state=isolate
        )
        self._call("CreateWorkerSession", request, worker_pb2.CreateWorkerSessionResponse)

    def delete_session(self, session: str) -> None:
        """See `WorkerLink`."""
        request = worker_pb2.DeleteWorkerSessionRequest(session_handle=session)
        response = worker_pb2.DeleteWorkerSessionResponse
        self._call("DeleteWorkerSession", request, response, CLOSE_TIMEOUT_S)

    def register(
        self, session: str, nodes: Sequence[Node], functions: Mapping[str, Function]
    ) -> str:
        """See `WorkerLink`."""
        request = worker_pb2.RegisterGraphRequest(
            session_handle=session, graph_def=export_program(nodes, functions)
        )
        answer = self._call("RegisterGraph", request, worker_pb2.RegisterGraphResponse)
        return str(answer.graph_handle)

    def run(
        self,
        session: str,
        handle: str,
        step_id: int,
        args: Mapping[int, Any],
        record: Record | None = None,
    ) -> Future[dict[int, Any]]:
        """See `WorkerLink`."""
        request = worker_pb2.RunGraphRequest(
            session_handle=session, graph_handle=handle, step_id=step_id
        )
        request.exec_opts.record_timeline = record is not None
        for index, value in args.items():
            request.send.add(name=str(index), tensor=export_tensor(value))
        call = self._stub.future("RunGraph", request, worker_pb2.RunGraphResponse.FromString)
        done: Future[dict[int, Any]] = Future()

        def finish(finished: Any) -> None:
            try:
                answer = finished.result()
                if record is not None:
                    for stats in answer.step_stats.dev_stats:
                        record(stats)
                done.set_result(
                    {int(item.name): import_tensor(item.tensor) for item in answer.recv}
                )
            except grpc.RpcError as error:
                done.set_exception(status.from_rpc(error, self._stub.peer))
            except grpc.FutureCancelledError:
                done.set_exception(CancelledError(message=f"The call to {peer} was cancelled"))
            except Exception as error:
                done.set_exception(error)

        peer = self._stub.peer
        call.add_done_callback(finish)
        return done

    def run_loop(
        self,
        session: str,
        handle: str,
        step_id: int,
        num_steps: int | None,
        listen: Callable[[LoopUpdate], None],
        first_step: int = 0,
    ) -> Future[int]:
        """See `WorkerLink`."""
        request = worker_pb2.RunGraphRequest(
            session_handle=session,
            graph_handle=handle,
            step_id=step_id,
            num_steps=num_steps or 0,
            first_step=first_step,
            until_end_of_data=num_steps is None,
        )
        updates = self._stub.stream("RunLoop", request, RunLoopUpdate.FromString)
        done: Future[int] = Future()

        def follow() -> None:
            try:
                for update in updates:
                    if update.end:
                        done.set_result(update.first_step)
                        return
                    listen(_import_update(update))
                done.set_exception(
                    InternalError(message=f"{self._stub.peer} ended its loop without a word")
                )
            except grpc.RpcError as error:
                done.set_exception(status.from_rpc(error, self._stub.peer))
            except Exception as error:
                done.set_exception(error)

        threading.Thread(target=follow, name="loop-updates", daemon=True).start()
        return done

    def end_loop(self, step_id: int, num_steps: int) -> None:
        """See `WorkerLink`."""
        request = EndLoopRequest(step_id=step_id, num_steps=num_steps)
        self._post("EndLoop", request, EndLoopResponse)

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        """See `WorkerLink`; the error's text does not travel, peers see an AbortedError."""
        request = worker_pb2.CleanupGraphRequest(step_id=step_id)
        self._post("CleanupGraph", request, worker_pb2.CleanupGraphResponse)

    def clear(self, containers: tuple[str, ...]) -> None:
        """See `WorkerLink`."""
        request = worker_pb2.CleanupAllRequest(container=containers)
        self._call("CleanupAll", request, worker_pb2.CleanupAllResponse)

    def close(self) -> None:
        """Closes the channel; running rpcs end with an error."""
        self._channel.close()

    def _call(
        self, name: str, request: Any, response: Any, timeout_s: float = CONTROL_TIMEOUT_S
    ) -> Any:
        return self._stub.call(name, request, response.FromString, timeout_s)

    def _post(self, name: str, request: Any, response: Any) -> None:
        """Sends a request whose answer nobody needs: a worker that is gone has forgotten it all."""
        with contextlib.suppress(CancelledError):  # The channel is closed.
            call = self._stub.future(name, request, response.FromString, CONTROL_TIMEOUT_S)
            call.add_done_callback(_forget)


def _forget(_: Any) -> None:
    """Keeps a posted rpc alive to its end."""


def _import_update(update: RunLoopUpdate) -> LoopUpdate:
    return LoopUpdate(
        update.first_step,
        update.num_steps,
        tuple(import_tensor(item.tensor) for item in update.value),
        update.waited_s,
        update.elapsed_s,
    )
