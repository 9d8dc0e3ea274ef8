"""How a master reaches workers: in its own process by call, elsewhere by gRPC; several at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeAlias, TypeVar

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.master.running import InBackground, Pending, RunningStep
from sparkflow_runtime.worker.sessions import NO_TASK, MasterId

if TYPE_CHECKING:
    from sparkflow_runtime.passes.partitioning.openings import Opening
    from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
    from sparkflow_runtime.protos.step_stats_pb2 import DeviceStepStats
    from sparkflow_runtime.transport.threads import DaemonThreads
    from sparkflow_runtime.worker.loop import Listen, LoopEnd, LoopTerms
    from sparkflow_runtime.worker.step import Shortcuts
    from sparkflow_runtime.worker.worker import Worker

MAX_ASKING: Final = 8
"""A cluster of a thousand tasks is asked by so many threads."""
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
LEASE_S = 60.0
"""How long a worker keeps a session whose master says nothing."""


Record: TypeAlias = "Callable[[DeviceStepStats], None]"
"""Gets what was recorded of one partition's run, in any thread."""


class WorkerLink(Protocol):
    """One worker, as a master uses it. Blocking calls raise OpError. Thread-safe."""

    def ready(self) -> Future[None]:
        """Is done once the worker answers, which it does after its start; may be cancelled."""

    def devices(self) -> list[DeviceSpec]:
        """The worker's devices."""

    def create_session(
        self,
        session: str,
        isolate: bool = False,
        master: MasterId = NO_TASK,
        cluster: ClusterDef | None = None,
    ) -> None:
        """Opens a session, with variables of its own if it is to be isolated.

        The task then knows the tasks of `cluster`, if there is one, beside those it was started
        with. Elsewhere it lives for `LEASE_S` seconds, and from each `keep_session` on for as long
        again.
        """

    def keep_session(self, session: str) -> None:
        """Says that the session is still wanted; does not wait for the worker."""

    def delete_session(self, session: str) -> None:
        """Closes it; errors of an unreachable worker are raised."""

    def register(
        self, session: str, nodes: Sequence[Node], functions: Mapping[str, Function]
    ) -> str:
        """Registers a partition and what it calls; returns its handle."""

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
        """Begins a partition of a step; what is given back ends it, with its results by index.

        Args:
            session: The session.
            handle: The partition.
            step: The step; is told if it fails while nobody waits for it.
            args: Its arguments by index.
            record: Gets what was recorded of it, before the results are there; None for no trace.
            is_alone: Whether the step has no other partition.
            opening: How it can begin with the bundle that it takes first.
            repeats: Whether it may be run several times before it ends.
        """

    def run_loop(
        self,
        session: str,
        handle: str,
        step_id: int,
        args: Mapping[int, Any],
        terms: LoopTerms,
        listen: Listen,
    ) -> Future[LoopEnd]:
        """Starts a partition's step loop, fed the same in every step; yields how it ended."""

    def hold_loop(self, step_id: int) -> Future[int]:
        """Yields how many steps a loop has begun; it begins no more until `end_loop`."""

    def end_loop(self, step_id: int, num_steps: int) -> None:
        """Lets the step's loop end after so many steps; does not wait for it."""

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        """Ends and forgets a step; does not wait for a worker elsewhere, nor report its errors."""

    def clear(self, containers: tuple[str, ...]) -> None:
        """Drops resources."""


class LocalLink:
    """The worker in this process. `_lock` guards `_threads`, which few steps need."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._lock = threading.Lock()
        self._threads: DaemonThreads | None = None

    def ready(self) -> Future[None]:
        """See `WorkerLink`."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def devices(self) -> list[DeviceSpec]:
        """See `WorkerLink`."""
        return [device.spec for device in self.worker.devices]

    def create_session(
        self,
        session: str,
        isolate: bool = False,
        master: MasterId = NO_TASK,
        cluster: ClusterDef | None = None,
    ) -> None:
        """See `WorkerLink`."""
        if cluster is not None:
            from sparkflow_runtime.transport.task_names import addresses

            self.worker.learn(addresses(cluster))
        self.worker.sessions.create(session, isolate=isolate, master=master)

    def keep_session(self, session: str) -> None:
        """See `WorkerLink`: it lives in the master's own process, and as long."""

    def delete_session(self, session: str) -> None:
        """See `WorkerLink`."""
        self.worker.sessions.delete(session)

    def register(
        self, session: str, nodes: Sequence[Node], functions: Mapping[str, Function]
    ) -> str:
        """See `WorkerLink`."""
        return self.worker.register(session, nodes, functions)

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
        """See `WorkerLink`; another thread runs it."""
        future = self._in_thread(self.run_here, session, handle, step, args, record)
        return InBackground(step, future)

    def run_here(
        self,
        session: str,
        handle: str,
        step: RunningStep,
        args: Mapping[int, Any],
        record: Record | None = None,
        shortcuts: Shortcuts | None = None,
    ) -> dict[int, Any]:
        """Begins and ends a partition in this thread."""
        graph = self.worker.graph(session, handle)
        given = [args[index] for index in graph.program.args]
        values = self.worker.run(graph, step.id, given, record, shortcuts)
        return dict(zip(graph.program.results, values, strict=True))

    def run_loop(
        self,
        session: str,
        handle: str,
        step_id: int,
        args: Mapping[int, Any],
        terms: LoopTerms,
        listen: Listen,
    ) -> Future[LoopEnd]:
        """See `WorkerLink`."""
        graph = self.worker.graph(session, handle)
        given = [args[i] for i in graph.program.args]
        return self._in_thread(self.worker.run_loop, graph, step_id, given, terms, listen)

    def hold_loop(self, step_id: int) -> Future[int]:
        """See `WorkerLink`."""
        done: Future[int] = Future()
        try:
            done.set_result(self.worker.hold_loop(step_id))
        except OpError as error:
            done.set_exception(error)
        return done

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
        with self._lock:
            threads = self._threads
        if threads is not None:
            threads.shutdown(cancel_futures=True)

    def _in_thread(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        threads = self._threads
        if threads is None:
            from sparkflow_runtime.transport.threads import MAX_THREADS, DaemonThreads

            with self._lock:
                if self._threads is None:
                    self._threads = DaemonThreads(MAX_THREADS, "partition")
                threads = self._threads
        return threads.submit(function, *args, **kwargs)


def for_each(ask: Callable[[T], R], whom: Sequence[T]) -> list[R]:
    """What `ask` gives for each, in their order; blocks until all have answered.

    One is asked in this thread, several in at most `MAX_ASKING` others, so that
    one that hangs does not keep the others waiting.

    Raises:
        BaseException: The first failure there was; who was not asked by then is not asked any more.
    """
    if len(whom) <= 1:
        return [ask(each) for each in whom]
    from sparkflow_runtime.transport.threads import DaemonThreads

    threads = DaemonThreads(min(len(whom), MAX_ASKING), "fan-out")
    try:
        futures = [threads.submit(ask, each) for each in whom]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        return [future.result() for future in futures]
    finally:
        threads.shutdown(cancel_futures=True)
