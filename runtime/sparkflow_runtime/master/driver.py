"""A master without a task of its own: the Spark driver's, over the tasks of a running cluster.

`OneTaskMaster` replaces it if the whole cluster is one worker in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from sparkflow_runtime.device.names import DeviceSpec, task_of
from sparkflow_runtime.errors import InvalidArgumentError, UnavailableError
from sparkflow_runtime.ir.graph_def import import_graph
from sparkflow_runtime.master.links import LocalLink
from sparkflow_runtime.master.loops.step_loop import Loop
from sparkflow_runtime.master.remote_link import RemoteLink
from sparkflow_runtime.master.running import StepTimedOutError
from sparkflow_runtime.master.session import MasterSession
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.security.defaults import session_credentials
from sparkflow_runtime.transport.channel.address import Transport
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.peers import Peers
from sparkflow_runtime.transport.task_names import addresses
from sparkflow_runtime.worker.loop import LoopTerms
from sparkflow_runtime.worker.worker import Worker

_NO_HOSTS: Final[Mapping[str, str]] = MappingProxyType({})


class Master(Protocol):
    """Opens sessions over a cluster."""

    def create_session(
        self, graph_def: GraphDef, *, device_filters: Sequence[str] = (), default_task: str = ""
    ) -> DriverSession:
        """Opens a session on a graph, see `DriverMaster.create_session`."""

    def lose(self, task: str) -> None:
        """Gives a task up, by its full name, from any thread. See `DriverMaster.lose`."""

    def close(self) -> None:
        """Releases the tasks; may be called again."""


class DriverMaster:
    """Opens sessions over all tasks of a cluster. Thread-safe; `close` may be called again.

    Args:
        cluster: The tasks.
        credentials: The credentials for them: a token, or `Credentials` for TLS; None for the
            default of sessions.
        transport: How tensors travel between it and the tasks.
        answer_timeout_s: How long a step that is not a loop may take before its tasks count as
            unreachable; None: no limit.
        hosts: Tasks that exist in graphs only, by name, with the task that runs their nodes: on its
            first CPU, in the same partition as its own (ADR 0077).
    """

    def __init__(
        self,
        cluster: ClusterDef,
        credentials: str | Credentials | None,
        transport: Transport = "auto",
        answer_timeout_s: float | None = None,
        hosts: Mapping[str, str] = _NO_HOSTS,
    ) -> None:
        tasks = addresses(cluster)
        shown = Credentials.of(credentials)
        if credentials is None and tasks:
            shown = session_credentials(next(iter(tasks.values())))
        token, tls = shown.token, shown.tls
        self._answer_timeout_s = answer_timeout_s
        self._hosts = hosts
        self._peers = Peers(tasks, Self(token=token, tls=tls, transport=transport))
        self._links = {
            task: RemoteLink(task, address, token, tls, self._peers)
            for task, address in tasks.items()
        }

    def create_session(
        self, graph_def: GraphDef, *, device_filters: Sequence[str] = (), default_task: str = ""
    ) -> DriverSession:
        """Opens a session on a graph.

        Args:
            graph_def: The whole graph.
            device_filters: The tasks the session may use, e.g. `["/job:ps", "/job:worker/task:1"]`.
                Nodes pinned to `/job:worker` without a task go to the one that the filters allow.
            default_task: The task of nodes without a device; by default the first one matched by
                the last filter.

        Raises:
            UnavailableError: A task cannot be reached.
            InvalidArgumentError: The filters match no task, or the graph cannot be read.
        """
        if self._hosts:
            graph_def = _relocated(graph_def, self._on_hosts(device_filters))
            device_filters = self._with_hosts(device_filters)
        default = default_task or self._default(device_filters)
        session = MasterSession(
            self._links,
            default_task=default,
            device_filters=device_filters,
            timeout_s=self._answer_timeout_s,
        )
        session.extend(import_graph(graph_def), graph_def.library.function)
        return DriverSession(session, self._answer_timeout_s)

    def lose(self, task: str) -> None:
        """Gives up a task that is known to be gone or unreachable.

        Its calls end at once with an UnavailableError or a CancelledError, rather than when gRPC
        gives up the connection; so do later calls.

        Args:
            task: Its full name; unknown ones are ignored.
        """
        self._peers.lose(task)
        if task in self._links:
            self._links[task].close()

    def close(self) -> None:
        """Closes the channels to all tasks."""
        self._peers.close()
        for link in self._links.values():
            link.close()

    def _on_hosts(self, filters: Sequence[str]) -> Callable[[DeviceSpec], DeviceSpec]:
        """Returns where nodes of a device run, for a session with these filters.

        The session may use all hosts, so a job without a task has to become that of the filters.
        """
        named = [DeviceSpec.from_string(text) for text in filters]
        tasks = {spec.job: spec.task for spec in named if spec.task is not None}

        def place(device: DeviceSpec) -> DeviceSpec:
            host = self._hosts.get(_task(device))
            if host is not None:
                return _at(DeviceSpec.from_string(host), device)
            if device.task is None and device.job in tasks:
                return replace(device, task=tasks[device.job])
            return device

        return place

    def _with_hosts(self, filters: Sequence[str]) -> Sequence[str]:
        """Returns these filters, preceded by the hosts of tasks that they match."""
        specs = [DeviceSpec.from_string(text) for text in filters]
        matched = [
            host
            for task, host in self._hosts.items()
            if any(spec.matches(DeviceSpec.from_string(task)) for spec in specs)
        ]
        return [*matched, *filters]

    def _default(self, filters: Sequence[str]) -> str:
        wanted = filters[-1] if filters else ""
        spec = DeviceSpec.from_string(wanted)
        for task in self._links:
            if spec.matches(DeviceSpec.from_string(task)):
                return task
        raise InvalidArgumentError(
            message=f"Device filter {wanted!r} matches none of {', '.join(self._links)}"
        )


class OneTaskMaster:
    """Opens sessions on a worker of this process, which acts as all tasks. Needs no socket.

    Nodes of parameter server n run on the worker's CPU n + 1, all others on CPU 0: so the graph is
    partitioned as it would be between processes, and the results are the same, bit for bit.
    Thread-safe; `close` may be called again.

    Args:
        worker: Has one CPU more than there are parameter servers with a task of their own. The
            caller closes it.
        hosts: See `DriverMaster`.
    """

    def __init__(self, worker: Worker, hosts: Mapping[str, str] = _NO_HOSTS) -> None:
        self._task = worker.task
        self._hosts = hosts
        self._link = LocalLink(worker)

    def create_session(
        self, graph_def: GraphDef, *, device_filters: Sequence[str] = (), default_task: str = ""
    ) -> DriverSession:
        """Opens a session on a graph, see `DriverMaster.create_session`.

        Args:
            graph_def: The whole graph.
            device_filters: Ignored, as there is one task.
            default_task: Ignored.

        Raises:
            InvalidArgumentError: The graph cannot be read.
        """
        here = _relocated(graph_def, self._place)
        session = MasterSession({self._task: self._link}, default_task=self._task)
        session.extend(import_graph(here), here.library.function)
        return DriverSession(session)

    def _place(self, device: DeviceSpec) -> DeviceSpec:
        if _task(device) in self._hosts:
            return _at(DeviceSpec(), device)
        if device.job == "ps" and device.device_type is None:
            return DeviceSpec(device_type="CPU", device_index=(device.task or 0) + 1)
        return replace(device, job=None, replica=None, task=None)

    def lose(self, task: str) -> None:
        """See `DriverMaster.lose`. Does nothing, as there is only this process."""

    def close(self) -> None:
        """Ends the threads in which partitions run."""
        self._link.close()


def _task(device: DeviceSpec) -> str:
    """The full name of a device's task: the first one of its job if it names none."""
    return replace(device, replica=0, task=device.task or 0, device_type=None).to_string()


