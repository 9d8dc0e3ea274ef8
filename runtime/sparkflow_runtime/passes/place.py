"""Gives every node a complete device name.

Nodes that must share a device (variable and its updates, resource or variant and its users,
`_class` colocation) form a group; a group is placed where its members' requests allow and kernels
exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import InvalidArgumentError, OpError
from sparkflow_runtime.ir.function import called
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import CLASS_ATTR, Node
from sparkflow_runtime.ops import registry

_ANYWHERE: Final = DeviceSpec()
_NO_BODIES: Final[Mapping[str, Sequence[Node]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Placement:
    """The devices on which a session may place nodes, and how.

    Attributes:
        devices: Complete names, best first: an unconstrained node takes the first with a kernel.
        allow_soft: Whether a node may fall back to a CPU of the same task when the requested device
            does not exist or has no kernel for it.
    """

    devices: Sequence[DeviceSpec]
    allow_soft: bool = False


def require_devices(graph: Graph, placement: Placement) -> Graph:
    """Checks that the devices that nodes request exist; returns the same graph.

    Runs before other passes compute or drop nodes: whether a name is valid must not depend on what
    they do.

    Raises:
        InvalidArgumentError: A requested device does not exist, or is not a device name.
    """
    fitting = _Fitting(placement)
    asking: dict[str, Node] = {}
    for node in graph:
        if node.device:
            asking.setdefault(node.device, node)
    for node in asking.values():
        request = _request_of(node)
        if not fitting.devices(request):
            raise _no_device(node, request, placement)
    return graph


def place(
    graph: Graph,
    placement: Placement,
    whole: Graph | None = None,
    bodies: Mapping[str, Sequence[Node]] = _NO_BODIES,
) -> Graph:
    """Returns the graph with complete device names.

    Args:
        graph: The graph to run.
        placement: Where it may run.
        whole: The session's graph: a node follows its colocated nodes even in steps that do not
            need them; otherwise a variable could be on different devices in initialization and
            training.
        bodies: Per node that calls functions their nodes, which run on its device.

    Raises:
        InvalidArgumentError: A requested device does not exist, or members of a colocation group
            request different ones; the text names the node, the request and the existing devices.
        UnimplementedError: The op has no kernel for the requested device.
    """
    known = _with_colocated(graph, whole or graph)
    groups = _groups(known)
    names = {spec: spec.to_string() for spec in placement.devices}
    fitting = _Fitting(placement)
    chosen: dict[str, str] = {}
    for leader, members in groups.items():
        nodes = [known[name] for name in members]
        nodes += [inner for name in members for inner in bodies.get(name, ())]
        chosen[leader] = names[_choose(nodes, placement, fitting)]
    leader_of = {name: leader for leader, members in groups.items() for name in members}
    return Graph(
        Node(n.name, n.op, n.inputs, n.control_inputs, chosen[leader_of[n.name]], n.attrs)
        for n in graph
    )


def _with_colocated(graph: Graph, whole: Graph) -> Graph:
    """Returns the graph plus those nodes of the whole one that must share a device with it."""
    absent: dict[str, Node] = {}
    stack = [name for n in graph if CLASS_ATTR in n.attrs for name in n.colocated_with]
    while stack:
        name = stack.pop()
        if name in graph or name in absent or name not in whole:
            continue
        op = whole[name].op
        if registry.contains(op) and not registry.lookup(op).is_frame:
            absent[name] = whole[name]
            stack += _bound_to(whole[name])
    return Graph([*graph, *absent.values()]) if absent else graph


def _bound_to(node: Node) -> list[str]:
    """Returns the names of the nodes that must share a device with this one."""
    found = list(node.colocated_with) if CLASS_ATTR in node.attrs else []
    signature = registry.lookup(node.op).signature
    if not signature.binds_to_inputs:
        return found
    expected = signature.input_dtypes(node.attrs)
    for endpoint, dtype in zip(node.inputs, expected, strict=False):
        if dtype.is_ref or dtype in (dtypes.resource, dtypes.variant):
            found.append(endpoint.node)
    return found


def _follows(node: Node) -> bool:
    """Whether a node is placed with its input, whatever it requests.

    Variants cannot be sent: what a loop recorded for its gradient stays on the loop's device, and
    the gradient runs there. Neither can handles: conditions and loops run where they lead to.
    """
    given = registry.lookup(node.op).signature.input_dtypes(node.attrs)
    return dtypes.variant in given or (dtypes.resource in given and any(True for _ in called(node)))


def _groups(graph: Graph) -> dict[str, list[str]]:
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        while (up := parent.get(name, name)) != name:
            parent[name] = parent.get(up, up)
            name = up
        return name

    for node in graph:
        for name in _bound_to(node):
            if name in graph:
                # The producer is the root, so that a group is named after its variable.
                parent[find(node.name)] = find(name)
    groups: dict[str, list[str]] = {}
    for name in graph.nodes:
        leader = find(name) if name in parent else name
        groups.setdefault(leader, []).append(name)
    return groups


def _choose(nodes: Sequence[Node], placement: Placement, fitting: _Fitting) -> DeviceSpec:
    """Returns the device of a group."""
    request, asking = _ANYWHERE, nodes[0]
    for node in nodes:
        if not node.device:
            continue
        spec = _request_of(node)
        if not _agree(request, spec):
            if _follows(node):
                continue
            raise InvalidArgumentError(
                message=f"Cannot colocate nodes {asking.name!r} and {node.name!r}: "
                f"{request.to_string()} and {node.device} are different devices"
            ).at(node.describe())
        request, asking = spec.merged_over(request), node
    candidates = fitting.devices(request)
    if not candidates:
        raise _no_device(asking, request, placement)
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


def _request_of(node: Node) -> DeviceSpec:
    try:
        return DeviceSpec.from_string(node.device)
    except OpError as error:
        raise error.at(node.describe()) from None


def _no_device(node: Node, request: DeviceSpec, placement: Placement) -> OpError:
    return InvalidArgumentError(
        message=f"Cannot assign a device for operation {node.name}: Operation was explicitly "
        f"assigned to {request.to_string()} but available devices are "
        f"[ {', '.join(spec.to_string() for spec in placement.devices)} ]. "
        "Make sure the device specification refers to a valid device."
    ).at(node.describe())


class _Fitting:
    """Returns the devices that match requests; by task, as clusters may have a thousand."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._of_task: dict[tuple[str | None, int | None], list[DeviceSpec]] = {}
        for spec in placement.devices:
            self._of_task.setdefault((spec.job, spec.task), []).append(spec)
        self._known: dict[DeviceSpec, list[DeviceSpec]] = {}

    def devices(self, request: DeviceSpec) -> list[DeviceSpec]:
        """Returns the devices with all requested parts, best first."""
        found = self._known.get(request)
        if found is None:
            found = self._matching(request)
            if not found and self._placement.allow_soft and request.device_type is not None:
                softer = DeviceSpec(request.job, request.replica, request.task, "CPU", None)
                found = self._matching(softer)
            self._known[request] = found
        return found

    def _matching(self, request: DeviceSpec) -> list[DeviceSpec]:
        among = self._placement.devices
        if request.job is not None and request.task is not None:
            among = self._of_task.get((request.job, request.task), [])
        return [spec for spec in among if request.matches(spec)]


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
