"""Verifies the invariants of graphs after each pass; the only definition of these invariants.

A violation is a bug of a pass, not of the user, so graphs are verified only on request: by tests,
and with `SPARKFLOW_VERIFY=1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InternalError, OpError
from sparkflow_runtime.ir.function import Function, called
from sparkflow_runtime.ir.graph import Graph, predecessors
from sparkflow_runtime.ir.node import ARG, RECEIVE, RETVAL, SEND, Node
from sparkflow_runtime.ir.types import Types, infer_types
from sparkflow_runtime.ops import registry

SHOWN: Final = 10
"""Maximum number of nodes shown around a fault."""


class Part(Protocol):
    """The part that one device runs, see `passes.partition.Partition`."""

    device: str
    nodes: list[Node]
    functions: Mapping[str, Function]
    waits: bool


class _Fault(Exception):
    """A node and its fault."""

    def __init__(self, node: Node, text: str) -> None:
        super().__init__(text)
        self.node = node
        self.text = text


def verify_graph(
    graph: Graph, after: str, types: Types | None = None, is_placed: bool = False
) -> None:
    """Checks that every input exists, that there are no cycles, and that types are unchanged.

    Args:
        graph: A graph between two passes.
        after: The pass that created it, for the error.
        types: What was known of tensors before. Tensors of the same name must have the same dtypes,
            and consistent shapes, which may be less known: a node that determined a shape may have
            been simplified away.
        is_placed: Whether nodes have devices.

    Raises:
        InternalError: It is invalid; the message shows the nodes around the fault.
    """
    with _blaming(after, graph.nodes):
        _check_names(graph)
        for node in graph:
            _check_inputs(node, graph.nodes)
        _check_acyclic(graph)
        _check_types(graph, types or {})
        if is_placed:
            _check_devices(graph)


def verify_functions(graph: Graph, functions: Mapping[str, Function], after: str) -> None:
    """Checks that all called functions exist, in a valid execution order.

    Raises:
        InternalError: They do not, see `verify_graph`.
    """
    with _blaming(after, graph.nodes):
        _check_calls(graph, functions)
    for function in functions.values():
        _verify_body(function, functions, after)


def verify_partitions(parts: Sequence[Part], after: str, types: Types) -> None:
    """Checks that partitions can run concurrently: every awaited bundle is sent.

    Args:
        parts: One for each device.
        after: The pass that created them, for the error.
        types: What was known of tensors before partitioning.

    Raises:
        InternalError: They cannot, see `verify_graph`.
    """
    for part in parts:
        graph = Graph(part.nodes)
        with _blaming(f"{after}, on {part.device}", graph.nodes):
            _check_order(part.nodes)
            for node in part.nodes:
                if node.device != part.device:
                    raise _Fault(node, "is in the partition of another device")
            _check_types(graph, types)
            _check_calls(graph, part.functions)
        for function in part.functions.values():
            _verify_body(function, part.functions, after)
    nodes = {node.name: node for part in parts for node in part.nodes}
    with _blaming(after, nodes):
        _check_numbers([node for part in parts for node in part.nodes], RETVAL)
        _check_meetings(parts)


def _verify_body(function: Function, functions: Mapping[str, Function], after: str) -> None:
    with _blaming(f"{after}, in function {function.name!r}", function.body.nodes):
        nodes = list(function.body)
        _check_order(nodes)
        _check_types(function.body, {})
        _check_numbers(nodes, ARG)
        _check_numbers(nodes, RETVAL)
        _check_calls(function.body, functions)


# ------------------------------------------------------------------------------ checks


def _check_names(graph: Graph) -> None:
    for name, node in graph.nodes.items():
        if name != node.name:
            raise _Fault(node, f"is in the graph as {name!r}")
        if not registry.contains(node.op):
            raise _Fault(node, "has an op type that is not registered")


def _check_inputs(node: Node, there: Mapping[str, Node]) -> None:
    for endpoint in node.inputs:
        producer = there.get(endpoint.node)
        if producer is None:
            raise _Fault(node, f"reads {endpoint}, which does not exist before it")
        count = len(registry.lookup(producer.op).signature.output_dtypes(producer.attrs))
        if not 0 <= endpoint.slot < count:
            raise _Fault(node, f"reads {endpoint}, and {producer.op} has {count} outputs")
    for name in node.control_inputs:
        if name not in there:
            raise _Fault(node, f"waits for {name!r}, which does not exist before it")


def _check_order(nodes: Sequence[Node]) -> None:
    """Checks that every node occurs once, after its inputs and control inputs."""
    there: dict[str, Node] = {}
    for node in nodes:
        if node.name in there:
            raise _Fault(node, "occurs twice")
        _check_inputs(node, there)
        there[node.name] = node


def _check_acyclic(graph: Graph) -> None:
    name = _on_a_cycle({node.name: list(predecessors(node)) for node in graph})
    if name is not None:
        raise _Fault(graph[name], "waits for itself")


def _on_a_cycle(before: Mapping[str, Sequence[str]]) -> str | None:
    """Returns a node that waits for itself, directly or indirectly; None if none does."""
    done: set[str] = set()
    for first in before:
        path: dict[str, Iterator[str]] = {first: iter(before[first])} if first not in done else {}
        while path:
            name, others = next(reversed(path.items()))
            other = next((each for each in others if each not in done), None)
            if other is None:
                done.add(name)
                del path[name]
            elif other in path:
                return other
            else:
                path[other] = iter(before[other])
    return None


def _check_types(graph: Graph, noted: Types) -> None:
    """Checks that types can be computed, and are consistent with the known ones."""
    try:
        found = infer_types(graph)
    except OpError as error:
        text = str(error)
        node = next((each for each in graph if each.describe() in text), None)
        if node is None:
            raise
        raise _Fault(node, f"has no type: {error.message}") from error
    for endpoint, now in found.items():
        before = noted.get(endpoint)
        if before is None or before == now:
            continue
        node = graph[endpoint.node]
        if before.dtype is not now.dtype:
            raise _Fault(node, f"has {now.dtype.name} at {endpoint}, was {before.dtype.name}")
        if not shapes.is_compatible(before.shape, now.shape):
            was, is_now = shapes.text(before.shape), shapes.text(now.shape)
            raise _Fault(node, f"has the shape {is_now} at {endpoint}, was {was}")


def _check_devices(graph: Graph) -> None:
    """Checks that all nodes have devices, and that tensors that cannot travel stay on theirs."""
    for node in graph:
        if not node.device:
            raise _Fault(node, "has no device")
        signature = registry.lookup(node.op).signature
        if not signature.binds_to_inputs:
            continue
        for endpoint, dtype in zip(node.inputs, signature.input_dtypes(node.attrs), strict=True):
            stays = dtype.is_ref or dtype in (dtypes.resource, dtypes.variant)
            if stays and graph[endpoint.node].device != node.device:
                raise _Fault(node, f"reads {endpoint} ({dtype.name}), which is on another device")


def _check_calls(graph: Graph, functions: Mapping[str, Function]) -> None:
    for node in graph:
        for name in called(node):
            if name not in functions:
                raise _Fault(node, f"calls the function {name!r}, which does not exist")


def _check_numbers(nodes: Sequence[Node], op: str) -> None:
    """Checks that arguments or results are numbered consecutively from 0."""
    found = [node for node in nodes if node.op == op]
    seen: set[int] = set()
    for node in found:
        index = node.attrs["index"]
        if index in seen or not 0 <= index < len(found):
            raise _Fault(node, f"has the number {index}, which is taken or too large")
        seen.add(index)


def _check_meetings(parts: Sequence[Part]) -> None:
    """Checks that every bundle is sent once and received once, and that there is no deadlock."""
    sends = _by_key(parts, SEND)
    receives = _by_key(parts, RECEIVE)
    for key in [*sends, *receives]:
        sent, received = sends.get(key), receives.get(key)
        if sent is None or received is None:
            node = sent or received
            assert node is not None
            raise _Fault(node, f"has the key {key!r}, but no node is the other end")
        ends = (sent.attrs["destination"], sent.device) == (
            received.device,
            received.attrs["source"],
        )
        if not ends or any(sent.attrs[name] != received.attrs[name] for name in ("T", "lent")):
            raise _Fault(sent, f"and {received.definition} do not agree on the bundle {key!r}")
    before: dict[str, list[str]] = {}
    for part in parts:
        last: list[str] = []
        for node in part.nodes:
            place = f"{part.device} {node.name}"
            names = predecessors(node) if part.waits else last
            before[place] = [f"{part.device} {name}" for name in names]
            if node.op == RECEIVE:
                sent = sends[node.attrs["key"]]
                before[place].append(f"{sent.device} {sent.name}")
            last = [node.name]
    place_or_none = _on_a_cycle(before)
    if place_or_none is not None:
        device, name = place_or_none.split(" ", 1)
        node = next(
            n for part in parts if part.device == device for n in part.nodes if n.name == name
        )
        raise _Fault(node, "is waited for by another device that it waits for")


def _by_key(parts: Sequence[Part], op: str) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for part in parts:
        for node in part.nodes:
            if node.op == op:
                key = node.attrs["key"]
                if key in found:
                    raise _Fault(node, f"has the key {key!r}, as {found[key].name!r} has")
                found[key] = node
    return found


# ------------------------------------------------------------------------------ messages


@contextmanager
def _blaming(after: str, nodes: Mapping[str, Node]) -> Iterator[None]:
    try:
        yield
    except _Fault as fault:
        shown = "\n".join(_around(fault.node, nodes))
        text = f"After the pass {after}: {fault.text}\n{shown}"
        raise InternalError(message=text).at(fault.node.describe()) from fault.__cause__


def _around(center: Node, nodes: Mapping[str, Node]) -> list[str]:
    """Returns the definitions of a node and its neighbours, in graph order."""
    near: dict[str, list[str]] = {}
    for node in nodes.values():
        for name in predecessors(node):
            near.setdefault(node.name, []).append(name)
            near.setdefault(name, []).append(node.name)
    chosen = {center.name}
    waiting = [center.name]
    while waiting:
        for other in near.get(waiting.pop(0), ()):
            if other not in chosen and other in nodes and len(chosen) < SHOWN:
                chosen.add(other)
                waiting.append(other)
    lines = []
    for node in nodes.values():
        if node.name in chosen:
            mark = ">" if node.name == center.name else " "
            on = f"  on {node.device}" if node.device else ""
            made = f"  defined at {node.source}" if node.source else ""
            lines.append(f"{mark} {node.definition}{on}{made}")
    return lines
