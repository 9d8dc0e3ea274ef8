"""The worker of a task: sessions, registered partitions, running steps. It uses no sockets."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from sparkflow_runtime.compiler.program import Program, compile_partition
from sparkflow_runtime.device.device import Device, task_devices
from sparkflow_runtime.device.host_memory import keep_freed_memory
from sparkflow_runtime.device.names import task_of
from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    ResourceExhaustedError,
)
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import RECEIVE, SEND, Node
from sparkflow_runtime.once import Once
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.rendezvous.table import EndOfLoop, RendezvousTable, StepRendezvous
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.worker.alone import Alone
from sparkflow_runtime.worker.sessions import WorkerSessions
from sparkflow_runtime.worker.step import RunReceiver, Shortcuts, Step

if TYPE_CHECKING:
    from sparkflow_runtime.compiler.parts import Parts
    from sparkflow_runtime.compiler.run.traced import TracedPartition
    from sparkflow_runtime.device.shared_memory import SharedArena
    from sparkflow_runtime.protos.device_attributes_pb2 import DeviceAttributes
    from sparkflow_runtime.protos.step_stats_pb2 import DeviceStepStats
    from sparkflow_runtime.transport.channel.address import ChannelAddress
    from sparkflow_runtime.transport.peers import Peers
    from sparkflow_runtime.worker.answering import Answering, Run
    from sparkflow_runtime.worker.groups import Groups
    from sparkflow_runtime.worker.loop import Listen, LoopEnd, LoopTerms, LoopUpdate
    from sparkflow_runtime.worker.parted import Outcome

_NO_FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RegisteredGraph:
    """A compiled partition of a session.

    Attributes:
        session: The session.
        program: The compiled program.
        takes_step: Whether it needs the running step: a kernel uses it, or must end with it.
        number: The partition's number in its bundles' keys, "" if it sends nothing.
        traced: Compiles the same partition, once, for recorded steps.
        wanted: The keys of the bundles that it receives from other tasks, by task.
        last_sent: The key of its last bundle, "" if it ends with something else.
        parts: Compiles the same partition, once, such that its runs can be parked when they wait;
            returns None if they cannot be.
        calls: Its parsed calls, by their text.
    """

    session: str
    program: Program
    takes_step: bool
    number: str
    traced: Callable[[], TracedPartition]
    wanted: Mapping[str, Sequence[str]]
    last_sent: str
    parts: Callable[[], Parts | None]
    calls: dict[bytes, Run] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """A partition that waits for another task.

    Attributes:
        key: The awaited bundle.
        source: The sending task.
        step: The number of the step.
        seconds: How long it has waited.
    """

    key: str
    source: str
    step: int
    seconds: float


class Worker:
    """The worker of a task. Safe to use from several threads.

    Creating one makes the process keep freed memory, see `device.host_memory`. `_lock` guards
    `_peers`, `_groups`, `_running` and the graphs of sessions.

    Attributes:
        task: The task's name, `/job:worker/replica:0/task:0`.
        devices: Its devices.
        resources: State that outlives steps and sessions: variables, queues, batch sources.
        rendezvous: Where the running steps' tensors meet.
        incarnation: A number that differs each time the task starts.
        sessions: The masters' sessions.
        arena: Shared memory for the values of variables; None for the process's own memory.
        answering: Serves peers over tensor channels.
        channel_address: The address of its channels; None if it accepts none.
        on_loop_update: Also called with the updates of loops here, in their threads; for the host.
    """

    def __init__(
        self,
        job: str = "localhost",
        index: int = 0,
        *,
        gpus: int = 0,
        cpus: int = 1,
        arena: SharedArena | None = None,
        gpu_memory_bytes: int | None = None,
    ) -> None:
        keep_freed_memory()
        self.arena = arena
        self.devices: list[Device] = task_devices(job, index, gpus, cpus, gpu_memory_bytes)
        self.task = self.devices[0].spec.task_name
        self.resources = Resources(arena)
        self.rendezvous = RendezvousTable()
        self.incarnation = random.SystemRandom().getrandbits(63)
        self._peers: Peers | Alone = Alone()
        self.channel_address: ChannelAddress | None = None
        self._answering: Answering | None = None
        self._groups: Groups | None = None
        self._closed_with: OpError | None = None
        self._lock = threading.Lock()
        self._running: set[Step] = set()
        self.on_loop_update: Listen | None = None
        self.sessions: WorkerSessions[RegisteredGraph] = WorkerSessions(
            self.task,
            make_resources=lambda: Resources(arena),
            on_forgotten=self.rendezvous.finish_all_of,
        )
        self._numbers = itertools.count()

    def describe_devices(self) -> list[DeviceAttributes]:
        """Returns its devices as ListDevices and GetStatus report them."""
        from sparkflow_runtime.protos.device_attributes_pb2 import DeviceAttributes

        return [
            DeviceAttributes(
                name=device.name,
                device_type=device.type,
                memory_limit=device.memory_limit_bytes,
                incarnation=self.incarnation,
            )
            for device in self.devices
        ]

    def connect(self, peers: Peers) -> None:
        """Sets the other tasks; ends calls in progress."""
        with self._lock:
            old, self._peers = self._peers, peers
        old.close()

    @property
    def peers(self) -> Peers:
        """The other tasks."""
        return self._found_peers()

    def groups(self) -> Groups:
        """Returns the meetings of collectives' ranks; created on first use."""
        from sparkflow_runtime.worker.groups import Groups

        with self._lock:
            if self._groups is None:
                self._groups = Groups(self.task, self.rendezvous, self._found_peers)
                if self._closed_with is not None:
                    self._groups.close(self._closed_with)
            return self._groups

    def learn(self, addresses: Mapping[str, str]) -> None:
        """Adds tasks to the known ones, see `Peers.learn`; may include this task."""
        others = {task: where for task, where in addresses.items() if task != self.task}
        if others:
            self._found_peers().learn(others)

    def _found_peers(self) -> Peers:
        """Returns the connections to the other tasks, creating them if needed."""
        from sparkflow_runtime.transport.peers import Peers

        with self._lock:
            peers = self._peers
            if isinstance(peers, Alone):
                peers = self._peers = Peers({})
            return peers

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
        found = self.sessions.find(session)
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
            from sparkflow_runtime.compiler.run.on_stream import on_stream

            stream = device.gpu.new_stream()
            program, running = on_stream(program, stream), stream.running
        sends = [node.attrs["key"] for node in nodes if node.op == SEND]
        number = sends[0].partition("-")[0] if sends else ""

        kept: Once[None, TracedPartition] = Once()

        def traced() -> TracedPartition:
            from sparkflow_runtime.compiler.run.traced import TracedPartition

            made = partial(TracedPartition, nodes, context, functions, program)
            return kept.get(None, lambda: made(device.synchronize, running))

        wanted: dict[str, list[str]] = {}
        for node in nodes:
            if node.op == RECEIVE and task_of(node.attrs["source"]) != self.task:
                wanted.setdefault(task_of(node.attrs["source"]), []).append(node.attrs["key"])
        takes_step = program.needs_step or program.loops
        is_last_sent = nodes[-1].op == SEND and not program.in_strands
        last_sent = nodes[-1].attrs["key"] if is_last_sent else ""
        parts = Once[None, "Parts | None"]()
        leaves = device.gpu is None and not functions and _can_be_left(nodes, program)

        def in_parts() -> Parts | None:
            from sparkflow_runtime.compiler.parts import compile_parts

            return parts.get(None, lambda: compile_parts(nodes, context)) if leaves else None

        graph = RegisteredGraph(
            *(session, program, takes_step, number, traced, wanted, last_sent), in_parts
        )
        handle = f"{session}/{next(self._numbers)}"
        with self._lock:
            found.graphs[handle] = graph
        return handle

    def deregister(self, session: str, handle: str) -> None:
        """Forgets a partition."""
        found = self.sessions.find(session)
        with self._lock:
            found.graphs.pop(handle, None)

    def graph(self, session: str, handle: str) -> RegisteredGraph:
        """Returns a registered partition.

        Raises:
            AbortedError: The session or partition is not known, e.g. because the task restarted.
        """
        found = self.sessions.find(session).graphs.get(handle)
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
        shortcuts: Shortcuts | None = None,
    ) -> tuple[Any, ...]:
        """Runs a partition once; blocks until it is done.

        Args:
            graph: The partition.
            step_id: Shared by all partitions of the step.
            args: Fed values.
            record: Receives the recording of the run; None to record nothing.
            shortcuts: The bundles that are exchanged without requests.

        Raises:
            OpError: A kernel failed, or the step was aborted.
        """

        def run(step: Step | None) -> tuple[Any, ...]:
            if record is None:
                return graph.program.run(step, args)
            values, stats = graph.traced().run(step, args)
            record(stats)
            return values

        if not graph.takes_step:
            self._peers.flush()  # calls of the same step, which would have been sent along
            return run(None)
        rendezvous = self.rendezvous.find(step_id)
        rendezvous.session = graph.session
        step, end = self._begin(step_id, rendezvous, graph.wanted, shortcuts=shortcuts)
        try:
            values = run(step)
        except BaseException as error:
            rendezvous.abort(error)
            end()
            raise
        end(ended_well=True)
        return values

    def run_repeatedly(
        self, graph: RegisteredGraph, step_id: int, args: Sequence[Any], for_s: float
    ) -> int:
        """Runs a partition, which exchanges nothing with others, again and again as one step.

        Args:
            graph: The partition; it takes a step.
            step_id: The step.
            args: Fed values.
            for_s: No run begins later than this.

        Returns:
            How often it was run.

        Raises:
            OpError: A kernel failed, or the step was aborted.
        """
        rendezvous = self.rendezvous.find(step_id)
        rendezvous.session = graph.session
        step, end = self._begin(step_id, rendezvous, {})
        until, count = time.perf_counter() + for_s, 0
        try:
            while not count or time.perf_counter() < until:
                step.check_cancelled()
                graph.program.run(step, args)
                count += 1
        except BaseException as error:
            rendezvous.abort(error)
            end()
            raise
        end(ended_well=True)
        return count

    def run_parted(
        self,
        graph: RegisteredGraph,
        parts: Parts,
        step_id: int,
        args: Mapping[int, Any],
        shortcuts: Shortcuts,
        on_end: Callable[[Outcome], None],
    ) -> None:
        """Begins to run a partition once; returns when the run has ended or is parked.

        Args:
            graph: The partition.
            parts: Its `parts`. It exchanges nothing with other tasks except through `shortcuts`.
            step_id: Shared by all partitions of the step.
            args: Fed values by index.
            shortcuts: See `run`.
            on_end: Called once with the results by index, or the error; in any thread.

        Raises:
            OpError: The step is over; `on_end` is not called.
        """
        from sparkflow_runtime.worker.parted import PartedRun

        rendezvous = self.rendezvous.find(step_id)
        rendezvous.session = graph.session
        step, end = self._begin(step_id, rendezvous, graph.wanted, shortcuts=shortcuts)

        def ended(outcome: Outcome) -> None:
            if isinstance(outcome, BaseException):
                rendezvous.abort(outcome)
                end()
            else:
                end(ended_well=True)
            on_end(outcome)

        PartedRun(parts, step, args, ended).go_on()

    def run_loop(
        self,
        graph: RegisteredGraph,
        step_id: int,
        args: Sequence[Any],
        terms: LoopTerms,
        listen: Listen,
    ) -> LoopEnd:
        """Runs a partition's step loop; blocks until it ends.

        Args:
            graph: The partition.
            step_id: Shared by all partitions of the step.
            args: Fed values, the same for every step.
            terms: How long it lasts.
            listen: Called with the steps' results, in this thread.

        Raises:
            OpError: A step failed, or was aborted.
        """
        from sparkflow_runtime.worker.loop import FOREVER, run_loop

        rendezvous = self.rendezvous.find(step_id)
        rendezvous.session = graph.session
        count = FOREVER if terms.num_steps is None else terms.num_steps
        step, end = self._begin(step_id, rendezvous, graph.wanted, count, terms.first_step)
        if self.on_loop_update is not None:
            listen = _both(self.on_loop_update, listen)
        try:
            return run_loop(
                graph.program, step, args, listen, rendezvous, graph.number, terms.bounds
            )
        except Exception as error:
            rendezvous.abort(error)
            raise
        finally:
            end()

    def hold_loop(self, step_id: int) -> int:
        """Returns how many iterations a loop has begun; it begins no more until `end_loop`.

        Raises:
            OpError: The step is over.
        """
        return self.rendezvous.find(step_id).hold()

    def end_loop(self, step_id: int, num_steps: int) -> None:
        """Lets the loop of a step end after a number of iterations; ignored if the step is over."""
        with contextlib.suppress(OpError):
            self.rendezvous.find(step_id).limit(num_steps)

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        """Forgets a step; what still runs or waits in it is ended with `error`."""
        self.rendezvous.finish(step_id, error)

    def abandon_step(self, step_id: int) -> None:
        """Ends a step that its master can no longer end, since the connection to it has ended."""
        message = "The connection to the master that ran this step has ended"
        self.finish_step(step_id, CancelledError(message=message))

    def take_for_peer(
        self,
        rendezvous: StepRendezvous,
        key: str,
        iteration: int,
        wanted: Callable[[], bool],
    ) -> bytes:
        """Returns the response to another task's RecvTensor; blocks until the bundle is available.

        Raises:
            OpError: See `StepRendezvous.take`.
            ResourceExhaustedError: The bundle exceeds the maximum message size.
        """
        from sparkflow_runtime.transport import codec, rpc

        try:
            values = rendezvous.take(key, iteration, wanted=wanted)
        except EndOfLoop:
            return codec.DEAD
        message = codec.encode(values)
        if len(message) > rpc.MAX_MESSAGE_BYTES:
            raise ResourceExhaustedError(
                message=f"{len(values)} tensors of {len(message)} bytes in all must be sent from "
                f"{self.task} together; a gRPC message holds {rpc.MAX_MESSAGE_BYTES}. Split the "
                "largest over several devices, or allow the tensor channel"
            )
        return message

    @property
    def answering(self) -> Answering:
        """Serves peers over channels; created when a host first asks for it."""
        from sparkflow_runtime.worker.answering import Answering

        with self._lock:
            if self._answering is None:
                self._answering = Answering(self, self.arena)
                if self._closed_with is not None:
                    self._answering.close(self._closed_with)
            return self._answering

    def close(self, kind: type[OpError] = CancelledError) -> None:
        """Ends all steps, with an error of this kind, and drops all state."""
        error = kind(message=f"Task {self.task} is shutting down")
        self.rendezvous.close(error)
        with self._lock:
            self._closed_with = error
            answering, peers, groups = self._answering, self._peers, self._groups
        if answering is not None:
            answering.close(error)
        if groups is not None:
            groups.close(error)
        self.sessions.clear()
        self.resources.clear()
        peers.close()
        if self.arena is not None:
            self.arena.close()

    def _begin(
        self,
        step_id: int,
        rendezvous: StepRendezvous,
        wanted: Mapping[str, Sequence[str]],
        num_steps: int = 1,
        first_step: int = 0,
        shortcuts: Shortcuts | None = None,
    ) -> tuple[Step, Callable[..., None]]:
        if shortcuts is not None:
            coming = {*shortcuts.given, *shortcuts.awaited}
            if coming:
                left = {task: _but(keys, coming) for task, keys in wanted.items()}
                wanted = {task: keys for task, keys in left.items() if keys}
        with self._lock:
            peers = self._peers
        receiver = RunReceiver(peers, step_id, rendezvous)
        if shortcuts is None:
            if wanted:
                receiver.ask(wanted, num_steps > 1, {}, ())
            peers.flush()  # calls of the same step, which are sent along with it
        else:
            if wanted:
                receiver.ask(wanted, num_steps > 1, shortcuts.told, shortcuts.held)
            peers.flush(but=shortcuts.held)

        step = Step(
            *(step_id, rendezvous, receiver, self.task, num_steps, first_step, self.groups),
            shortcuts,
        )
        with self._lock:
            self._running.add(step)

        def finish(ended_well: bool = False) -> None:
            with self._lock:
                self._running.discard(step)
            receiver.cancel(ended_well)

        return step, finish

    def waits(self) -> list[Wait]:
        """Returns what the partitions running here currently wait for."""
        with self._lock:
            running = [(step, step.waits_for) for step in self._running]
        now = time.perf_counter()
        return [
            Wait(place[0], place[1], step.number, now - place[2])
            for step, place in running
            if place is not None
        ]

    def _device(self, name: str) -> Device:
        for device in self.devices:
            if device.name == name:
                return device
        have = ", ".join(device.name for device in self.devices)
        raise NotFoundError(message=f"{self.task} has no device {name}; it has {have}")


def _can_be_left(nodes: Sequence[Node], program: Program) -> bool:
    if program.loops or program.in_strands or program.rehearse is not None:
        return False
    if not any(registry.lookup(node.op).parks for node in nodes):
        return False
    from sparkflow_runtime.compiler.parts import can_be_left

    return can_be_left(nodes)


def _but(keys: Sequence[str], coming: Collection[str]) -> list[str]:
    return [key for key in keys if key not in coming]


def _both(first: Listen, second: Listen) -> Listen:
    def listen(update: LoopUpdate) -> None:
        first(update)
        second(update)

    return listen
