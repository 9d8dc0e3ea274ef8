"""Partial runs: one step of a graph in several calls, each with some feeds and some fetches.

Each call runs, once, every node that the feeds so far allow. The outputs that later nodes need are
kept on the host and fed to the next call's step, so that this is an ordinary step on the remaining
nodes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node, parse_endpoint
from sparkflow_runtime.master.executable import Executable
from sparkflow_runtime.master.pipeline import Request
from sparkflow_runtime.ops import registry

Prepare = Callable[[Graph, Request, Hashable], Executable]


class PartialRun:
    """The state of one partial run. Safe to use from several threads: calls wait for one another.

    Args:
        graph: The session's graph.
        request: Everything that will be fed, fetched and run.
        prepare: Prepares a part of the graph; equal keys denote equal parts.

    Raises:
        InvalidArgumentError: Nothing is requested.
    """

    def __init__(self, graph: Graph, request: Request, prepare: Prepare) -> None:
        if not request.fetches and not request.targets:
            raise InvalidArgumentError(
                message="PRunSetup: Must specify at least one target to fetch or execute."
            )
        self._request = request
        self._prepare = prepare
        self._lock = threading.Lock()
        self._fetched: set[Endpoint] = set()
        self._values: dict[Endpoint, Any] = {}
        self._done: set[str] = set()
        self._cut = _cut(graph, request.feeds)
        self._graph = _needed(graph, request, self._cut)
        self._readers: dict[Endpoint, list[str]] = {}
        for node in self._graph:
            for endpoint in node.inputs:
                self._readers.setdefault(endpoint, []).append(node.name)

    @property
    def is_complete(self) -> bool:
        """Whether everything was fed and fetched."""
        return self._fetched.issuperset(self._request.fetches) and all(
            feed in self._values for feed in self._request.feeds
        )

    def run(self, feeds: Mapping[str, Any], fetches: Sequence[str]) -> list[Any]:
        """Runs the nodes that these feeds allow.

        Args:
            feeds: Host arrays by tensor name.
            fetches: The tensors whose values are returned.

        Raises:
            InvalidArgumentError: Something was not announced, was fed or fetched before, or cannot
                be computed yet.
            OpError: A node failed.
        """
        with self._lock:
            given, wanted = self._checked(feeds, fetches)
            ready = self._ready(given)
            for endpoint in wanted:
                known = endpoint in self._values or endpoint in given
                if not known and endpoint.node not in ready:
                    raise InvalidArgumentError(
                        message=f"Fetch {endpoint} can't be computed from the feeds that have "
                        "been fed so far."
                    )
            self._values.update(given)  # not before: a refused call feeds nothing
            read = self._advance(ready, self._variables_read(wanted))
            self._fetched.update(wanted)
            return [read[each] if each in read else self._values[each] for each in wanted]

    def _checked(
        self, feeds: Mapping[str, Any], fetches: Sequence[str]
    ) -> tuple[dict[Endpoint, Any], list[Endpoint]]:
        """Returns the fed values and the fetches."""
        given = {parse_endpoint(name): value for name, value in feeds.items()}
        wanted = [parse_endpoint(name) for name in fetches]
        for kind, announced, done, endpoints, past in (
            ("feed", self._request.feeds, self._values, given, "fed"),
            ("fetch", self._request.fetches, self._fetched, wanted, "fetched"),
        ):
            for endpoint in endpoints:
                if endpoint not in announced:
                    raise InvalidArgumentError(
                        message=f"The {kind} {endpoint} was not specified in partial_run_setup."
                    )
                if endpoint in done:
                    raise InvalidArgumentError(
                        message=f"The {kind} {endpoint} has already been {past}."
                    )
        return given, wanted

    def _ready(self, new: Mapping[Endpoint, Any]) -> set[str]:
        """Returns the nodes that the feeds so far allow to run, including those that have run.

        Args:
            new: The new feeds.
        """
        fed = set(self._request.feeds)
        values = self._values.keys() | new.keys()
        given = {endpoint.node for endpoint in fed if endpoint in values}
        ready: set[str] = set()
        for node in self._graph.sorted():
            if node.name in self._cut:
                continue
            data = all(
                each in values if each in fed else each.node in ready for each in node.inputs
            )
            waits = all(
                name in given if name in self._cut else name in ready
                for name in node.control_inputs
            )
            if data and waits:
                ready.add(node.name)
        return ready

    def _advance(
        self, ready: set[str], variables: Mapping[Endpoint, Endpoint]
    ) -> dict[Endpoint, Any]:
        """Runs the nodes that are ready and have not run; returns the values of variables."""
        new = [node for node in self._graph if node.name in ready and node.name not in self._done]
        new = [node for node in new if not _is_state(node)]
        if not new and not variables:
            return {}
        names = {node.name for node in new}
        feeds = tuple(
            dict.fromkeys(each for node in new for each in node.inputs if each in self._values)
        )
        fetches = tuple(
            Endpoint(node.name, slot)
            for node in new
            for slot, dtype in enumerate(_dtypes(node))
            if self._is_kept(Endpoint(node.name, slot), dtype, ready)
        )
        fed_nodes = {endpoint.node for endpoint in self._values}
        nodes = [
            _waiting_for(node, names) if node.name in names else node
            for node in self._graph
            if node.name in names or _is_state(node) or node.name in fed_nodes
        ]
        everything = (*fetches, *variables.values())
        request = Request(feeds, everything, tuple(node.name for node in new))
        key = (self._request, frozenset(names), request)
        executable = self._prepare(Graph(nodes), request, key)
        values = executable.run([self._values[feed] for feed in feeds])
        self._done |= names
        self._values.update(zip(fetches, values, strict=False))
        return dict(zip(variables, values[len(fetches) :], strict=True))

    def _variables_read(self, wanted: Sequence[Endpoint]) -> dict[Endpoint, Endpoint]:
        """Returns, per fetch of a variable's value, the variable, which is read on request."""
        found: dict[Endpoint, Endpoint] = {}
        fed = self._request.feeds
        for endpoint in wanted:
            source, node = endpoint, self._graph[endpoint.node]
            while _passes_on(node) and source not in fed:
                source = node.inputs[source.slot]
                node = self._graph[source.node]
            if _is_state(node) and source not in fed:
                found[endpoint] = source
        return found

    def _is_kept(self, endpoint: Endpoint, dtype: DType, ready: set[str]) -> bool:
        if dtype in (dtypes.resource, dtypes.variant):
            return False
        later = any(name not in ready for name in self._readers.get(endpoint, ()))
        return later or endpoint in self._request.fetches


