"""A master's links to workers: calls in its own process, gRPC to others; several at once."""

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
"""Maximum number of threads that send requests to the tasks of a large cluster."""
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
LEASE_S = 60.0
"""How long a worker keeps a session whose master is silent."""


Record: TypeAlias = "Callable[[DeviceStepStats], None]"
"""Receives the recording of one partition's run, in any thread."""


class WorkerLink(Protocol):
    """A worker as a master uses it. Blocking calls raise OpError. Thread-safe."""

    def ready(self) -> Future[None]:
        """Returns a cancellable future that is done once the worker has started and answers."""

    def devices(self) -> list[DeviceSpec]:
        """Returns the worker's devices."""

    def create_session(
        self,
        session: str,
        isolate: bool = False,
        master: MasterId = NO_TASK,
        cluster: ClusterDef | None = None,
    ) -> None:
        """Opens a session, with its own variables if it is isolated.

        The task then knows the tasks of `cluster`, if given, in addition to those it was started
        with. On a remote worker the session lives for `LEASE_S` seconds, which each `keep_session`
        renews.
        """

    def keep_session(self, session: str) -> None:
        """Renews the session's lease; does not wait for the worker."""

    def delete_session(self, session: str) -> None:
        """Closes the session; raises if the worker cannot be reached."""

    def register(
        self, session: str, nodes: Sequence[Node], functions: Mapping[str, Function]
    ) -> str:
        """Registers a partition and the functions that it calls; returns its handle."""

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
        """Begins a partition of a step; the returned object waits for its results by index.

        Args:
            session: The session.
            handle: The partition.
            step: The step; notified if the partition fails while no thread waits for it.
            args: Its arguments by index.
            record: Receives its recording before the results are available; None for no trace.
            is_alone: Whether the step has no other partition.
            opening: How it can begin with the first bundle that it receives.
            repeats: Whether it may be run several times before the call returns.
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
        """Starts a partition's step loop, with the same feeds in every step; returns its end."""

    def hold_loop(self, step_id: int) -> Future[int]:
        """Pauses a loop until `end_loop`; returns a future of the number of steps it has begun."""

    def end_loop(self, step_id: int, num_steps: int) -> None:
        """Lets the step's loop end after a number of steps; does not wait for it."""

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        """Ends and forgets a step; does not wait for a remote worker or report its errors."""

    def clear(self, containers: tuple[str, ...]) -> None:
        """Drops resources."""


class LocalLink:
    """The link to the worker in this process. `_lock` guards `_threads`, which few steps need."""

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
        """See `WorkerLink`. Not needed: the worker lives as long as the master's process."""

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
        """See `WorkerLink`; runs it in another thread."""
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
        """Runs a partition in this thread."""
        graph = self.worker.graph(session, handle)
        given = [args[index] for index in graph.program.args]
        values = self.worker.run(graph, step.id, given, record, shortcuts)
        return dict(zip(graph.program.results, values, strict=True))

    def run_repeatedly(self, session: str, handle: str, step: RunningStep, for_s: float) -> int:
        """Runs a partition in this thread again and again, see `Worker.run_repeatedly`."""
        return self.worker.run_repeatedly(self.worker.graph(session, handle), step.id, (), for_s)

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
    """Returns the results of `ask` for each, in order; blocks until all have answered.

    A single one is asked in this thread, several in at most `MAX_ASKING` others, so that one that
    hangs does not delay the rest.

    Raises:
        BaseException: The first failure; those that have not been asked by then are skipped.
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
