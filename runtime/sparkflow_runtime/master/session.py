"""A master's session: the client's graph so far, and the executables prepared from it."""

from __future__ import annotations

import contextlib
import itertools
import threading
import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow_runtime.device.names import DeviceSpec, task_of
from sparkflow_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    InvalidArgumentError,
    OpError,
)
from sparkflow_runtime.ir.function import Function, no_function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import parse_endpoint
from sparkflow_runtime.master.executable import Executable
from sparkflow_runtime.master.links import LocalLink, WorkerLink, for_each
from sparkflow_runtime.master.pipeline import Request, optimise
from sparkflow_runtime.passes.clean import Observe, unobserved
from sparkflow_runtime.passes.functions import bodies, ready_functions
from sparkflow_runtime.passes.partitioning.partition import Partition
from sparkflow_runtime.passes.place import Placement, place
from sparkflow_runtime.worker.sessions import NO_TASK, MasterId

if TYPE_CHECKING:
    from sparkflow_runtime.master.cost_graph import CostModel
    from sparkflow_runtime.master.keep_alive import KeepAlive
    from sparkflow_runtime.master.loops.step_loop import Loop
    from sparkflow_runtime.master.partial import PartialRun
    from sparkflow_runtime.master.placement_log import PlacementLog
    from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
    from sparkflow_runtime.protos.config_pb2 import RunMetadata, RunOptions
    from sparkflow_runtime.protos.function_pb2 import FunctionDef
    from sparkflow_runtime.worker.loop import LoopTerms


Feeds = Mapping[str, Any]
StepCall = Callable[..., list[Any]]


