"""Bundles: the tensors that are sent together from one device to another.

All tensors that cross from device A to device B from one level form one bundle, with four
exceptions. Values read before a change of state get a separate bundle, sent before the change.
Tensors needed only together with the bundle of a later level are added to that bundle (`_joined`).
Tensors after different ops that may wait are sent separately (`ir.strands`). And if `Splitting`
requests it, large gradients are sent before the level is complete: tensors that the receiver only
applies to its state are grouped, in the order of production, into parts of at least
`LEAST_PART_BYTES`, each sent after its last producer. Small ones go with the next large one, the
rest with the last part; there are at most `MAX_PARTS` parts and one for the rest, however many
tensors there are.

Other tensors stay together: a receiver that computes with them needs all shapes before it can make
a plan (`compiler.stages`), and if all are available at once, as the values of variables are,
splitting gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.effects import find_handles, find_updates, mutates
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.strands import Classes
from sparkflow_runtime.ir.types import TensorType, Types
from sparkflow_runtime.ops import registry
from sparkflow_runtime.shapes import Shape

MAX_COPIED_CONSTANT_BYTES: Final = 1 << 16
"""Constants up to this size are copied into each partition that reads them instead of sent."""
LEAST_PART_BYTES: Final = 256 << 10
"""Over loopback TCP they take 0.21 ms; another message in a step loop costs 0.15 ms (2026-11-21,
2 cores shared with 8 others)."""
MAX_PARTS: Final = 8


@dataclass(frozen=True, slots=True)
class Splitting:
    """Which bundles are split.

    Attributes:
        types: What is known of tensors; missing ones count as small.
        is_split: Decides by source and destination device. Between tasks of one host, which
            exchange bundles in memory, there is little to gain.
    """

    types: Types
    is_split: Callable[[str, str], bool]

    def size_bytes(self, graph: Graph, endpoint: Endpoint, consumer: Node) -> int:
        """Returns the size of a tensor that a node applies to its state; 0 if unknown."""
        dtype = value_dtype(graph[endpoint.node], endpoint)
        found = static_type(graph.nodes, self.types, endpoint)
        if found is None or dtype not in dtypes.PLAIN:
            return 0
        shape = found.shape
        state = _shape_of_state(graph, consumer)
        if shapes.is_compatible(shape, state):
            # Feeds have no shape, and so some gradients have none; their destinations have one.
            shape = shapes.merge(shape, state)
        return (shapes.num_elements(shape) or 0) * int(np.dtype(dtype.as_numpy_dtype).itemsize)


def static_type(nodes: Mapping[str, Node], types: Types, endpoint: Endpoint) -> TensorType | None:
    """Returns a tensor's type; for nodes added by a pass, that of a tensor of the same size."""
    producer, found = nodes[endpoint.node], types.get(endpoint)
    while found is None and _keeps_size(producer):
        found = types.get(producer.inputs[0])
        producer = nodes[producer.inputs[0].node]
    return found


def _keeps_size(node: Node) -> bool:
    """Whether the output has the only input's shape: passes insert such nodes at boundaries."""
    op = registry.lookup(node.op)
    return len(node.inputs) == 1 and (op.passes_on or op.elementwise)


def _shape_of_state(graph: Graph, node: Node) -> Shape:
    """Returns the shape of the variable or accumulator that a node changes as a whole."""
    names = {arg.name for arg in registry.lookup(node.op).signature.inputs}
    if not node.inputs or names & {"indices", "gradient_indices"}:
        return None
    return graph[node.inputs[0].node].attrs.get("shape")


@dataclass(slots=True)
class Bundle:
    """The tensors sent from one device to another in one message.

    Attributes:
        key: Its name on both sides, which begins with the number of the source.
        source, destination: Devices.
        endpoints: The tensors.
        controls: Nodes whose completion it signals.
        last_producer: The position in the global order after which it is sent.
        first_consumer: The position before which it is received.
        behind: The ops before it that may wait.
    """

    key: str
    source: str
    destination: str
    endpoints: list[Endpoint]
    controls: list[str]
    last_producer: int
    first_consumer: int
    behind: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, str]:
        """The names of the nodes that send and receive it."""
        return self.send_name, self.recv_name

    @property
    def send_name(self) -> str:
        """The name of the node that sends it."""
        return f"_send/{self.key}"

    @property
    def recv_name(self) -> str:
        """The name of the node that receives it."""
        return f"_recv/{self.key}"


