"""Finds the ranks of each collective, and splits it into a start and a wait.

The ranks of a group are either the devices of this graph that have nodes of it (in-graph), or these
devices on each of several tasks of their job, where every task's session runs a graph of its own
(between-graph): rank 0 is then on task 0. Every node becomes a start, which never waits, and a
wait, which `partition` places after the starts of all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import SOURCE_ATTR, START, WAIT, Endpoint, Node
from sparkflow_runtime.ir.types import TensorType
from sparkflow_runtime.ops import registry

_KEPT: Final = ("merge_op", "final_op", "shape", "root")
_Instance = tuple[int, int]


def split_collectives(
    graph: Graph, types: Mapping[Endpoint, TensorType], whole: Graph | None = None
) -> Graph:
    """Returns the graph with each collective split in two; the same object if it has none.

    Args:
        graph: A placed graph.
        types: What is known of its tensors.
        whole: The session's graph: distinguishes ranks omitted from this step from ranks elsewhere.

    Raises:
        InvalidArgumentError: The nodes of a group are inconsistent with each other or its size.
    """
    found = [node for node in graph if _is_collective(node)]
    if not found:
        return graph
    groups = _groups(found, graph if whole is None else whole)
    halves: dict[str, tuple[Node, Node]] = {}
    for node in found:
        devices, between = groups[node.attrs["group_key"]]
        halves[node.name] = _halves(node, devices, between, types)
    nodes = [half for node in graph for half in halves.get(node.name, (node,))]
    return Graph(nodes)


def _is_collective(node: Node) -> bool:
    return registry.lookup(node.op).is_collective


def _instance(node: Node) -> _Instance:
    return node.attrs["group_key"], node.attrs["instance_key"]


def _groups(found: Sequence[Node], whole: Graph) -> dict[int, tuple[tuple[str, ...], bool]]:
    """Returns, per group, the devices of its ranks, and whether they are in separate sessions."""
    by_key: dict[int, list[Node]] = {}
    for node in found:
        by_key.setdefault(node.attrs["group_key"], []).append(node)
    existing: dict[_Instance, int] = {}
    for node in whole:
        if registry.contains(node.op) and _is_collective(node):
            existing[_instance(node)] = existing.get(_instance(node), 0) + 1
    return {key: _ranks(nodes, existing) for key, nodes in by_key.items()}


def _ranks(
    nodes: Sequence[Node], existing: Mapping[_Instance, int]
) -> tuple[tuple[str, ...], bool]:
    first = nodes[0]
    key, size = first.attrs["group_key"], first.attrs["group_size"]
    specs = {node.device: DeviceSpec.from_string(node.device) for node in nodes}
    here = sorted(specs, key=lambda device: _order(specs[device]))
    instances: dict[_Instance, dict[str, Node]] = {}
    for node in nodes:
        if node.attrs["group_size"] != size:
            raise InvalidArgumentError(
                message=f"Collective group {key} has {size} ranks in {first.name!r} and "
                f"{node.attrs['group_size']} in {node.name!r}"
            ).at(node.describe())
        placed = instances.setdefault(_instance(node), {})
        if node.device in placed:
            raise InvalidArgumentError(
                message=f"Instance {node.attrs['instance_key']} of collective group {key} has two "
                f"nodes on {node.device}: {placed[node.device].name!r} and {node.name!r}"
            ).at(node.describe())
        placed[node.device] = node
    for instance, placed in instances.items():
        if len(placed) < max(len(here), min(existing.get(instance, 0), size)):
            raise InvalidArgumentError(
                message=f"Instance {instance[1]} of collective group {key} has {len(placed)} of "
                f"its ranks in this step, {', '.join(node.name for node in placed.values())}: all "
                "must be fetched together"
            ).at(first.describe())
    if len(here) == size:
        return tuple(here), False
    return _elsewhere(first, size, here, specs), True


def _elsewhere(
    node: Node, size: int, here: Sequence[str], specs: Mapping[str, DeviceSpec]
) -> tuple[str, ...]:
    """Returns the devices of this task's ranks on each task, from 0, that the group needs."""
    tasks = {specs[device].task_name for device in here}
    num_tasks, left = divmod(size, len(here))
    own = specs[here[0]].task
    if len(tasks) > 1 or left or own is None or own >= num_tasks:
        raise InvalidArgumentError(
            message=f"Collective group {node.attrs['group_key']} has {size} ranks. This graph "
            f"has ranks on {', '.join(here)}, which is neither all of them nor an equal share of "
            "them on each of the first tasks of a job"
        ).at(node.describe())
    return tuple(
        DeviceSpec(
            specs[device].job,
            specs[device].replica,
            task,
            specs[device].device_type,
            specs[device].device_index,
        ).to_string()
        for task in range(num_tasks)
        for device in here
    )


def _order(spec: DeviceSpec) -> tuple[Any, ...]:
    return spec.job, spec.replica, spec.task, spec.device_type, spec.device_index


def _halves(
    node: Node, devices: tuple[str, ...], between: bool, types: Mapping[Endpoint, TensorType]
) -> tuple[Node, Node]:
    signature = registry.lookup(node.op).signature
    outputs = signature.output_dtypes(node.attrs)
    place = {
        "group_key": node.attrs["group_key"],
        "instance_key": node.attrs["instance_key"],
        "rank": devices.index(node.device),
        "devices": list(devices),
        "between": between,
        "timeout_seconds": node.attrs["timeout_seconds"],
    }
    if node.source:
        place[SOURCE_ATTR] = node.source
    start = Node(
        f"_start/{node.name}",
        START,
        node.inputs,
        node.control_inputs,
        node.device,
        {
            "Tin": list(signature.input_dtypes(node.attrs)),
            "Tout": list(outputs),
            "kind": node.op,
            "merge_op": "Add",
            "final_op": "Id",
            "shape": None,
            "root": 0,
            **{name: node.attrs[name] for name in _KEPT if name in node.attrs},
            **place,
        },
    )
    known = [types.get(Endpoint(node.name, slot)) for slot in range(len(outputs))]
    sizes = [None if each is None else each.shape for each in known]
    wait = Node(
        node.name,
        WAIT,
        (),
        (start.name,),
        node.device,
        {"Tout": list(outputs), "shapes": sizes, **place},
    )
    return start, wait