def _cut(graph: Graph, feeds: Sequence[Endpoint]) -> set[str]:
    """Returns the nodes all of whose outputs are fed, which therefore never run."""
    return {
        each.node
        for each in feeds
        if all(Endpoint(each.node, i) in feeds for i in range(len(_dtypes(graph[each.node]))))
    }


def _needed(graph: Graph, request: Request, cut: set[str]) -> Graph:
    """Returns the requested subgraph and the fed nodes; those in `cut` without their inputs."""
    fed = set(request.feeds)
    kept: dict[str, Node] = {}
    stack = [each.node for each in request.fetches if each not in fed] + list(request.targets)
    stack += [each.node for each in request.feeds]
    while stack:
        name = stack.pop()
        if name in kept:
            continue
        node = kept[name] = graph[name]
        if name in cut:
            continue
        stack += [each.node for each in node.inputs if each not in fed]
        stack += node.control_inputs
    return Graph(
        Node(node.name, node.op, (), (), node.device, node.attrs) if node.name in cut else node
        for node in graph
        if node.name in kept
    )


def _waiting_for(node: Node, names: set[str]) -> Node:
    """Returns the node without control inputs that have already run."""
    control = tuple(name for name in node.control_inputs if name in names)
    return Node(node.name, node.op, node.inputs, control, node.device, node.attrs)


def _passes_on(node: Node) -> bool:
    return registry.lookup(node.op).passes_on and not node.control_inputs


def _is_state(node: Node) -> bool:
    """Whether it is a variable or a handle, which can be requested again in each call."""
    return not node.inputs and any(
        dtype.is_ref or dtype is dtypes.resource for dtype in _dtypes(node)
    )


def _dtypes(node: Node) -> Sequence[DType]:
    return registry.lookup(node.op).signature.output_dtypes(node.attrs)