@dataclass(slots=True)
class Bundles:
    """All bundles between the devices of a graph.

    Attributes:
        all: The bundles.
        by_edge: The bundle of each (producer node, consuming device).
        early: By node that consumes parts, the last position in the order at which one of them is
            sent.
    """

    all: list[Bundle] = field(default_factory=list)
    by_edge: dict[tuple[str, str], Bundle] = field(default_factory=dict)
    early: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Item:
    """The tensors that one node sends to another device."""

    producer: str
    position: int
    first_consumer: int
    endpoints: dict[Endpoint, None] = field(default_factory=dict)
    is_control: bool = False
    is_applied: bool = True
    first: str = ""  # of its readers
    consumers: dict[str, None] = field(default_factory=dict)


_Group = tuple[str, str, int, int, frozenset[str]]
"""Source, destination, level of the source, whether after a change of state there, and the ops
before it that may wait."""


def find_bundles(
    graph: Graph,
    order: Sequence[Node],
    levels: Mapping[str, int],
    splitting: Splitting | None,
    classes: Classes | None = None,
) -> Bundles:
    """Returns the bundles of a graph.

    Args:
        graph: The nodes.
        order: The same in the global order.
        levels: By node, the number of device boundaries before it.
        splitting: Which bundles are split; None for none.
        classes: For every node, the ops before it that may wait; None if nothing may wait.

    Raises:
        InvalidArgumentError: A resource handle would have to cross devices.
    """
    groups = _joined(graph, order, levels, _groups(graph, order, levels, classes))
    kinds = {behind: number for number, behind in enumerate({each[-1]: None for each in groups})}
    numbers = {device: i for i, device in enumerate(dict.fromkeys(n.device for n in order))}
    found = Bundles()
    for group, items in groups.items():
        source, destination, level, phase, behind = group
        key = f"{numbers[source]}-{numbers[destination]}-{level}-{phase}"
        if len(kinds) > 1:
            key += f"-behind{kinds[behind]}"
        parts = [items]
        if splitting is not None and splitting.is_split(source, destination):
            parts = _split(graph, items, splitting)
        for number, part in enumerate(parts):
            bundle = Bundle(
                f"{key}-{number}" if number else key,
                source,
                destination,
                [endpoint for item in part for endpoint in item.endpoints],
                [item.producer for item in part if item.is_control],
                max(item.position for item in part),
                min(item.first_consumer for item in part),
                behind,
            )
            found.all.append(bundle)
            for item in part:
                found.by_edge[item.producer, destination] = bundle
                if len(parts) > 1:
                    for name in item.consumers:
                        last = max(found.early.get(name, 0), bundle.last_producer)
                        found.early[name] = last
    return found


def _groups(
    graph: Graph,
    order: Sequence[Node],
    levels: Mapping[str, int],
    classes: Classes | None,
) -> dict[_Group, list[_Item]]:
    changed: set[tuple[str, int]] = set()
    after_change: dict[str, bool] = {}
    applies: dict[str, bool] = {}
    for node in order:
        place = (node.device, levels[node.name])
        applies[node.name] = mutates(node)
        if applies[node.name]:
            changed.add(place)
        after_change[node.name] = place in changed
    position = {node.name: index for index, node in enumerate(order)}
    groups: dict[_Group, list[_Item]] = {}
    items: dict[tuple[str, str], _Item] = {}
    nodes = graph.nodes
    for index, node in enumerate(order):
        needs = node.inputs
        if node.control_inputs:
            needs += tuple(Endpoint(name, -1) for name in node.control_inputs)
        for endpoint in needs:
            producer = nodes[endpoint.node]
            if producer.device == node.device or copied(producer):
                continue
            item = items.get((producer.name, node.device))
            if item is None:
                item = _Item(producer.name, position[producer.name], index)
                items[producer.name, node.device] = item
                # A value read before a change of state is sent before the change.
                phase = int(after_change[producer.name])
                behind = frozenset[str]() if classes is None else classes[producer.name]
                group = (producer.device, node.device, levels[producer.name], phase, behind)
                groups.setdefault(group, []).append(item)
            if endpoint.slot < 0:
                # A node that only waits for it, such as the start of an update, waits for its part.
                item.is_control = True
            else:
                if endpoint not in item.endpoints:
                    _require_movable(producer, endpoint, node)
                    item.endpoints[endpoint] = None
                item.first = item.first or node.name
                item.is_applied &= applies[node.name]
            item.consumers[node.name] = None
    return groups


