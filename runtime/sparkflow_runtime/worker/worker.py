"""The worker of a task: sessions, registered partitions, running steps. No sockets in here."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from sparkflow_runtime.compiler.on_stream import on_stream
from sparkflow_runtime.compiler.program import Program, compile_partition
from sparkflow_runtime.compiler.traced import TracedPartition
from sparkflow_runtime.device.device import Device, task_devices
from sparkflow_runtime.device.host_memory import keep_freed_memory
from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
)
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops import all as _all_ops  # noqa: F401  (registers every op)
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.protos.step_stats_pb2 import DeviceStepStats
from sparkflow_runtime.rendezvous.table import EndOfLoop, RendezvousTable, StepRendezvous
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.transport import codec
from sparkflow_runtime.transport.peers import Peers
from sparkflow_runtime.worker.step import FOREVER, LoopUpdate, Step, run_loop

_NO_FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RegisteredGraph:
    """A compiled partition of a session.

    Attributes:
        program: What runs.
        needs_step: Whether any kernel takes the running step.
        number: The partition's number in its bundles' keys, "" when it sends nothing.
        traced: The same partition, for steps that are recorded.
    """

    program: Program
    needs_step: bool
    number: str
    traced: TracedPartition


@dataclass(slots=True)
class _Session:
    resources: Resources = field(default_factory=Resources)
    variables: Resources | None = None
    graphs: dict[str, RegisteredGraph] = field(default_factory=dict)


class Worker:
    """One task's worker. Safe to use from several threads.

    Making one has the process keep freed memory, see `device.host_memory`. `_lock` guards
    `_sessions` and `_peers`.

    Attributes:
        task: The task's name, `/job:worker/replica:0/task:0`.
        devices: Its devices.
        resources: What outlives steps and sessions: variables, queues, batch sources.
        rendezvous: Where the running steps' tensors meet.
        incarnation: A number that differs each time the task starts.
    """

    def __init__(
        self, job: str = "localhost", index: int = 0, *, gpus: int = 0, cpus: int = 1
    ) -> None:
        keep_freed_memory()
        self.devices: list[Device] = task_devices(job, index, gpus, cpus)
        self.task = self.devices[0].spec.task_name
        self.resources = Resources()
        self.rendezvous = RendezvousTable()
        self.incarnation = random.SystemRandom().getrandbits(63)
        self._peers = Peers({}, None)
        self._lock = threading.Lock()
        self._sessions: dict[str, _Session] = {}
        self._numbers = itertools.count()

    def connect(self, addresses: Mapping[str, str], token: str | None) -> None:
        """Tells where the other tasks are: task name -> `host:port`; ends calls under way."""
        with self._lock:
            old, self._peers = self._peers, Peers(addresses, token)
        old.close()

    def create_session(self, handle: str, isolate: bool = False) -> None:
        """Opens a master's session; its graphs and random states are its own.

        Args:
            handle: The session's name.
            isolate: Whether its variables and queues are its own, too.
        """
        with self._lock:
            session = _Session(variables=Resources() if isolate else None)
            self._sessions.setdefault(handle, session)

    def delete_session(self, handle: str) -> None:
        """Forgets a session, its graphs and resources; unknown ones are ignored."""
        with self._lock:
            session = self._sessions.pop(handle, None)
        if session is not None:
            session.resources.clear()
            if session.variables is not None:
                session.variables.clear()

    def register(
        self,
        session: str,
        nodes: Sequence[Node],
        functions: Mapping[str, Function] = _NO_FUNCTIONS,
    ) -> str:
        """Compiles one partition, its nodes in execution order, all on one device of this task.

        Raises:
            AbortedError: The session does not exist here, e.g. because the task restarted.
            NotFoundError: The device does not exist here.
            InvalidArgumentError: The partition is empty or spans devices.
            UnimplementedError: A node has no kernel.
        """
        found = self._session(session)
        names = {node.device for node in nodes}
        if len(names) != 1:
            raise InvalidArgumentError(
                message=f"A partition runs on one device, this one names {sorted(names)}"
            )
        device = self._device(names.pop())
        variables = self.resources if found.variables is None else found.variables
        context = KernelContext(
            device.xp, device.type, device.name, variables, found.resources, gpu=device.gpu
        )
        program = compile_partition(nodes, context, functions)
        running: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
        if device.gpu is not None:
            stream = device.gpu.new_stream()
            program, running = on_stream(program, stream), stream.running
        sends = [node.attrs["key"] for node in nodes if node.op == "_SendBundle"]
        number = sends[0].partition("-")[0] if sends else ""
        traced = TracedPartition(nodes, context, functions, program, device.synchronize, running)
        graph = RegisteredGraph(program, program.needs_step, number, traced)
        handle = f"{session}/{next(self._numbers)}"
        with self._lock:
            found.graphs[handle] = graph
        return handle

    def deregister(self, session: str, handle: str) -> None:
        """Forgets a partition."""
        found = self._session(session)
        with self._lock:
            found.graphs.pop(handle, None)

    def graph(self, session: str, handle: str) -> RegisteredGraph:
        """A registered partition.

        Raises:
            AbortedError: The session or partition is not known, e.g. because the task restarted.
        """
        found = self._session(session).graphs.get(handle)
        if found is None:
            raise AbortedError(
                message=f"Graph {handle!r} is not registered with {self.task}; "
                "possibly this task was restarted"
            )
        return found

    def run(
        self,
        graph: RegisteredGraph,
        step_id: int,
        args: Sequence[Any],
        record: Callable[[DeviceStepStats], None] | None = None,
    ) -> tuple[Any, ...]:
        """Runs a partition once; blocks until it is done.

        Args:
            graph: The partition.
            step_id: Shared by all partitions of the step.
            args: Fed values.
            record: Gets what was recorded of the run; None to record nothing.

        Raises:
            OpError: A kernel failed, or the step was aborted.
        """

        def run(step: Step | None) -> tuple[Any, ...]:
            if record is None:
                return graph.program.run(step, args)
            values, stats = graph.traced.run(step, args)
            record(stats)
            return values

        if not graph.needs_step:
            return run(None)
        rendezvous = self.rendezvous.find(step_id)
        step, receiver_cancel = self._begin(step_id, rendezvous)
        try:
            return run(step)
        except Exception as error:
            rendezvous.abort(error)
            raise
        finally:
            receiver_cancel()

    def run_loop(
        self,
        graph: RegisteredGraph,
        step_id: int,
        args: Sequence[Any],
        num_steps: int | None,
        listen: Callable[[LoopUpdate], None],
        first_step: int = 0,
    ) -> int:
        """Runs a partition's step loop; blocks until it ends.

        Args:
            graph: The partition.
            step_id: Shared by all partitions of the step.
            args: Fed values, the same for every step.
            num_steps: At most so many; None: until the data end.
            listen: Gets what the steps yield, in this thread.
            first_step: The number of the first step.

        Returns:
            The number of complete steps.

        Raises:
            OpError: A step failed, or was aborted.
        """
        rendezvous = self.rendezvous.find(step_id)
        count = num_steps or FOREVER
        step, receiver_cancel = self._begin(step_id, rendezvous, count, first_step)
        try:
            return run_loop(
                graph.program, step, args, listen, lambda i: rendezvous.end(graph.number, i)
            )
        except Exception as error:
            rendezvous.abort(error)
            raise
        finally:
            receiver_cancel()

    def end_loop(self, step_id: int, num_steps: int) -> None:
        """Lets the loop of a step end after so many iterations; one that is over is ignored."""
        with contextlib.suppress(OpError):
            self.rendezvous.find(step_id).limit(num_steps)

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        """Forgets a step; whoever still runs or waits in it is ended with `error`."""
        self.rendezvous.finish(step_id, error)

    def take_for_peer(
        self,
        rendezvous: StepRendezvous,
        key: str,
        iteration: int,
        wanted: Callable[[], bool],
    ) -> bytes:
        """The message for another task's RecvTensor; blocks until the bundle is there.

        Raises:
            OpError: See `StepRendezvous.take`.
        """
        try:
            value = rendezvous.take(key, iteration, wanted=wanted)
        except EndOfLoop:
            return codec.DEAD
        return value if isinstance(value, bytes) else codec.encode(value)

    def close(self, kind: type[OpError] = CancelledError) -> None:
        """Ends all steps, with an error of this kind, and drops all state."""
        self.rendezvous.close(kind(message=f"Task {self.task} is shutting down"))
        with self._lock:
            sessions = list(self._sessions)
            peers = self._peers
        for session in sessions:
            self.delete_session(session)
        self.resources.clear()
        peers.close()

    def _begin(
        self, step_id: int, rendezvous: StepRendezvous, num_steps: int = 1, first_step: int = 0
    ) -> tuple[Step, Callable[[], None]]:
        with self._lock:
            receiver = self._peers.receiver(step_id)
        forget = rendezvous.on_abort(receiver.cancel)

        def finish() -> None:
            forget()
            receiver.cancel()

        step = Step(step_id, rendezvous, receiver, self.task, num_steps, first_step)
        return step, finish

    def _session(self, handle: str) -> _Session:
        with self._lock:
            found = self._sessions.get(handle)
        if found is None:
            raise AbortedError(
                message=f"Session {handle!r} does not exist on {self.task}; "
                "possibly this task was restarted"
            )
        return found

    def _device(self, name: str) -> Device:
        for device in self.devices:
            if device.name == name:
                return device
        have = ", ".join(device.name for device in self.devices)
        raise NotFoundError(message=f"{self.task} has no device {name}; it has {have}")