def _at(host: DeviceSpec, device: DeviceSpec) -> DeviceSpec:
    """The device of a host that stands for one of a task that it hosts."""
    kind = device.device_type or "CPU"
    return replace(host, device_type=kind, device_index=device.device_index or 0)


def _relocated(graph_def: GraphDef, place: Callable[[DeviceSpec], DeviceSpec]) -> GraphDef:
    """Returns a copy of the graph in which `place` has replaced the devices of nodes."""
    moved = GraphDef()
    moved.CopyFrom(graph_def)
    devices: dict[str, str] = {}
    for node in _nodes(moved):
        device = node.device
        if device not in devices:
            devices[device] = place(DeviceSpec.from_string(device)).to_string()
        node.device = devices[device]
    return moved


def _nodes(graph_def: GraphDef) -> Iterator[NodeDef]:
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


class DriverSession:
    """A session of the driver's master.

    Args:
        session: The session.
        answer_timeout_s: See `DriverMaster`.
    """

    def __init__(self, session: MasterSession, answer_timeout_s: float | None = None) -> None:
        self._session = session
        self._answer_timeout_s = answer_timeout_s

    def run(
        self, fetches: Sequence[str], feeds: Mapping[str, Any], targets: Sequence[str]
    ) -> list[Any]:
        """Runs one step and returns the fetched values.

        Raises:
            UnavailableError: The tasks have not answered for the master's `answer_timeout_s`.
            OpError: The first failure of any partition.
        """
        executable = self._session.prepare(list(feeds), fetches, targets)
        try:
            return executable.run([np.asarray(value) for value in feeds.values()])
        except StepTimedOutError as error:
            tasks = " or ".join(dict.fromkeys(task_of(part.device) for part in executable.parts))
            raise _no_answer(tasks, error.message) from error

    def run_loop(
        self, fetches: Sequence[str], targets: Sequence[str], num_steps: int, first_step: int
    ) -> None:
        """Runs a step loop until it ends, see `start_loop`. Blocks.

        Raises:
            UnavailableError: It has not ended after the master's `answer_timeout_s`.
            OpError: The error that ended it.
        """
        try:
            self.start_loop(fetches, targets, num_steps, first_step).wait(self._answer_timeout_s)
        except TimeoutError as error:
            raise _no_answer(f"all tasks in step {first_step}", str(error)) from error

    def start_loop(
        self,
        fetches: Sequence[str],
        targets: Sequence[str],
        num_steps: int | None = None,
        first_step: int = 0,
    ) -> Loop:
        """Starts a step loop on all tasks the graph needs.

        Args:
            fetches: Tensors reported for every step.
            targets: Operations to run in every step.
            num_steps: Maximum number of steps; None: until the data end.
            first_step: The number of the first step, for loops that continue earlier ones.
        """
        return self._session.start_loop({}, fetches, targets, LoopTerms(num_steps, first_step))

    def close(self) -> None:
        """Ends running steps and loops and forgets the session."""
        self._session.close()


def _no_answer(whom: str, why: str) -> UnavailableError:
    return UnavailableError(
        message=f"No answer from {whom}: {why}. A message was lost, or a process or machine is "
        "suspended"
    )
