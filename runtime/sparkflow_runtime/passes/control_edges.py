"""Removes redundant control edges."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from sparkflow_runtime.ir.graph import Graph, predecessors
from sparkflow_runtime.ir.node import STARTS, Node

_MAX_VISITED: Final = 64
"""Maximum number of nodes searched for redundant edges to a node, plus two for each edge."""


def reduce_control_edges(graph: Graph, keep: Collection[str] = ()) -> Graph:
    """Returns the graph without redundant control edges; the same object if there are none.

    Redundant are edges from constants, arguments and inputs, and those implied by another input or
    control input. A NoOp is replaced by edges from its inputs to its successors if that does not
    add edges, unless it represents nodes of one device to successors on others.

    Args:
        graph: Any graph.
        keep: Names of nodes that must stay: the targets of the step.
    """
    if not any(node.control_inputs for node in graph):
        return graph
    order = graph.sorted()
    position = {node.name: index for index, node in enumerate(order)}
    waiting: dict[str, list[str]] = {}
    for node in order:
        for name in node.control_inputs:
            waiting.setdefault(name, []).append(node.device)
    nodes: dict[str, Node] = {}
    skipped: dict[str, tuple[str, ...]] = {}
    found = False
    for node in order:
        if node.control_inputs:
            control = _needed(node, nodes, skipped, position)
            if control != node.control_inputs:
                found = True
                node = Node(node.name, node.op, node.inputs, control, node.device, node.attrs)
        if node.op == "NoOp" and node.name not in keep:
            devices = waiting.get(node.name, [])
            before, after = len(node.control_inputs), len(devices)
            here = [*devices, *(nodes[name].device for name in node.control_inputs)]
            is_local = before <= 1 or all(device == node.device for device in here)
            if is_local and before * after <= before + after:
                found = True
                skipped[node.name] = node.control_inputs
                continue
        nodes[node.name] = node
    return Graph(nodes.values()) if found else graph


def _needed(
    node: Node,
    nodes: Mapping[str, Node],
    skipped: Mapping[str, tuple[str, ...]],
    position: Mapping[str, int],
) -> tuple[str, ...]:
    names = dict.fromkeys(
        each for name in node.control_inputs for each in skipped.get(name, (name,))
    )
    read = {endpoint.node for endpoint in node.inputs}
    waits = [n for n in names if n not in read and not _is_start(nodes[n])]
    if waits and len(waits) + len(read) > 1:
        implied = _before(read.union(waits), waits, nodes, position)
        waits = [name for name in waits if name not in implied]
    if set(waits) == set(node.control_inputs):
        return node.control_inputs
    return tuple(waits)


def _before(
    later: Collection[str],
    sought: Collection[str],
    nodes: Mapping[str, Node],
    position: Mapping[str, int],
) -> set[str]:
    """Returns predecessors of the nodes `later`, searching back as far as the nodes sought."""
    first = min(position[name] for name in sought)
    stack = [name for name in later if position[name] > first]
    seen: set[str] = set()
    left = _MAX_VISITED + 2 * len(stack)
    while stack and left:
        left -= 1
        for name in predecessors(nodes[stack.pop()]):
            if name not in seen and position[name] >= first:
                seen.add(name)
                stack.append(name)
    return seen


def _is_start(node: Node) -> bool:
    return node.op in STARTS and not node.control_inputs