class MasterSession:
    """One client's session. Safe to use from several threads.

    `_lock` guards the graph and the caches. It is not held during calls to workers: preparing a new
    step blocks neither other steps nor `close`.

    Args:
        links: The workers by task name.
        default_task: The task of nodes without a device.
        device_filters: The tasks it may use; all when empty.
        allow_soft_placement: Whether nodes may fall back to a CPU.
        timeout_s: How long a step may take by default.
        log_placement: Whether to print the placement of nodes on stderr.
        cost_model: Which steps report their nodes' costs; None: none.
        isolate: Whether variables and queues belong to the session instead of the tasks.
        master: The session's master: tasks end sessions of its earlier incarnations.
        is_wanted: Tasks that have not started are awaited as long as this returns True; None: for
            `remote_link.CONNECT_TIMEOUT_S`.
        hosts: The host of each task; tasks that are missing share one.
        cluster: The tasks' addresses, which are sent to the workers; None if they know them.

    Attributes:
        handle: The session's unique name.
        devices: The devices for placement, best first.
    """

    def __init__(
        self,
        links: Mapping[str, WorkerLink],
        *,
        default_task: str,
        device_filters: Sequence[str] = (),
        allow_soft_placement: bool = False,
        timeout_s: float | None = None,
        log_placement: bool = False,
        cost_model: CostModel | None = None,
        isolate: bool = False,
        master: MasterId = NO_TASK,
        is_wanted: Callable[[], bool] | None = None,
        hosts: Mapping[str, str] = MappingProxyType({}),
        cluster: ClusterDef | None = None,
    ) -> None:
        self.handle = uuid.uuid4().hex
        self._hosts = hosts
        self._links = filtered(links, device_filters, default_task)
        self._lock = threading.RLock()
        self._graph = Graph()
        self._version = 0
        self._executables: dict[Hashable, Executable] = {}
        self._preparing: dict[Hashable, threading.Event] = {}
        self._partial_runs: dict[str, PartialRun] = {}
        self._numbers = itertools.count()
        self._library: dict[str, FunctionDef] = {}
        self._functions: dict[str, Function] = {}
        self._closed = False
        self._timeout_s = timeout_s
        self._cost_model = cost_model
        if is_wanted is not None:
            from sparkflow_runtime.master.waiting import await_tasks

            await_tasks(self._links, is_wanted)
        joined = self._join(isolate, master, cluster)
        self.devices = _best_first(joined, default_task)
        self._placement = Placement(self.devices, allow_soft_placement)
        self._log: PlacementLog | None = None
        if log_placement:
            from sparkflow_runtime.master.placement_log import PlacementLog

            self._log = PlacementLog(self.devices)
        self._keep_alive: KeepAlive | None = None
        elsewhere = [each for each in self._links.values() if not isinstance(each, LocalLink)]
        if elsewhere:
            from sparkflow_runtime.master.keep_alive import KeepAlive

            self._keep_alive = KeepAlive(self.handle, elsewhere)

    def _join(
        self, isolate: bool, master: MasterId, cluster: ClusterDef | None
    ) -> list[DeviceSpec]:
        """Opens the session on every task; returns their devices."""

        def join(link: WorkerLink) -> None:
            link.create_session(self.handle, isolate, master, cluster)

        links = list(self._links.values())
        try:
            # First check the identity of all tasks, before they learn of each other.
            found = for_each(lambda link: link.devices(), links)
            for_each(join, links)
        except BaseException:
            self._leave()
            raise
        return [spec for devices in found for spec in devices]

    def _leave(self) -> None:
        """Has every task forget the session."""

        def leave(link: WorkerLink) -> None:
            with contextlib.suppress(OpError):  # An unreachable worker has none, or its lease ends.
                link.delete_session(self.handle)

        for_each(leave, list(self._links.values()))

    def extend(
        self, nodes: Graph, functions: Iterable[FunctionDef] = (), version: int | None = None
    ) -> int:
        """Adds nodes to the session's graph, and functions to its library.

        Known functions are ignored. Functions are parsed when a step calls them: a client may send
        some whose ops are unknown here.

        Args:
            nodes: The new nodes.
            functions: The new functions.
            version: The version that the caller expects; None: any.

        Returns:
            The graph's version, which each call increments.

        Raises:
            AbortedError: The graph has another version: another client has extended it.
            AlreadyExistsError: A node of that name exists.
        """
        with self._lock:
            self._require_open()
            if version is not None and version != self._version:
                raise AbortedError(
                    message=f"Current version is {self._version} but caller expected {version}."
                )
            for node in nodes:
                if node.name in self._graph:
                    raise AlreadyExistsError(
                        message=f"Node {node.name!r} is in the session's graph already"
                    )
            self._graph.nodes.update(nodes.nodes)  # in place: clients add node by node
            for proto in functions:
                self._library.setdefault(proto.signature.name, proto)
            # Cached steps stay valid: nodes are only added, and no old node can depend on them.
            self._version += 1
            return self._version

    def prepare(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> Executable:
        """Returns the executable of a request, from the cache or newly prepared.

        Raises:
            OpError: A name is unknown, a node cannot be placed, a kernel is missing.
        """
        request = _request(feeds, fetches, targets)
        return self._prepare(self._graph, request, request)

    def _prepare(self, graph: Graph, request: Request, key: Hashable) -> Executable:
        while True:
            with self._lock:
                self._require_open()
                found = self._executables.get(key)
                if found is not None:
                    return found
                under_way = self._preparing.get(key)
                if under_way is None:
                    done = self._preparing[key] = threading.Event()
                    break
            under_way.wait()
        try:
            made = self._make(graph, request)
            with self._lock:
                self._require_open()
                self._executables[key] = made
            return made
        except OpError:
            self._require_open()  # A worker's error about a closed session is not the cause.
            raise
        finally:
            with self._lock:
                del self._preparing[key]
            done.set()

    def _make(self, graph: Graph, request: Request) -> Executable:
        with self._lock:
            partitions = self._optimise(graph, request)
            if self._log is not None:
                self._tell_placement(self._log, partitions)
        return Executable(
            self.handle,
            request,
            partitions,
            self._link_of,
            self._timeout_s,
            lambda observe: self._optimise(graph, request, observe),
            self._cost_model,
        )

    def _tell_placement(self, log: PlacementLog, partitions: Sequence[Partition]) -> None:
        """Prints the placement of the client's nodes, before any folding or fusion.

        If nodes that the step does not need cannot be placed, prints the step's nodes only.
        """
        try:
            called = ready_functions(self._graph, self._load)
            log.tell(place(self._graph, self._placement, None, bodies(self._graph, called)))
        except OpError:
            for part in partitions:
                log.tell(part.nodes)

    def _optimise(
        self, graph: Graph, request: Request, observe: Observe = unobserved
    ) -> list[Partition]:
        with self._lock:
            return optimise(graph, request, self._placement, self._load, observe, self._are_apart)

    def _are_apart(self, source: str, destination: str) -> bool:
        """Whether two devices are on different hosts."""
        hosts = self._hosts
        return hosts.get(task_of(source)) != hosts.get(task_of(destination))

    def start_partial_run(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> str:
        """Announces a step that is run in several calls, see `PartialRun`; returns its handle.

        Raises:
            OpError: A name is unknown, or nothing is requested.
        """
        from sparkflow_runtime.master.partial import PartialRun

        request = _request(feeds, fetches, targets)
        with self._lock:
            self._require_open()
            handle = f"{self.handle}/partial/{next(self._numbers)}"
            self._partial_runs[handle] = PartialRun(self._graph, request, self._prepare)
        return handle

    def partial_run(
        self, handle: str, feeds: Mapping[str, Any], fetches: Sequence[str]
    ) -> list[Any]:
        """Runs one call of a partial run, which is forgotten when all was fed and fetched.

        Raises:
            InvalidArgumentError: There is no such partial run, or see `PartialRun.run`.
        """
        with self._lock:
            self._require_open()
            found = self._partial_runs.get(handle)
        if found is None:
            raise InvalidArgumentError(message="Must run 'setup' before performing partial runs!")
        values = found.run(feeds, fetches)
        if found.is_complete:
            with self._lock:
                self._partial_runs.pop(handle, None)
        return values

    def start_loop(
        self,
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        targets: Sequence[str],
        terms: LoopTerms,
    ) -> Loop:
        """Starts a step loop, see `Loop`."""
        from sparkflow_runtime.master.loops.step_loop import Loop

        executable = self.prepare(list(feeds), fetches, targets)
        return Loop(executable, terms, list(feeds.values()))

    def close(self) -> None:
        """Ends running steps and closes the session on the workers. May be called again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            executables = list(self._executables.values())
        for executable in executables:
            executable.steps.close(CancelledError(message="Session has been closed."))
        if self._keep_alive is not None:
            self._keep_alive.close()
        self._leave()

    def reset(self, containers: Sequence[str]) -> None:
        """Drops the resources of these containers on every worker, see `reset_containers`."""
        reset_containers(self._links, containers)

    def _load(self, name: str) -> Function:
        """Returns a function of the library."""
        if name not in self._functions:
            from sparkflow_runtime.ir.function_def import import_function

            proto = self._library.get(name)
            if proto is None:
                return no_function(name)
            self._functions[name] = import_function(proto)
        return self._functions[name]

    def _link_of(self, device: str) -> WorkerLink:
        return self._links[DeviceSpec.from_string(device).task_name]

    def _require_open(self) -> None:
        if self._closed:
            raise CancelledError(message="Session has been closed.")


def _request(feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> Request:
    return Request(
        tuple(map(parse_endpoint, feeds)), tuple(map(parse_endpoint, fetches)), tuple(targets)
    )


def reset_containers(links: Mapping[str, WorkerLink], containers: Sequence[str]) -> None:
    """Drops the resources (variables, queues) of these containers; of all if none is named.

    Raises:
        OpError: A task could not be reached; the others dropped theirs.
    """

    def clear(link: WorkerLink) -> OpError | None:
        try:
            link.clear(tuple(containers))
        except OpError as error:
            return error
        return None

    for error in for_each(clear, list(links.values())):
        if error is not None:
            raise error


def filtered(
    links: Mapping[str, WorkerLink], filters: Sequence[str], default_task: str
) -> dict[str, WorkerLink]:
    """Returns the tasks a session may use: those that a filter matches, and the default one."""
    if not filters:
        return dict(links)
    specs = [DeviceSpec.from_string(text) for text in filters]
    return {
        task: link
        for task, link in links.items()
        if task == default_task or any(s.matches(DeviceSpec.from_string(task)) for s in specs)
    }


def _best_first(devices: Iterable[DeviceSpec], default_task: str) -> list[DeviceSpec]:
    """Returns devices by preference: the default task's, GPUs before CPUs, then the others."""
    return sorted(
        devices,
        key=lambda spec: (
            spec.task_name != default_task,
            spec.job or "",
            spec.task or 0,
            spec.device_type == "CPU",
            spec.device_index or 0,
        ),
    )


def run_session(
    session: MasterSession,
    fetches: Sequence[str],
    feeds: Feeds,
    targets: Sequence[str],
    options: RunOptions | None,
) -> tuple[list[Any], RunMetadata | None]:
    """Runs a step of a session in this process; see `client.SessionClient.run`."""
    executable = session.prepare(list(feeds), fetches, targets)
    args = [np.asarray(value) for value in feeds.values()]
    if options is None:
        return executable.run(args), None
    from sparkflow_runtime.master.options import run_with_options
    from sparkflow_runtime.protos.config_pb2 import RunMetadata

    metadata = RunMetadata()
    return run_with_options(executable, args, options, metadata), metadata