def _joined(
    graph: Graph,
    order: Sequence[Node],
    levels: Mapping[str, int],
    groups: dict[_Group, list[_Item]],
) -> dict[_Group, list[_Item]]:
    """Merges groups into later ones where possible, which saves messages.

    An example is a step number that goes with a gradient. The receiver needs them only together
    with the later one, and the state from which they were computed does not change before that is
    sent.
    """
    if len(groups) < 2:
        return groups
    owner = find_handles(order)
    updates = find_updates(order, owner)
    position = {node.name: index for index, node in enumerate(order)}
    joined = dict(groups)
    alike: dict[tuple[str, str, frozenset[str]], list[_Group]] = {}
    for group in groups:
        alike.setdefault((group[0], group[1], group[4]), []).append(group)
    for group in sorted(groups, key=lambda group: group[2], reverse=True):
        source, destination, level, _, behind = group
        items = joined[group]
        needed = min(levels[name] for item in items for name in item.consumers)
        others = alike[source, destination, behind]
        later = [other for other in others if level < other[2] < needed]
        if not later:
            continue
        other = min(later, key=lambda other: other[2:4])
        sent = max(item.position for item in joined[other])
        read = _read_for(graph, [item.producer for item in items], owner)
        first = min(item.position for item in items)
        if not any(
            first < position[name] <= sent for each in read for name in updates.get(each, ())
        ):
            joined[other] = items + joined[other]
            del joined[group]
            others.remove(group)
    return joined


def _read_for(
    graph: Graph, names: Sequence[str], owner: Mapping[Endpoint, Endpoint]
) -> set[Endpoint]:
    """Returns the variables from which nodes of a device are computed."""
    device = graph[names[0]].device
    found: set[Endpoint] = set()
    seen = set(names)
    todo = list(names)
    while todo:
        for endpoint in graph[todo.pop()].inputs:
            if endpoint in owner:
                found.add(owner[endpoint])
            if endpoint.node not in seen and graph[endpoint.node].device == device:
                seen.add(endpoint.node)
                todo.append(endpoint.node)
    return found


def _split(graph: Graph, items: list[_Item], splitting: Splitting) -> list[list[_Item]]:
    """Returns the parts of a bundle, in the order of production."""
    is_split = {item.producer: item.is_applied and bool(item.endpoints) for item in items}
    applied = sorted(
        (item for item in items if is_split[item.producer]), key=lambda item: item.position
    )
    sizes = [
        sum(splitting.size_bytes(graph, each, graph[item.first]) for each in item.endpoints)
        for item in applied
    ]
    least = max(LEAST_PART_BYTES, -(-sum(sizes) // MAX_PARTS))
    parts: list[list[_Item]] = []
    part: list[_Item] = []
    filled = 0
    for item, size in zip(applied, sizes, strict=True):
        part.append(item)
        filled += size
        if filled >= least:
            parts.append(part)
            part, filled = [], 0
    others = [item for item in items if not is_split[item.producer]]
    if others or not parts:
        parts.append(others + part)
    else:
        parts[-1] += part
    return parts if len(parts) > 1 else [items]


def copied(node: Node) -> bool:
    """Whether the node is copied into every partition that reads it."""
    return (
        node.op == "Const"
        and not node.control_inputs
        and node.attrs["value"].nbytes <= MAX_COPIED_CONSTANT_BYTES
    )


def value_dtype(producer: Node, endpoint: Endpoint) -> DType:
    """Returns the dtype of a tensor's value, also if it is a reference."""
    outputs = registry.lookup(producer.op).signature.output_dtypes(producer.attrs)
    return outputs[endpoint.slot].base


def _require_movable(producer: Node, endpoint: Endpoint, consumer: Node) -> None:
    if value_dtype(producer, endpoint) is dtypes.resource:
        raise InvalidArgumentError(
            message=f"{endpoint} is a resource handle on {producer.device}; it cannot be used on "
            f"{consumer.device}"
        ).at(consumer.describe())
