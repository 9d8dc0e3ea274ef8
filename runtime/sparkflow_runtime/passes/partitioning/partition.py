"""Cuts a placed graph into one partition per device, connected by bundles.

Every node gets a level: the number of device boundaries on the longest path that leads to it. Nodes
run by level, and all tensors that cross from device A to device B from one level are sent in one
bundle, except those sent earlier (see `bundles`). All partitions follow one global order, in which
each send comes before its receive, so partitions that run their nodes strictly sequentially cannot
deadlock. A node may be assigned to a later level: so the stages of a pipeline process one
micro-batch after another. Tensors after different ops that may wait are sent in different bundles,
and nodes are ordered first by the waiting ops before them (see `ir.strands`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from sparkflow_runtime.ir.effects import mutates
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.graph import Graph, predecessors, rewired
from sparkflow_runtime.ir.node import (
    RECEIVE,
    SEND,
    SOURCE_ATTR,
    START,
    TURN_ATTR,
    WAIT,
    Endpoint,
    Node,
)
from sparkflow_runtime.ir.strands import (
    Classes,
    are_ordered,
    find_classes,
    in_order_of_classes,
    may_block,
)
from sparkflow_runtime.ir.types import Types
from sparkflow_runtime.ops import registry
from sparkflow_runtime.passes.partitioning.bundles import (
    Bundle,
    Bundles,
    Splitting,
    copied,
    find_bundles,
    static_type,
    value_dtype,
)
from sparkflow_runtime.shapes import is_fully_defined

_NO_FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType({})
_NO_TYPES: Final[Types] = MappingProxyType({})


@dataclass(slots=True)
class Partition:
    """The part of a graph that one device runs.

    Attributes:
        device: The complete device name.
        nodes: In execution order.
        functions: The functions that the nodes call, bodies in execution order.
        waits: Whether some nodes wait while others continue: then execution may differ from this
            order.
    """

    device: str
    nodes: list[Node] = field(default_factory=list)
    functions: Mapping[str, Function] = field(default_factory=dict)
    waits: bool = False


def schedule(
    graph: Graph, levels: Mapping[str, int], arrivals: Mapping[str, int] | None = None
) -> list[Node]:
    """Returns the global order: by level, then with changes of state as late as possible.

    Collectives start as early as possible: a thread exchanges while the partition continues.

    Args:
        graph: The nodes.
        levels: By node, the number of device boundaries before it.
        arrivals: By node, when its input is sent; missing if irrelevant.
    """
    count = len(graph)

    def priority(node: Node) -> int:
        return 3 * levels[node.name] + (0 if node.op == START else 1 + mutates(node))

    if not arrivals:
        return graph.sorted(priority)
    return graph.sorted(lambda node: priority(node) * count + arrivals.get(node.name, 0))


def partition(
    graph: Graph,
    splitting: Splitting | None = None,
    functions: Mapping[str, Function] = _NO_FUNCTIONS,
) -> list[Partition]:
    """Returns one partition per device of a placed graph, with bundles inserted.

    Args:
        graph: The graph.
        splitting: Which bundles are split, so that large tensors leave early; None for none.
        functions: The functions that its nodes call.

    Raises:
        InvalidArgumentError: A reference or resource handle would have to cross devices.
    """
    devices = dict.fromkeys(node.device for node in graph)
    if len(devices) <= 1:
        joint = waiting_for_all(graph)
        levels = dict.fromkeys(graph.nodes, 0) if joint is graph else _levels(joint)
        order = schedule(graph, levels)
        classes = find_classes([joint[node.name] for node in order], may_block(functions))
        return [_ordered(Partition(device, order), classes) for device in devices]
    graph = _read_at_home(graph)
    joint = waiting_for_all(graph)
    levels = _levels(joint)
    order = _constants_near_readers(schedule(graph, levels))
    graph = Graph(order)
    devices = dict.fromkeys(node.device for node in order)
    together = [replace(joint[node.name], device=node.device) for node in order]
    classes = find_classes(together, may_block(functions))
    if len(devices) == 1:
        return [_ordered(Partition(device, order), classes) for device in devices]
    bundles = find_bundles(graph, order, levels, splitting, classes)
    if bundles.early:
        # Updates are applied in order of arrival.
        order = schedule(graph, levels, bundles.early)
        bundles = find_bundles(graph, order, levels, splitting, classes)
    # Bundles of a pipeline arrive late in the step, after its plan was chosen by shapes.
    types = splitting.types if splitting is not None and _is_pipeline(order) else _NO_TYPES
    parts = _cut(order, list(devices), bundles, types)
    if classes is None:
        return parts
    crossing = {name: each.behind for each in bundles.all for name in each.names}
    return [_ordered(part, {**classes, **crossing}) for part in parts]


def _ordered(part: Partition, classes: Classes | None) -> Partition:
    """Returns the partition with no node ordered after a waiting op on which it does not depend."""
    if classes is None:
        return part
    waits = not are_ordered(classes[node.name] for node in part.nodes)
    return replace(part, nodes=in_order_of_classes(part.nodes, classes), waits=waits)


def _levels(graph: Graph) -> dict[str, int]:
    levels: dict[str, int] = {}
    nodes = graph.nodes
    for node in graph.sorted():
        level: int = node.attrs.get(TURN_ATTR, 0)
        for name in predecessors(node):
            producer = nodes[name]
            own = levels[name]
            if producer.device != node.device:
                own += not copied(producer)
            elif producer.op == START and node.op == WAIT:  # nodes of others come between
                own += 1
            level = max(level, own)
        levels[node.name] = level
    return levels


def _read_at_home(graph: Graph) -> Graph:
    """Returns the graph with remote reads of variables moved to the variables, the values sent.

    The read waits for what its reader waits for, and errors name the reader.
    """
    added: dict[tuple[Endpoint, tuple[str, ...]], Node] = {}
    changed: list[Node] = []
    nodes = graph.nodes
    for node in graph:
        if all(nodes[endpoint.node].device == node.device for endpoint in node.inputs):
            changed.append(node)
            continue
        expected = registry.lookup(node.op).signature.input_dtypes(node.attrs)
        replaced: dict[Endpoint, Endpoint] = {}
        for endpoint, dtype in zip(node.inputs, expected, strict=True):
            producer = nodes[endpoint.node]
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
    """Moves constants without readers on their device to a reader's device.

    Otherwise a device could get a partition of constants only, which other partitions copy.
    """
    homes: dict[str, dict[str, None]] = {}
    for node in order:
        for name in predecessors(node):
            homes.setdefault(name, {})[node.device] = None
    moved = []
    for node in order:
        readers = homes.get(node.name, {})
        if copied(node) and readers and node.device not in readers:
            node = Node(node.name, node.op, (), (), next(iter(readers)), node.attrs)
        moved.append(node)
    return moved


def _is_pipeline(nodes: Sequence[Node]) -> bool:
    return any(TURN_ATTR in node.attrs for node in nodes)


def _cut(
    order: Sequence[Node], devices: Sequence[str], bundles: Bundles, types: Types
) -> list[Partition]:
    nodes = {node.name: node for node in order}
    partitions = {device: Partition(device) for device in devices}
    present: dict[str, set[str]] = {device: set() for device in devices}
    received: dict[str, dict[Endpoint, Endpoint]] = {device: {} for device in devices}
    sends: dict[int, list[Bundle]] = {}
    receives: dict[int, list[Bundle]] = {}
    for bundle in bundles.all:
        sends.setdefault(bundle.last_producer, []).append(bundle)
        receives.setdefault(bundle.first_consumer, []).append(bundle)
    for index, node in enumerate(order):
        for bundle in receives.get(index, ()):
            partitions[bundle.destination].nodes.append(_recv(bundle, nodes, types))
            for slot, endpoint in enumerate(bundle.endpoints):
                received[bundle.destination][endpoint] = Endpoint(bundle.recv_name, slot)
        home = partitions[node.device]
        for endpoint in node.inputs:
            producer = nodes[endpoint.node]
            if producer.device == node.device or not copied(producer):
                continue
            if producer.name not in present[node.device]:
                present[node.device].add(producer.name)
                home.nodes.append(Node(producer.name, "Const", (), (), node.device, producer.attrs))
        local = rewired(node, received[node.device])
        if node.control_inputs:
            control = dict.fromkeys(
                _local_control(name, node.device, nodes, bundles) for name in node.control_inputs
            )
            local = replace(local, control_inputs=tuple(name for name in control if name))
        home.nodes.append(local)
        present[node.device].add(node.name)
        for bundle in sends.get(index, ()):
            partitions[bundle.source].nodes.append(_send(bundle, nodes))
    return [each for each in partitions.values() if each.nodes]


def _local_control(name: str, device: str, nodes: Mapping[str, Node], bundles: Bundles) -> str:
    producer = nodes[name]
    if producer.device == device:
        return name
    if copied(producer):
        return ""
    return bundles.by_edge[name, device].recv_name


def _send(bundle: Bundle, nodes: dict[str, Node]) -> Node:
    attrs = {
        "T": [value_dtype(nodes[e.node], e) for e in bundle.endpoints],
        "key": bundle.key,
        "destination": bundle.destination,
        "lent": [],
    }
    return Node(
        bundle.send_name,
        SEND,
        tuple(bundle.endpoints),
        tuple(bundle.controls),
        bundle.source,
        attrs,
    )


def _recv(bundle: Bundle, nodes: dict[str, Node], types: Types) -> Node:
    attrs: dict[str, Any] = {
        "T": [value_dtype(nodes[e.node], e) for e in bundle.endpoints],
        "key": bundle.key,
        "source": bundle.source,
        "lent": [],
        "behind": sorted(bundle.behind),
    }
    if types:
        found = [static_type(nodes, types, each) for each in bundle.endpoints]
        attrs["shapes"] = [
            each.shape if each is not None and is_fully_defined(each.shape) else None
            for each in found
        ]
    return Node(bundle.recv_name, RECEIVE, (), (), bundle.destination, attrs)


def waiting_for_all(graph: Graph) -> Graph:
    """Returns the graph with the wait of each collective after the starts of all its ranks."""
    starts: dict[tuple[int, int], list[str]] = {}
    for node in graph:
        if node.op == START:
            starts.setdefault(_instance(node), []).append(node.name)
    if not starts:
        return graph
    return Graph(
        Node(n.name, n.op, n.inputs, tuple(starts[_instance(n)]), n.device, n.attrs)
        if n.op == WAIT
        else n
        for n in graph
    )


def _instance(node: Node) -> tuple[int, int]:
    """Returns the group and the instance to which a collective's start or wait belongs."""
    return node.attrs["group_key"], node.attrs["instance_key"]
