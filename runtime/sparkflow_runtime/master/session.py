"""A master's session: the client's graph so far, and what was made ready to run from it."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import (
    AlreadyExistsError,
    CancelledError,
    InvalidArgumentError,
    OpError,
)
from sparkflow_runtime.ir.function import Function, no_function
from sparkflow_runtime.ir.function_def import import_function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import parse_endpoint
from sparkflow_runtime.master.executable import Executable, Request, optimise
from sparkflow_runtime.master.links import WorkerLink
from sparkflow_runtime.master.partial import PartialRun
from sparkflow_runtime.master.placement_log import PlacementLog
from sparkflow_runtime.master.waiting import await_tasks
from sparkflow_runtime.passes.clean import Observe, unobserved
from sparkflow_runtime.passes.partition import Partition
from sparkflow_runtime.passes.place import Placement
from sparkflow_runtime.protos.function_pb2 import FunctionDef
from sparkflow_runtime.worker.step import LoopUpdate


class MasterSession:
    """One client's session. Safe to use from several threads; `_lock` guards graph and cache.

    Args:
        links: The workers by task name.
        default_task: Where nodes without a device go.
        device_filters: The tasks it may use; all when empty.
        allow_soft_placement: Whether nodes may fall back to a CPU.
        timeout_s: How long a step may take that says nothing else.
        log_placement: Whether to tell on stderr where nodes go.
        isolate: Whether variables and queues are the session's own, instead of the tasks'.
        is_wanted: Tasks that have not started are waited for as long as this says True; for
            `links.CONNECT_TIMEOUT_S` when None.

    Attributes:
        handle: The session's unique name.
        devices: What the session may place on, best first.
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
        isolate: bool = False,
        is_wanted: Callable[[], bool] | None = None,
    ) -> None:
        self.handle = uuid.uuid4().hex
        self._links = _filtered(links, device_filters, default_task)
        self._lock = threading.RLock()
        self._graph = Graph()
        self._executables: dict[Hashable, Executable] = {}
        self._partial_runs: dict[str, PartialRun] = {}
        self._numbers = itertools.count()
        self._library: dict[str, FunctionDef] = {}
        self._functions: dict[str, Function] = {}
        self._closed = False
        self._timeout_s = timeout_s
        if is_wanted is not None:
            await_tasks(self._links, is_wanted)
        self.devices = _best_first(self._links, default_task)
        self._placement = Placement(self.devices, allow_soft_placement)
        self._log = PlacementLog(self.devices) if log_placement else None
        for link in self._links.values():
            link.create_session(self.handle, isolate)

    def extend(self, nodes: Graph, functions: Iterable[FunctionDef] = ()) -> None:
        """Adds nodes to the session's graph, and functions to its library.

        Functions that are there already are ignored. They are read when a step calls them: a
        client may send some whose ops are not known here.

        Raises:
            AlreadyExistsError: A node of that name is there already.
        """
        with self._lock:
            self._require_open()
            for node in nodes:
                if node.name in self._graph:
                    raise AlreadyExistsError(
                        message=f"Node {node.name!r} is in the session's graph already"
                    )
            self._graph.nodes.update(nodes.nodes)  # in place: clients add node by node
            for proto in functions:
                self._library.setdefault(proto.signature.name, proto)
            # Cached steps stay right: nodes are only added, and nothing old can depend on them.

    def prepare(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> Executable:
        """The cached or freshly made executable of a request.

        Raises:
            OpError: A name is unknown, a node cannot be placed, a kernel is missing.
        """
        request = _request(feeds, fetches, targets)
        return self._prepare(self._graph, request, request)

    def _prepare(self, graph: Graph, request: Request, key: Hashable) -> Executable:
        with self._lock:
            self._require_open()
            found = self._executables.get(key)
            if found is None:
                partitions = self._optimise(graph, request)
                if self._log is not None:
                    for part in partitions:
                        self._log.tell(part.nodes)
                found = Executable(
                    self.handle,
                    request,
                    partitions,
                    self._link_of,
                    self._timeout_s,
                    lambda observe: self._optimise(graph, request, observe),
                )
                self._executables[key] = found
            return found

    def _optimise(
        self, graph: Graph, request: Request, observe: Observe = unobserved
    ) -> list[Partition]:
        with self._lock:
            return optimise(graph, request, self._placement, self._load, observe)

    def start_partial_run(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> str:
        """Announces a step that is run in several calls, see `PartialRun`; gives its handle.

        Raises:
            OpError: A name is unknown, or nothing is asked for.
        """
        request = _request(feeds, fetches, targets)
        with self._lock:
            self._require_open()
            handle = f"{self.handle}/partial/{next(self._numbers)}"
            self._partial_runs[handle] = PartialRun(self._graph, request, self._prepare)
        return handle

    def partial_run(
        self, handle: str, feeds: Mapping[str, Any], fetches: Sequence[str]
    ) -> list[Any]:
        """One call of a partial run, which is forgotten when all was fed and fetched.

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
        fetches: Sequence[str],
        targets: Sequence[str],
        num_steps: int | None,
        listen: Callable[[LoopUpdate], None],
        first_step: int = 0,
    ) -> Loop:
        """Starts a step loop, see `Executable.start_loop`."""
        executable = self.prepare((), fetches, targets)
        return Loop(executable, num_steps, listen, first_step)

    def close(self) -> None:
        """Ends running steps and has workers forget the session. May be called again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            executables = list(self._executables.values())
        for executable in executables:
            executable.steps.close(CancelledError(message="Session has been closed."))
        for link in self._links.values():
            try:
                link.delete_session(self.handle)
            except OpError:
                continue  # An unreachable worker has no session to delete.

    def reset(self, containers: Sequence[str]) -> None:
        """Drops the resources of these containers on every worker."""
        for link in self._links.values():
            link.clear(tuple(containers))

    def _load(self, name: str) -> Function:
        """A function of the library."""
        if name not in self._functions:
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


class Loop:
    """A running step loop."""

    def __init__(
        self,
        executable: Executable,
        num_steps: int | None,
        listen: Callable[[LoopUpdate], None],
        first_step: int,
    ) -> None:
        self._executable = executable
        self._step_id, self._done = executable.start_loop(num_steps, listen, first_step)

    @property
    def done(self) -> bool:
        """Whether the loop has ended, one way or another."""
        return self._done.done()

    def wait(self, timeout_s: float | None = None) -> int:
        """Blocks until the loop has ended; the number of complete steps.

        Raises:
            OpError: What ended the loop, if not its data, its number of steps or `stop`.
            TimeoutError: It still runs after `timeout_s`.
        """
        return self._done.result(timeout_s)

    def stop(self, reason: str = "The loop was stopped") -> None:
        """Ends the loop in the middle of whatever step it is in."""
        self._executable.steps.cancel(self._step_id, CancelledError(message=reason))


def _filtered(
    links: Mapping[str, WorkerLink], filters: Sequence[str], default_task: str
) -> dict[str, WorkerLink]:
    """The tasks a session may use: those some filter matches, and always the default one."""
    if not filters:
        return dict(links)
    specs = [DeviceSpec.from_string(text) for text in filters]
    return {
        task: link
        for task, link in links.items()
        if task == default_task or any(s.matches(DeviceSpec.from_string(task)) for s in specs)
    }


def _best_first(links: Mapping[str, WorkerLink], default_task: str) -> list[DeviceSpec]:
    """Devices in order of preference: the default task's, GPUs before CPUs, then the others."""
    devices = [spec for link in links.values() for spec in link.devices()]
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
