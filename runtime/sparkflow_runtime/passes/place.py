"""Gives every node a complete device name.

Nodes that must share a device (variable and its updates, resource and its users, `_class`
colocation) form a group; a group goes where the requests of its members allow and kernels exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import InvalidArgumentError, OpError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops import registry


@dataclass(frozen=True, slots=True)
class Placement:
    """What a session may place on, and how.

    Attributes:
        devices: Complete names, best first: an unconstrained node takes the first with a kernel.
        allow_soft: Whether a node may fall back to a CPU of the same task when the requested device
            does not exist or has no kernel for it.
    """

    devices: Sequence[DeviceSpec]
    allow_soft: bool = False


def place(graph: Graph, placement: Placement) -> Graph:
    """The graph with complete device names.

    Raises:
        InvalidArgumentError: A requested device does not exist, or members of a colocation group
            ask for different ones; the text names the node, the request and what exists.
        UnimplementedError: The op has no kernel for the requested device.
    """
    groups = _groups(graph)
    chosen: dict[str, str] = {}
    for leader, members in groups.items():
        nodes = [graph[name] for name in members]
        chosen[leader] = _choose(nodes, placement).to_string()
    leader_of = {name: leader for leader, members in groups.items() for name in members}
    return Graph(
        Node(n.name, n.op, n.inputs, n.control_inputs, chosen[leader_of[n.name]], n.attrs)
        for n in graph
    )


def _groups(graph: Graph) -> dict[str, list[str]]:
    parent = {name: name for name in graph.nodes}

    def find(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for node in graph:
        bound_to = [name for name in node.colocated_with if name in parent]
        expected = registry.lookup(node.op).signature.input_dtypes(node.attrs)
        for endpoint, dtype in zip(node.inputs, expected, strict=False):
            if dtype.is_ref or dtype is dtypes.resource:
                bound_to.append(endpoint.node)
        for name in bound_to:
            # The producer leads, so that a group is named after its variable.
            parent[find(node.name)] = find(name)
    groups: dict[str, list[str]] = {}
    for name in graph.nodes:
        groups.setdefault(find(name), []).append(name)
    return groups


def _choose(nodes: Sequence[Node], placement: Placement) -> DeviceSpec:
    request, asking = DeviceSpec(), nodes[0]
    for node in nodes:
        if not node.device:
            continue
        try:
            spec = DeviceSpec.from_string(node.device)
        except OpError as error:
            raise error.at(node.describe()) from None
        if not _agree(request, spec):
            raise InvalidArgumentError(
                message=f"Cannot colocate nodes {asking.name!r} and {node.name!r}: "
                f"{request.to_string()} and {node.device} are different devices"
            ).at(node.describe())
        request, asking = spec.merged_over(request), node
    candidates = [spec for spec in placement.devices if request.matches(spec)]
    if not candidates and placement.allow_soft and request.device_type not in (None, "CPU"):
        softer = DeviceSpec(request.job, request.replica, request.task, "CPU", None)
        candidates = [spec for spec in placement.devices if softer.matches(spec)]
    if not candidates:
        raise InvalidArgumentError(
            message=f"Cannot assign a device for operation {asking.name!r}: it was explicitly "
            f"assigned to {request.to_string()} but available devices are "
            f"[{', '.join(spec.to_string() for spec in placement.devices)}]. "
            "Make sure the device specification refers to a valid device."
        ).at(asking.describe())
    for spec in candidates:
        if all(_runs_on(node, spec) for node in nodes):
            return spec
    if placement.allow_soft:
        for spec in placement.devices:
            if spec.task_name == candidates[0].task_name and all(_runs_on(n, spec) for n in nodes):
                return spec
    for node in nodes:
        try:
            registry.require_kernel(
                registry.lookup(node.op), str(candidates[0].device_type), node.attrs
            )
        except OpError as error:
            raise error.at(node.describe()) from None
    raise InvalidArgumentError(
        message=f"No device has kernels for all of {', '.join(node.name for node in nodes)}, "
        "which must share one"
    ).at(asking.describe())


def _agree(a: DeviceSpec, b: DeviceSpec) -> bool:
    pairs = (
        (a.job, b.job),
        (a.replica, b.replica),
        (a.task, b.task),
        (a.device_type, b.device_type),
        (a.device_index, b.device_index),
    )
    return all(x is None or y is None or x == y for x, y in pairs)


def _runs_on(node: Node, spec: DeviceSpec) -> bool:
    return registry.has_kernel(registry.lookup(node.op), str(spec.device_type), node.attrs)
