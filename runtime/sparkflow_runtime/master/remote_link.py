"""The link to a remote worker: sessions over gRPC, steps over a tensor channel if it has one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import grpc

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InternalError,
    OpError,
)
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.function_def import export_program
from sparkflow_runtime.ir.node import RETVAL, Node
from sparkflow_runtime.master.links import LEASE_S, Record
from sparkflow_runtime.master.running import InBackground, Pending, RunningStep
from sparkflow_runtime.passes.partitioning.lend import live_results
from sparkflow_runtime.passes.partitioning.openings import Opening
from sparkflow_runtime.protos import worker_pb2
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.run_loop_pb2 import (
    EndLoopRequest,
    EndLoopResponse,
    HoldLoopRequest,
    HoldLoopResponse,
    LoopBound,
    RunLoopUpdate,
)
from sparkflow_runtime.protos.worker_session_pb2 import (
    KeepWorkerSessionRequest,
    KeepWorkerSessionResponse,
)
from sparkflow_runtime.security import Tls, shown_at
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor
from sparkflow_runtime.transport import protocol, rpc
from sparkflow_runtime.transport.channel import frames
from sparkflow_runtime.transport.channel.asking import Asker, PendingCall
from sparkflow_runtime.transport.channel.frames import Kind
from sparkflow_runtime.transport.channel.readings import Told
from sparkflow_runtime.transport.peers import WORKER_SERVICE, Peers
from sparkflow_runtime.transport.waking import Waker
from sparkflow_runtime.worker.answering import Run, pack_run
from sparkflow_runtime.worker.loop import Listen, LoopEnd, LoopTerms, LoopUpdate
from sparkflow_runtime.worker.sessions import NO_TASK, MasterId
from sparkflow_runtime.worker.step import Shortcuts

CONTROL_TIMEOUT_S: Final = 60.0
"""Deadline of the rpcs that only register or clean up."""
CONNECT_TIMEOUT_S: Final = 20.0
"""How long a new session waits for a task of the cluster that has not started."""
CLOSE_TIMEOUT_S: Final = 5.0
"""How long closing a session waits for a worker that may hang."""


@dataclass(slots=True)
class _Partition:
    """What is known about a remote partition while its session is open.

    Attributes:
        results: The indices of its results, in ascending order.
        ends_apart: Whether its last bundle is too large to be sent with the results.
        texts: The texts of calls, which are the same in every step.
    """

    results: tuple[int, ...]
    ends_apart: bool = False
    texts: dict[Run, bytes] = field(default_factory=dict)

    def text(self, run: Run) -> bytes:
        """Returns the text of a call."""
        text = self.texts.get(run)
        if text is None:
            text = self.texts[run] = pack_run(run)
        return text


class RemoteLink:
    """A worker reached over gRPC; its steps are run over the tensor channel if it has one.

    Args:
        task: Its full name.
        address: Its `host:port`.
        token: The token for it; None for none.
        tls: For TLS; None without.
        peers: The channels to tasks; None to use gRPC for everything.
    """

    def __init__(
        self,
        task: str,
        address: str,
        token: str | None,
        tls: Tls | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._task = task
        self._peers = peers
        self._partitions: dict[str, _Partition] = {}  # by handle
        self._channel = rpc.channel(address, tls)
        peer = f"Task {task} at {address}"
        self._stub = rpc.Stub(self._channel, WORKER_SERVICE, shown_at(token, address), peer)

    def ready(self) -> Future[None]:
        """See `links.WorkerLink`."""
        return rpc.when_ready(self._channel, self._stub.peer)

    def devices(self) -> list[DeviceSpec]:
        """See `links.WorkerLink`; waits for a task that is starting.

        Raises:
            FailedPreconditionError: Another task answers at its address, or one of another version.
        """
        rpc.await_ready(self._channel, self._stub.peer, CONNECT_TIMEOUT_S)
        answer = self._call(
            "GetStatus", worker_pb2.GetStatusRequest(), worker_pb2.GetStatusResponse
        )
        protocol.require_same(
            answer.protocol if answer.HasField("protocol") else None, self._stub.peer
        )
        self._stub.is_known = True
        found = [DeviceSpec.from_string(device.name) for device in answer.device_attributes]
        expected = DeviceSpec.from_string(self._task)
        for spec in found:
            if (spec.job, spec.task) != (expected.job, expected.task):
                raise FailedPreconditionError(
                    message=f"{self._stub.peer} is {spec.task_name}: two tasks, or two clusters, "
                    "have the same address"
                )
        return found

    def create_session(
        self,
        session: str,
        isolate: bool = False,
        master: MasterId = NO_TASK,
        cluster: ClusterDef | None = None,
    ) -> None:
        """See `links.WorkerLink`."""
        request = worker_pb2.CreateWorkerSessionRequest(
            session_handle=session,
            isolate_session_state=isolate,
            master_task=master.task,
            master_incarnation=master.incarnation,
            lease_ms=round(LEASE_S * 1000),
        )
        if cluster is not None and cluster.job:
            request.server_def.cluster.CopyFrom(cluster)
        self._call("CreateWorkerSession", request, worker_pb2.CreateWorkerSessionResponse)

    def keep_session(self, session: str) -> None:
        """See `links.WorkerLink`."""
        request = KeepWorkerSessionRequest(session_handle=session)
        self._post("KeepWorkerSession", request, KeepWorkerSessionResponse)

    def delete_session(self, session: str) -> None:
        """See `links.WorkerLink`."""
        for handle in list(self._partitions):
            if handle.startswith(f"{session}/"):
                self._partitions.pop(handle, None)
        open_channel = None if self._peers is None else self._peers.open_channel(self._task)
        if open_channel is not None:
            open_channel.readings.forget(f"{session}/")
            open_channel.flush()
        request = worker_pb2.DeleteWorkerSessionRequest(session_handle=session)
        response = worker_pb2.DeleteWorkerSessionResponse
        self._call("DeleteWorkerSession", request, response, CLOSE_TIMEOUT_S)

    def register(
        self, session: str, nodes: Sequence[Node], functions: Mapping[str, Function]
    ) -> str:
        """See `links.WorkerLink`."""
        request = worker_pb2.RegisterGraphRequest(
            session_handle=session,
            graph_def=export_program(live_results(nodes, functions), functions),
        )
        answer = self._call("RegisterGraph", request, worker_pb2.RegisterGraphResponse)
        handle = str(answer.graph_handle)
        indices = sorted(node.attrs["index"] for node in nodes if node.op == RETVAL)
        self._partitions[handle] = _Partition(tuple(indices))
        return handle

    def begin(
        self,
        session: str,
        handle: str,
        step: RunningStep,
        args: Mapping[int, Any],
        *,
        record: Record | None = None,
        is_alone: bool = False,
        opening: Opening | None = None,
        repeats: bool = False,
    ) -> Pending:
        """See `links.WorkerLink`; uses the tensor channel if possible and nothing is recorded."""
        asker = None
        if record is None and self._peers is not None:
            asker = self._peers.channel(self._task)
        if asker is None:
            return InBackground(step, self._run_graph(session, handle, step, args, record))
        given = [args[index] for index in sorted(args)]
        partition = self._partitions.get(handle)
        if partition is None:
            raise AbortedError(
                message=f"Graph {handle!r} is not registered with {self._task} any more"
            )
        results = partition.results
        repeats = repeats and asker.repeats
        if step.timeout_s is not None or repeats:
            # This thread may wait long, and must not be the one that reads for others.
            future: Future[dict[int, Any]] = Future()

            def finish(call: PendingCall) -> None:
                if call.error is not None:
                    future.set_exception(call.error)
                else:
                    future.set_result(dict(zip(results, map(own, call.results), strict=True)))

            text = partition.text(Run(session, handle, repeats=repeats))
            asker.call(step.id, text, given, finish)
            return InBackground(step, future)

        def done(call: PendingCall) -> None:
            if call.error is not None:
                step.fail(call.error)

        if opening is not None and step.has_part_here and asker.takes_bundles:
            if step.shortcuts is None:
                step.shortcuts = Shortcuts()
            read = asker.readings.find(handle, opening.reads)
            if read is not None:
                ends = "" if partition.ends_apart else opening.ends
                run = Run(session, handle, False, opening.brings, opening.reads, ends)
                brought = _WithBundle(asker, step, partition.text(run), given, done, results)
                step.shortcuts.given.update(read)
                if ends:
                    step.shortcuts.awaited[ends] = partial(brought.last_bundle, partition)
                step.shortcuts.taken[opening.brings] = brought.call
                step.shortcuts.held.add(self._task)
                return brought
            step.shortcuts.told[self._task] = Told(handle, opening.reads)
        text = partition.text(Run(session, handle, is_alone))
        on_done = None if is_alone else done
        pending = asker.call(
            step.id, text, given, on_done, is_attended=True, is_held=step.has_part_here
        )
        return _AtChannel(asker, pending, results, is_alone)

    def _run_graph(
        self,
        session: str,
        handle: str,
        step: RunningStep,
        args: Mapping[int, Any],
        record: Record | None,
    ) -> Future[dict[int, Any]]:
        request = worker_pb2.RunGraphRequest(
            session_handle=session, graph_handle=handle, step_id=step.id
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
                done.set_exception(self._stub.error_of(error))
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
        args: Mapping[int, Any],
        terms: LoopTerms,
        listen: Listen,
    ) -> Future[LoopEnd]:
        """See `links.WorkerLink`."""
        request = worker_pb2.RunGraphRequest(
            session_handle=session,
            graph_handle=handle,
            step_id=step_id,
            num_steps=terms.num_steps or 0,
            first_step=terms.first_step,
            until_end_of_data=terms.num_steps is None,
            bound=[LoopBound(index=i, bound=b) for i, b in terms.bounds.items()],
        )
        for index, value in args.items():
            request.send.add(name=str(index), tensor=export_tensor(value))
        updates = self._stub.stream("RunLoop", request, RunLoopUpdate.FromString)
        done: Future[LoopEnd] = Future()

        def follow() -> None:
            try:
                for update in updates:
                    if update.end:
                        done.set_result(LoopEnd(update.first_step, update.end_reason))
                        return
                    listen(import_update(update))
                done.set_exception(
                    InternalError(
                        message=f"{self._stub.peer} closed its loop's stream without a final update"
                    )
                )
            except grpc.RpcError as error:
                done.set_exception(self._stub.error_of(error))
            except Exception as error:
                done.set_exception(error)

        threading.Thread(target=follow, name="loop-updates", daemon=True).start()
        return done

    def hold_loop(self, step_id: int) -> Future[int]:
        """See `links.WorkerLink`."""
        request = HoldLoopRequest(step_id=step_id)
        # Nobody waits for the answer, so a worker that is suspended for a while gets the time.
        response = HoldLoopResponse.FromString
        done: Future[int] = Future()
        try:
            call = self._stub.future("HoldLoop", request, response, CONTROL_TIMEOUT_S)
        except CancelledError as error:  # the channel was closed
            done.set_exception(error)
            return done

        def finish(finished: Any) -> None:
            try:
                done.set_result(finished.result().num_begun)
            except grpc.RpcError as error:
                done.set_exception(self._stub.error_of(error))
            except Exception as error:
                done.set_exception(error)

        call.add_done_callback(finish)
        return done

    def end_loop(self, step_id: int, num_steps: int) -> None:
        """See `links.WorkerLink`."""
        request = EndLoopRequest(step_id=step_id, num_steps=num_steps)
        self._post("EndLoop", request, EndLoopResponse)

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        """See `links.WorkerLink`; the error's message is not sent, peers see an AbortedError."""
        open_channel = None if self._peers is None else self._peers.open_channel(self._task)
        if open_channel is not None:
            # The end of a successful step is not urgent: it is sent with the next step.
            open_channel.post(frames.pack(Kind.FINISH, step_id), is_held=error is None)
            return
        request = worker_pb2.CleanupGraphRequest(step_id=step_id)
        self._post("CleanupGraph", request, worker_pb2.CleanupGraphResponse)

    def clear(self, containers: tuple[str, ...]) -> None:
        """See `links.WorkerLink`."""
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
        """Sends a request and ignores its answer: a worker that is gone has nothing to forget."""
        self._stub.post(name, request, response.FromString, CONTROL_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class _AtChannel:
    """A remote partition whose answer the step's own thread awaits on the channel."""

    asker: Asker
    call: PendingCall
    results: tuple[int, ...]
    ends_step: bool

    def end(self, step: RunningStep) -> dict[int, Any]:
        """See `Pending`."""
        waker = Waker.of_this_thread(step.check)
        values = self.asker.result(self.call, waker)[: len(self.results)]
        return dict(zip(self.results, map(own, values), strict=True))


@dataclass(slots=True)
class _WithBundle:
    """A remote partition that is called once its first bundle is available."""

    asker: Asker
    step: RunningStep
    text: bytes
    args: Sequence[Any]
    on_done: Callable[[PendingCall], None]
    results: tuple[int, ...]
    pending: PendingCall | None = None

    @property
    def ends_step(self) -> bool:
        """See `Pending`."""
        return False

    def call(self, bundle: Sequence[Any], lent: Sequence[int], check: Callable[[], None]) -> bool:
        """Calls it, with its bundle, and returns True; see `worker.step.Shortcuts.taken`."""
        self.pending = self.asker.call(
            self.step.id,
            self.text,
            [*self.args, *bundle],
            self.on_done,
            is_attended=True,
            lent=[len(self.args) + number for number in lent],
            check=check,
        )
        return True

    def last_bundle(self, partition: _Partition) -> tuple[Any, ...] | None:
        """Waits for its last bundle; returns None, and records that, if the bundle is large."""
        assert self.pending is not None, "A bundle is awaited before the one that it follows"
        values = self.asker.result(self.pending, Waker.of_this_thread(self.step.check))
        found = tuple(values[len(self.results) :])
        if not found:
            partition.ends_apart = True
        return found or None

    def end(self, step: RunningStep) -> dict[int, Any]:
        """See `Pending`."""
        assert self.pending is not None, "A partition ended without a bundle that it sends"
        return _AtChannel(self.asker, self.pending, self.results, False).end(step)


def own(value: Any) -> Any:
    """Returns a result as the client gets it: in its own memory, numpy scalars unchanged."""
    if value.ndim == 0:
        return value[()]
    return value if value.flags.writeable else value.copy()


def import_update(update: RunLoopUpdate) -> LoopUpdate:
    """Converts an update of a remote loop."""
    return LoopUpdate(
        update.first_step,
        update.num_steps,
        tuple(import_tensor(item.tensor) for item in update.value),
        update.waited_s,
        update.elapsed_s,
        update.num_dropped,
    )
