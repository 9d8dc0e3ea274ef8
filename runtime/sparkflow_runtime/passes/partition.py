"""Cuts a placed graph by device and joins the pieces with bundles.

Every node gets a level: the number of device boundaries on the longest path that leads to it. Nodes
run by level, and everything that crosses from device A to device B out of one level travels in one
bundle. Because all partitions follow one global order, in which each send comes before its receive,
partitions that run their nodes strictly one after another cannot wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.graph import Graph, predecessors, rewired
from sparkflow_runtime.ir.node import SOURCE_ATTR, Endpoint, Node
from sparkflow_runtime.ops import registry

MAX_COPIED_CONSTANT_BYTES: Final = 1 << 16
"""Constants up to this size are copied into each partition that reads them instead of sent."""


@dataclass(slots=True)
class Partition:
    """What one device runs.

    Attributes:
        device: The complete device name.
        nodes: In execution order.
        functions: What the nodes call, bodies in execution order.
    """

    device: str
    nodes: list[Node] = field(default_factory=list)
    functions: Mapping[str, Function] = field(default_factory=dict)


@dataclass(slots=True)
class _Bundle:
    """What travels from one device to another out of one level."""

    key: str
    source: str
    destination: str
    endpoints: list[Endpoint] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)
    last_producer: int = -1
    first_consumer: int = 1 << 62

    @property
    def send_name(self) -> str:
        return f"_send/{self.key}"

    @property
    def recv_name(self) -> str:
        return f"_recv/{self.key}"


def mutates(node: Node) -> bool:
    """Whether the node changes a variable or another resource when it runs."""
    op = registry.lookup(node.op)
    if not op.stateful or op.only_reads:
        return False
    expected = op.signature.input_dtypes(node.attrs)
    return any(d.is_ref or d is dtypes.resource for d in expected)


def schedule(graph: Graph, levels: Mapping[str, int]) -> list[Node]:
    """The global order: by level, within a level what changes state as late as possible."""
    return graph.sorted(priority=lambda node: 2 * levels[node.name] + mutates(node))


def partition(graph: Graph) -> list[Partition]:
    """One partition per device of a placed graph, bundles inserted.

    Raises:
        InvalidArgumentError: A reference or resource handle would have to cross devices.
    """
    devices = dict.fromkeys(node.device for node in graph)
    if len(devices) <= 1:
        order = schedule(graph, dict.fromkeys(graph.nodes, 0))
        return [Partition(device, order) for device in devices]
    graph = _read_at_home(graph)
    levels = _levels(graph)
    order = _constants_near_readers(schedule(graph, levels))
    graph = Graph(order)
    devices = dict.fromkeys(node.device for node in order)
    if len(devices) == 1:
        return [Partition(device, order) for device in devices]
    bundles, by_edge = _bundles(graph, order, levels)
    return _cut(order, list(devices), bundles, by_edge)


def _levels(graph: Graph) -> dict[str, int]:
    levels: dict[str, int] = {}
    for node in graph.sorted():
        level = 0
        for name in predecessors(node):
            producer = graph[name]
            crosses = producer.device != node.device and not _copied(producer)
            level = max(level, levels[name] + crosses)
        levels[node.name] = level
    return levels


def _copied(node: Node) -> bool:
    """Whether the node is repeated in every partition that reads it."""
    return (
        node.op == "Const"
        and not node.control_inputs
        and node.attrs["value"].nbytes <= MAX_COPIED_CONSTANT_BYTES
    )


def _read_at_home(graph: Graph) -> Graph:
    """The graph with variables that are read elsewhere read beside them, and the value sent.

    The read waits for what its reader waits for, and is named after it where it fails.
    """
    added: dict[tuple[Endpoint, tuple[str, ...]], Node] = {}
    changed: list[Node] = []
    for node in graph:
        expected = registry.lookup(node.op).signature.input_dtypes(node.attrs)
        replaced: dict[Endpoint, Endpoint] = {}
        for endpoint, dtype in zip(node.inputs, expected, strict=True):
            producer = graph[endpoint.node]
            if dtype.is_ref or producer.device == node.device or not _is_ref(producer, endpoint):
                continue
            place = (endpoint, node.control_inputs)
            if place not in added:
                attrs = {"T": dtype, SOURCE_ATTR: node.source} if node.source else {"T": dtype}
                name = f"_read/{node.name}/{len(added)}"
                inputs, control = (endpoint,), node.control_inputs
                added[place] = Node(name, "Identity", inputs, control, producer.device, attrs)
            replaced[endpoint] = Endpoint(added[place].name, 0)
        changed.append(rewired(node, replaced))
    return Graph([*changed, *added.values()]) if added else graph


def _is_ref(producer: Node, endpoint: Endpoint) -> bool:
    outputs = registry.lookup(producer.op).signature.output_dtypes(producer.attrs)
    return outputs[endpoint.slot].is_ref


def _constants_near_readers(order: Sequence[Node]) -> list[Node]:
    """The order with constants nobody reads at home moved to a reader's device.

    Otherwise a device could get a partition of nothing but constants that other partitions copy.
    """
    homes: dict[str, dict[str, None]] = {}
    for node in order:
        for name in predecessors(node):
            homes.setdefault(name, {})[node.device] = None
    moved = []
    for node in order:
        readers = homes.get(node.name, {})
        if _copied(node) and readers and node.device not in readers:
            node = Node(node.name, node.op, (), (), next(iter(readers)), node.attrs)
        moved.append(node)
    return moved


def _bundles(
    graph: Graph, order: Sequence[Node], levels: Mapping[str, int]
) -> tuple[dict[str, _Bundle], dict[tuple[str, str], _Bundle]]:
    """All bundles by key, and the bundle of each (producer node, consuming device)."""
    position = {node.name: index for index, node in enumerate(order)}
    changed: set[tuple[str, int]] = set()
    after_change: dict[str, bool] = {}
    for node in order:
        place = (node.device, levels[node.name])
        if mutates(node):
            changed.add(place)
        after_change[node.name] = place in changed
    numbers = {device: i for i, device in enumerate(dict.fromkeys(n.device for n in order))}
    bundles: dict[str, _Bundle] = {}
    by_edge: dict[tuple[str, str], _Bundle] = {}
    for node in order:
        for endpoint in (*node.inputs, *(Endpoint(name, -1) for name in node.control_inputs)):
            producer = graph[endpoint.node]
            if producer.device == node.device or _copied(producer):
                continue
            # A value read before a change of state is sent before it, in a bundle of its own.
            phase = int(after_change[producer.name])
            key = (
                f"{numbers[producer.device]}-{numbers[node.device]}-{levels[producer.name]}-{phase}"
            )
            bundle = bundles.setdefault(key, _Bundle(key, producer.device, node.device))
            by_edge[producer.name, node.device] = bundle
            bundle.last_producer = max(bundle.last_producer, position[producer.name])
            bundle.first_consumer = min(bundle.first_consumer, position[node.name])
            if endpoint.slot < 0:
                if producer.name not in bundle.controls:
                    bundle.controls.append(producer.name)
            elif endpoint not in bundle.endpoints:
                _require_movable(producer, endpoint, node)
                bundle.endpoints.append(endpoint)
    return bundles, by_edge


def _cut(
    order: Sequence[Node],
    devices: Sequence[str],
    bundles: dict[str, _Bundle],
    by_edge: dict[tuple[str, str], _Bundle],
) -> list[Partition]:
    nodes = {node.name: node for node in order}
    partitions = {device: Partition(device) for device in devices}
    present: dict[str, set[str]] = {device: set() for device in devices}
    received: dict[str, dict[Endpoint, Endpoint]] = {device: {} for device in devices}
    sends: dict[int, list[_Bundle]] = {}
    receives: dict[int, list[_Bundle]] = {}
    for bundle in bundles.values():
        sends.setdefault(bundle.last_producer, []).append(bundle)
        receives.setdefault(bundle.first_consumer, []).append(bundle)
    for index, node in enumerate(order):
        for bundle in receives.get(index, ()):
            partitions[bundle.destination].nodes.append(_recv(bundle, nodes))
            for slot, endpoint in enumerate(bundle.endpoints):
                received[bundle.destination][endpoint] = Endpoint(bundle.recv_name, slot)
        home = partitions[node.device]
        for endpoint in node.inputs:
            producer = nodes[endpoint.node]
            if producer.device == node.device or not _copied(producer):
                continue
            if producer.name not in present[node.device]:
                present[node.device].add(producer.name)
                home.nodes.append(Node(producer.name, "Const", (), (), node.device, producer.attrs))
        control = tuple(
            dict.fromkeys(
                _local_control(name, node.device, nodes, by_edge) for name in node.control_inputs
            )
        )
        local = rewired(node, received[node.device])
        control = tuple(name for name in control if name)
        home.nodes.append(Node(node.name, node.op, local.inputs, control, node.device, node.attrs))
        present[node.device].add(node.name)
        for bundle in sends.get(index, ()):
            partitions[bundle.source].nodes.append(_send(bundle, nodes))
    return [each for each in partitions.values() if each.nodes]


def _local_control(
    name: str, device: str, nodes: dict[str, Node], by_edge: dict[tuple[str, str], _Bundle]
) -> str:
    producer = nodes[name]
    if producer.device == device:
        return name
    if _copied(producer):
        return ""
    return by_edge[name, device].recv_name


def _send(bundle: _Bundle, nodes: dict[str, Node]) -> Node:
    attrs = {
        "T": [_dtype(nodes[e.node], e) for e in bundle.endpoints],
        "key": bundle.key,
        "destination": bundle.destination,
    }
    return Node(
        bundle.send_name,
        "_SendBundle",
        tuple(bundle.endpoints),
        tuple(bundle.controls),
        bundle.source,
        attrs,
    )


def _recv(bundle: _Bundle, nodes: dict[str, Node]) -> Node:
    attrs = {
        "T": [_dtype(nodes[e.node], e) for e in bundle.endpoints],
        "key": bundle.key,
        "source": bundle.source,
    }
    return Node(bundle.recv_name, "_RecvBundle", (), (), bundle.destination, attrs)


def _dtype(producer: Node, endpoint: Endpoint) -> DType:
    outputs = registry.lookup(producer.op).signature.output_dtypes(producer.attrs)
    return outputs[endpoint.slot].base


def _require_movable(producer: Node, endpoint: Endpoint, consumer: Node) -> None:
    if _dtype(producer, endpoint) is dtypes.resource:
        raise InvalidArgumentError(
            message=f"{endpoint} is a resource handle on {producer.device}; it cannot be used on "
            f"{consumer.device}"
        ).at(consumer.describe())
